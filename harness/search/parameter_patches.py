"""Patches for the parameters of OpenTuner 0.8.8, which `harness.search.patches` applies."""

from __future__ import annotations

import random
from typing import Any

import numpy

from harness.core.errors import HarnessError


def mix_into_child() -> None:
    """opn_stochastic_mix calls copy_value(src, dst) the wrong way round: it overwrites a parent
    and never moves the child (search/manipulator.py:442)."""
    from opentuner.search.manipulator import Parameter

    def opn_stochastic_mix(
        self: Any, cfg: Any, cfgs: list[Any], ratio: list[float], *_: Any, **__: Any
    ) -> None:
        (parent,) = random.choices(cfgs, weights=ratio)
        self.copy_value(parent, cfg)

    Parameter.opn_stochastic_mix = opn_stochastic_mix


def store_plain_booleans() -> None:
    """A swarm stores numpy booleans, which hash unlike Python's and cannot be subtracted
    (search/manipulator.py:939)."""
    from opentuner.search.manipulator import BooleanParameter

    def set_value(self: Any, config: dict[str, Any], value: object) -> None:
        self._set(config, bool(value))

    BooleanParameter.set_value = set_value


def saturate_sigmoids() -> None:
    """A fast particle makes numpy warn of an overflow in exp, although the sigmoid's limit is
    right (search/manipulator.py:696 and :994)."""
    from opentuner.search.manipulator import BooleanParameter, IntegerParameter

    for owner in (BooleanParameter, IntegerParameter):
        owner.op3_swarm = numpy.errstate(over="ignore")(owner.op3_swarm)


def keep_log_integers_whole() -> None:
    """LogIntegerParameter starts from a float, so 1.0 reaches a compiler, and claims 2^32 values
    (search/manipulator.py:582 and :647)."""
    from opentuner.search.manipulator import LogIntegerParameter

    def seed_value(self: Any) -> int:
        return int(self.min_value)

    def search_space_size(self: Any) -> int:
        return int(self.max_value) - int(self.min_value) + 1

    LogIntegerParameter.seed_value = seed_value
    LogIntegerParameter.search_space_size = search_space_size


def scale_powers_exactly() -> None:
    """PowerOfTwoParameter refuses 2^29 and 2^31, whose logarithm rounds off
    (search/manipulator.py:823 to :838)."""
    from opentuner.search.manipulator import PowerOfTwoParameter

    def __init__(self: Any, name: str, min_value: int, max_value: int, **named: Any) -> None:
        for value in (min_value, max_value):
            if value < 1 or value & (value - 1):
                raise HarnessError(f"{name}: {value} is not a power of two")
        super(PowerOfTwoParameter, self).__init__(name, min_value, max_value, **named)

    def legal_range(self: Any, config: dict[str, Any]) -> tuple[int, int]:
        return _exponent(self.min_value), _exponent(self.max_value)

    def search_space_size(self: Any) -> int:
        return _exponent(self.max_value) - _exponent(self.min_value) + 1

    PowerOfTwoParameter.__init__ = __init__
    PowerOfTwoParameter._scale = lambda self, value: _exponent(value)
    PowerOfTwoParameter.legal_range = legal_range
    PowerOfTwoParameter.search_space_size = search_space_size


def clamp_on_search_scale() -> None:
    """Scaled parameters clamp a logarithm with the bounds of the value: AssertionError, or a value
    that was never meant (search/manipulator.py:617, :630 and :642)."""
    from opentuner.search.manipulator import ScaledNumericParameter

    def op1_scale(self: Any, cfg: Any, k: float) -> None:
        _set_clamped(self, cfg, self.get_value(cfg) * k)

    def op3_difference(self: Any, cfg: Any, cfg1: Any, cfg2: Any) -> None:
        _set_clamped(self, cfg, self.get_value(cfg2) - self.get_value(cfg1))

    def opn_sum(self: Any, cfg: Any, *cfgs: Any) -> None:
        _set_clamped(self, cfg, sum(map(self.get_value, cfgs)))

    ScaledNumericParameter.op1_scale = op1_scale
    ScaledNumericParameter.op3_difference = op3_difference
    ScaledNumericParameter.opn_sum = opn_sum


def _exponent(power: int) -> int:
    """Return log2 of a power of two, exactly."""
    return int(power).bit_length() - 1


def _set_clamped(parameter: Any, config: dict[str, Any], value: float) -> None:
    low, high = parameter.legal_range(config)
    parameter.set_value(config, max(low, min(high, value)))
