"""Configurations as points: the index of each parameter's value among its values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.constraints.arithmetic import MAX_EXACT
from harness.core.errors import UsageError
from harness.core.records import Value, shown
from harness.space_file import Parameter

PointArray = npt.NDArray[np.signedinteger[Any]]
"""Points as indices of values, shape (points, parameters): 32-bit integers, or 64-bit ones where a
parameter has more values than 32 bits can count."""

ALL_VALUES = 64
"""The most values of a parameter of which all are tried as neighbours; of more, only some are."""

_NEAR = 32
_SPREAD = 32


class Points:
    """The points of a space: the product of the parameters' values."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self.parameters = tuple(parameters)
        self.extents = tuple(len(p.values) for p in self.parameters)
        self.by_name = {p.name: p for p in self.parameters}
        self.axis = {p.name: axis for axis, p in enumerate(self.parameters)}
        self.dtype = np.int32 if max(self.extents, default=0) < 2**31 else np.int64

    def why_no_point(self, config: Mapping[str, Value]) -> str | None:
        """Return why a configuration is no point of the product; None if it is one."""
        for name in config:
            if name not in self.by_name:
                return f"`{name}` is not a parameter; there are {', '.join(self.by_name)}"
        for name in self.by_name:
            if name not in config:
                return f"it has no value for {name}"
            if self.index_of(name, config[name]) is None:
                return f"{name}={shown(config[name])} is not one of its values"
        return None

    # --------------------------------------------------------------- encoding

    def encode(self, config: Mapping[str, Value]) -> tuple[int, ...]:
        """Return the index of each parameter's value; raises UsageError for an unknown value."""
        return tuple([self._index(p, config[p.name]) for p in self.parameters])

    def _index(self, parameter: Parameter, value: Value) -> int:
        index = self.index_of(parameter.name, value)
        if index is None:
            raise UsageError(f"{parameter.name}={shown(value)} is not one of its values")
        return index

    def index_of(self, name: str, value: Value) -> int | None:
        """Return the index of a value among a parameter's values; None for an unknown value."""
        known = self._known.get(name)
        if known is None:
            return position_of(self.by_name[name], value)
        return known.get((type(value), value))

    @cached_property
    def _known(self) -> dict[str, dict[tuple[type, Value], int]]:
        return {
            p.name: {(type(value), value): index for index, value in enumerate(p.values)}
            for p in self.parameters
            if not isinstance(p.values, range)
        }

    def decode(self, indices: Sequence[int]) -> dict[str, Value]:
        """Return the configuration with these indices."""
        pairs = zip(self.parameters, indices, strict=True)
        return {parameter.name: parameter.values[index] for parameter, index in pairs}

    def encode_all(self, configs: Sequence[Mapping[str, Value]]) -> PointArray:
        """Encode many configurations, shape (configs, parameters)."""
        points = np.empty((len(configs), len(self.parameters)), dtype=self.dtype)
        for axis, p in enumerate(self.parameters):
            points[:, axis] = self.indices_of(p.name, [config[p.name] for config in configs])
        return points

    def indices_of(self, name: str, values: Sequence[Value]) -> list[int]:
        """Return the indices of values of one parameter; raises UsageError for an unknown value."""
        known = self._known.get(name)
        if known is None or not all((type(value), value) in known for value in values):
            return [self._index(self.by_name[name], value) for value in values]
        return [known[type(value), value] for value in values]

    def values_at(self, axis: int, indices: PointArray) -> npt.NDArray[Any] | None:
        """Return a parameter's values at these indices; None unless numpy holds all exactly."""
        values = self.parameters[axis].values
        if isinstance(values, range):
            small = max(abs(values[0]), abs(values[-1])) <= MAX_EXACT
            return indices.astype(np.int64) * values.step + values.start if small else None
        column = self._columns[axis]
        return None if column is None else column[indices]

    @cached_property
    def _columns(self) -> list[npt.NDArray[Any] | None]:
        return [
            np.array(p.values)
            if not isinstance(p.values, range) and all(map(_is_exact, p.values))
            else None
            for p in self.parameters
        ]

    # ------------------------------------------------------------- neighbours

    def changes(
        self, here: PointArray, most: int = ALL_VALUES
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


def _is_exact(value: Value) -> bool:
    """Whether a value is a number that numpy holds exactly."""
    return isinstance(value, float) or (isinstance(value, int) and abs(value) <= MAX_EXACT)


def is_scale(parameter: Parameter) -> bool:
    """Whether neighbouring values resemble each other."""
    return parameter.kind not in ("boolean", "enum")


def near_indices(parameter: Parameter, here: int, reach: int | None) -> Iterator[int]:
    """Yield other indices: on a scale those within reach (None: all), else all."""
    first, last = 0, len(parameter.values)
    if reach is not None and is_scale(parameter):
        first, last = max(0, here - reach), min(last, here + reach + 1)
    return (index for index in range(first, last) if index != here)


def step_size(parameter: Parameter, here: int, there: int) -> float:
    """Return the relative step on a scale, and 1 for any other change."""
    if here == there:
        return 0.0
    return abs(here - there) / (len(parameter.values) - 1) if is_scale(parameter) else 1.0


def position_of(parameter: Parameter, value: Value) -> int | None:
    """Return the index of a value among a parameter's values; None for an unknown value."""
    values = parameter.values
    if isinstance(values, range):
        return values.index(value) if type(value) is int and value in values else None
    for position, candidate in enumerate(values):
        if type(candidate) is type(value) and candidate == value:
            return position
    return None
