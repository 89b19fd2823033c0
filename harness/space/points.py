"""Configurations as points: the index of each parameter's value among its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.errors import UsageError
from harness.core.records import Value, shown
from harness.space_file import Parameter

PointArray = npt.NDArray[np.signedinteger[Any]]
"""Points as indices of values, shape (points, parameters): 32-bit integers, or 64-bit ones where a
parameter has more values than 32 bits can count."""

_ALL_VALUES = 64
_NEAR = 32
_SPREAD = 32


class Points:
    """The points of a space: the product of the parameters' values."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self.parameters = tuple(parameters)
        self.extents = tuple(len(p.values) for p in self.parameters)
        self.axis = {p.name: axis for axis, p in enumerate(self.parameters)}
        self.dtype = np.int32 if max(self.extents, default=0) < 2**31 else np.int64

    def why_no_point(self, config: Mapping[str, Value]) -> str | None:
        """Return why a configuration is no point of the product; None if it is one."""
        for name in config:
            if name not in self.axis:
                return f"`{name}` is not a parameter; there are {', '.join(self.axis)}"
        for parameter in self.parameters:
            if parameter.name not in config:
                return f"it has no value for {parameter.name}"
            value = config[parameter.name]
            if parameter.position(value) is None:
                return f"{parameter.name}={shown(value)} is not one of its values"
        return None

    # --------------------------------------------------------------- encoding

    def encode(self, config: Mapping[str, Value]) -> tuple[int, ...]:
        """Return the index of each parameter's value; raises UsageError for an unknown value."""
        return tuple([self._index(p, config[p.name]) for p in self.parameters])

    def encode_all(self, configs: Sequence[Mapping[str, Value]]) -> PointArray:
        """Encode many configurations, shape (configs, parameters)."""
        points = np.empty((len(configs), len(self.parameters)), dtype=self.dtype)
        for axis, p in enumerate(self.parameters):
            points[:, axis] = [self._index(p, config[p.name]) for config in configs]
        return points

    def decode(self, indices: Sequence[int]) -> dict[str, Value]:
        """Return the configuration with these indices."""
        pairs = zip(self.parameters, indices, strict=True)
        return {parameter.name: parameter.values[index] for parameter, index in pairs}

    def _index(self, parameter: Parameter, value: Value) -> int:
        index = parameter.position(value)
        if index is None:
            raise UsageError(f"{parameter.name}={shown(value)} is not one of its values")
        return index

    # ------------------------------------------------------------- neighbours

    def changes(
        self, here: PointArray, most: int = _ALL_VALUES
    ) -> tuple[PointArray, npt.NDArray[np.intp]]:
        """Return the points that differ from one in one parameter, and the index of that parameter.

        All values of a parameter with at most `most` values are tried; of others, the 32 nearest on
        each side and 32 spread evenly over all.
        """
        there = [self._other_indices(axis, int(here[axis]), most) for axis in range(len(here))]
        which = np.repeat(np.arange(len(here)), list(map(len, there)))
        changed = np.repeat(here[None, :], len(which), axis=0)
        if there:
            changed[np.arange(len(which)), which] = np.concatenate(there)
        return changed, which

    def _other_indices(self, axis: int, here: int, most: int) -> PointArray:
        extent = self.extents[axis]
        if extent <= most:
            points = np.arange(extent - 1, dtype=self.dtype)
            points[here:] += 1
            return points
        near = np.arange(max(0, here - _NEAR), min(extent, here + _NEAR + 1))
        spread = np.arange(_SPREAD) * (extent - 1) // (_SPREAD - 1)
        found = np.union1d(near, spread)
        return np.array(found[found != here], dtype=self.dtype)


def is_scale(parameter: Parameter) -> bool:
    """Whether neighbouring values resemble each other."""
    return parameter.kind not in ("boolean", "enum")


def step_size(parameter: Parameter, here: int, there: Any) -> Any:
    """Return the relative step on a scale, and 1 for any other change; `there` is one index or an
    array."""
    away = abs(there - here)
    return away / max(1, len(parameter.values) - 1) if is_scale(parameter) else away != 0
