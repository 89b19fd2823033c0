"""A Space as an OpenTuner manipulator, which hands out legal configurations only.

OpenTuner calls `normalize` on each proposal. Here this replaces an illegal proposal by a legal
neighbour, so no test is wasted and no illegal configuration is compiled. The technique goes on
from the configuration that was measured.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from typing import Any

import numpy as np
from opentuner.search.manipulator import (
    BooleanParameter,
    ConfigurationManipulator,
    EnumParameter,
    IntegerParameter,
    LogIntegerParameter,
)

from harness.core.records import Config, Value
from harness.models.transfer_prior import TransferData
from harness.space import Space
from harness.space_file import Parameter

Cfg = dict[str, Any]
"""A configuration as OpenTuner holds it: a plain dict of values."""


class _OrderedParameter(IntegerParameter):  # type: ignore[misc]
    """A list of ascending numbers, perhaps behind None, searched by index. As one of OpenTuner's
    enumerations it would be categorical, and techniques could only randomise it. OpenTuner's powers
    of two round 2^29 and 2^31 off."""

    def __init__(self, parameter: Parameter) -> None:
        self._parameter = parameter
        super().__init__(parameter.name, 0, len(parameter.values) - 1)

    def _to_storage_type(self, val: int) -> Value:
        return self._parameter.values[val]

    def _from_storage_type(self, sval: Value) -> int:
        position = self._parameter.position(sval)
        assert position is not None
        return position


class _PlainBoolean(BooleanParameter):  # type: ignore[misc]
    """A boolean whose values are Python's own: a particle swarm sets those of numpy, and they
    cannot be subtracted."""

    def set_value(self, config: Cfg, value: Any) -> None:
        super().set_value(config, bool(value))


class SpaceManipulator(ConfigurationManipulator):  # type: ignore[misc]
    """OpenTuner's manipulator of a Space; techniques may learn from `transfer`."""

    def __init__(
        self, space: Space, rng: random.Random, transfer: TransferData | None = None
    ) -> None:
        super().__init__()
        self.space = space
        self.rng = rng
        self.transfer = transfer
        for parameter in space.parameters:
            self.add_parameter(_opentuner_parameter(parameter))
        self._names = [parameter.name for parameter in space.parameters]

    def parameters(self, config: Cfg) -> list[Any]:
        """Return OpenTuner's parameters; a copy, since mutations shuffle the list."""
        return list(self.params)

    def seed_config(self) -> Cfg:
        """Return the default configuration."""
        return dict(self.space.default)

    def random(self) -> Cfg:
        """Draw a legal configuration uniformly."""
        drawn = self.space.sample(self.rng)
        # In a large space with a tiny share of legal points no draw may be legal; the default is.
        return dict(drawn[0]) if drawn else self.seed_config()

    def draw_unmeasured(self, taken: Collection[Config]) -> Cfg | None:
        """Draw a legal configuration outside `taken` uniformly; None where there is none."""
        drawn = self.space.sample(self.rng, 1, taken)
        return dict(drawn[0]) if drawn else None

    def copy(self, config: Cfg) -> Cfg:
        """Copy a configuration; its values are plain, so a shallow copy is enough."""
        return dict(config)

    def normalize(self, config: Cfg) -> None:
        """Make the values plain and the configuration legal, in place."""
        for name, value in config.items():
            if isinstance(value, np.generic):
                config[name] = value.item()
        config.update(self.space.nearest_legal(Config(config), self.rng))

    def hash_config(self, config: Cfg) -> str:
        """Return the digest of a configuration, by which the database knows it."""
        return Config(config).digest

    def key(self, config: Cfg) -> str:
        """Return a key of a configuration in a fifth of the time of a digest: techniques ask for
        a configuration ten times a test."""
        return repr([config[name] for name in self._names])


def _opentuner_parameter(parameter: Parameter) -> Any:
    """Make OpenTuner's parameter for one of ours."""
    values = parameter.values
    if parameter.kind == "boolean":
        return _PlainBoolean(parameter.name)
    if parameter.kind in ("ordered", "power_of_two") or parameter.is_optional_number:
        return _OrderedParameter(parameter)
    if parameter.kind == "enum":
        return EnumParameter(parameter.name, list(values))
    kind = LogIntegerParameter if parameter.kind == "log_integer" else IntegerParameter
    return kind(parameter.name, values[0], values[-1])
