"""Configurations as points: the place of each parameter's value among its values."""

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

Places = npt.NDArray[np.signedinteger[Any]]
"""Places of values, shape (points, parameters): 32-bit integers, or 64-bit ones where a
parameter has more values than those can count."""

ALL_VALUES = 64
"""Up to so many values of a parameter, all are looked at; of more, near ones and some others."""

_NEAR = 32
_SPREAD = 32


class Points:
    """The product of the parameters' values."""

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
            if self.place_of(name, config[name]) is None:
                return f"{name}={shown(config[name])} is not one of its values"
        return None

    # --------------------------------------------------------------- encoding

    def encode(self, config: Mapping[str, Value]) -> tuple[int, ...]:
        """The place of each parameter's value; raises UsageError for what is none."""
        return tuple([self._place(p, config[p.name]) for p in self.parameters])

    def _place(self, parameter: Parameter, value: Value) -> int:
        place = self.place_of(parameter.name, value)
        if place is None:
            raise UsageError(f"{parameter.name}={shown(value)} is not one of its values")
        return place

    def place_of(self, name: str, value: Value) -> int | None:
        """`position_of` among a parameter's values, by a look-up where they are listed."""
        known = self._known.get(name)
        if known is None:
            return position_of(self.by_name[name], value)
        return known.get((type(value), value))

    @cached_property
    def _known(self) -> dict[str, dict[tuple[type, Value], int]]:
        return {
            p.name: {(type(value), value): place for place, value in enumerate(p.values)}
            for p in self.parameters
            if not isinstance(p.values, range)
        }

    def decode(self, places: Sequence[int]) -> dict[str, Value]:
        """The values at these places."""
        pairs = zip(self.parameters, places, strict=True)
        return {parameter.name: parameter.values[place] for parameter, place in pairs}

    def places_of(self, configs: Sequence[Mapping[str, Value]]) -> Places:
        """`encode` of many."""
        places = np.empty((len(configs), len(self.parameters)), dtype=self.dtype)
        for axis, p in enumerate(self.parameters):
            places[:, axis] = self.places_of_values(p.name, [config[p.name] for config in configs])
        return places

    def places_of_values(self, name: str, values: Sequence[Value]) -> list[int]:
        """Where values of one parameter stand; raises UsageError for what is none."""
        known = self._known.get(name)
        if known is None or not all((type(value), value) in known for value in values):
            return [self._place(self.by_name[name], value) for value in values]
        return [known[type(value), value] for value in values]

    def values_at(self, axis: int, places: Places) -> npt.NDArray[Any] | None:
        """A parameter's values at these places; None unless numpy holds all of them exactly."""
        values = self.parameters[axis].values
        if isinstance(values, range):
            small = max(abs(values[0]), abs(values[-1])) <= MAX_EXACT
            return places.astype(np.int64) * values.step + values.start if small else None
        column = self._columns[axis]
        return None if column is None else column[places]

    @cached_property
    def _columns(self) -> list[npt.NDArray[Any] | None]:
        return [
            np.array(p.values)
            if not isinstance(p.values, range) and all(map(_is_exact, p.values))
            else None
            for p in self.parameters
        ]

    # ------------------------------------------------------------- neighbours

    def changes(self, here: Places, most: int = ALL_VALUES) -> tuple[Places, npt.NDArray[np.intp]]:
        """The points that differ from one in one parameter, and in which.

        All values of a parameter that has at most `most`; of others the 32 nearest places on
        each side, and 32 that are spread evenly over all.
        """
        there = [self._other_places(axis, int(here[axis]), most) for axis in range(len(here))]
        which = np.repeat(np.arange(len(here)), list(map(len, there)))
        changed = np.repeat(here[None, :], len(which), axis=0)
        if there:
            changed[np.arange(len(which)), which] = np.concatenate(there)
        return changed, which

    def _other_places(self, axis: int, here: int, most: int) -> Places:
        extent = self.extents[axis]
        if extent <= most:
            places = np.arange(extent - 1, dtype=self.dtype)
            places[here:] += 1
            return places
        near = np.arange(max(0, here - _NEAR), min(extent, here + _NEAR + 1))
        spread = np.arange(_SPREAD) * (extent - 1) // (_SPREAD - 1)
        found = np.union1d(near, spread)
        return np.array(found[found != here], dtype=self.dtype)


def _is_exact(value: Value) -> bool:
    """Whether numpy holds a number exactly."""
    return isinstance(value, float) or (isinstance(value, int) and abs(value) <= MAX_EXACT)


def is_scale(parameter: Parameter) -> bool:
    """Whether neighbouring values resemble each other."""
    return parameter.kind not in ("boolean", "enum")


def near_places(parameter: Parameter, here: int, reach: int | None) -> Iterator[int]:
    """Other places: on scales those within reach (None: all), else all."""
    first, last = 0, len(parameter.values)
    if reach is not None and is_scale(parameter):
        first, last = max(0, here - reach), min(last, here + reach + 1)
    return (place for place in range(first, last) if place != here)


def step_size(parameter: Parameter, here: int, there: int) -> float:
    """The relative step on scales, and 1 for any change else."""
    if here == there:
        return 0.0
    return abs(here - there) / (len(parameter.values) - 1) if is_scale(parameter) else 1.0


def position_of(parameter: Parameter, value: Value) -> int | None:
    """Where a value stands among its parameter's values; None if it is none of them."""
    values = parameter.values
    if isinstance(values, range):
        return values.index(value) if type(value) is int and value in values else None
    for position, candidate in enumerate(values):
        if type(candidate) is type(value) and candidate == value:
            return position
    return None
