"""The parameters and compiler flags of a space, as the search sees them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from harness.constraints.expression import Expression
from harness.core.program import FlagFile
from harness.core.records import Value, shown
from harness.space_file.document import Location
from harness.space_file.tuned import (
    BooleanParameter,
    Flag,
    FlagPatterns,
    FlagSwitch,
    IntegerParameter,
    LogIntegerParameter,
    PowerOfTwoParameter,
)
from harness.space_file.tuned import Parameter as ParameterModel

Values = Sequence[Value]

_MOST_SHOWN = 12


@dataclass(frozen=True)
class Parameter:
    """A tuned parameter with its `values` in search order.

    `kind` is boolean, enum, integer, log_integer, power_of_two or ordered (a list of numbers);
    `role` is launch, source, choice or flag. A flag has a `compiler`, such as nvcc, and an
    `option` that spells it; where it is absent, its value is None, or False if it is boolean. A
    flag with numbers is an enum of None and the numbers (`is_optional_number`).
    Where `when` is false, the parameter has no effect and stays at its default. `files` are those
    that values of a flag name.
    """

    name: str
    kind: str
    values: Values
    role: str
    default: Value
    compiler: str | None = None
    option: str | None = None
    when: Expression | None = None
    files: Mapping[str, FlagFile] = field(default_factory=dict, hash=False)

    @cached_property
    def is_optional_number(self) -> bool:
        """Whether this is a flag with two or more ascending numbers, or absent, which comes
        first."""
        first, numbers = self.values[0], self.values[1:]
        return self.kind == "enum" and first is None and len(numbers) > 1 and _is_scale(numbers)

    def allows(self, value: Value) -> bool:
        """Whether this is one of the values."""
        return self.position(value) is not None

    def why_no_value(self, value: Value) -> str | None:
        """Return why this is not one of the values; None where it is."""
        if self.allows(value):
            return None
        listed = list(map(shown, self.values[:_MOST_SHOWN]))
        if len(self.values) > _MOST_SHOWN:
            listed = [*listed[:2], "...", shown(self.values[-1])]
        others = () if isinstance(self.values, range) else self.values  # a range may be huge
        equal = next((shown(other) for other in others if other == value), None)
        hint = f"; {equal} equals it but has another type: write that" if equal else ""
        return f"{shown(value)} is not one of its values: {', '.join(listed)}{hint}"

    def position(self, value: Value) -> int | None:
        """Return the index of a value; None for any other. 1, 1.0 and True are different values."""
        if isinstance(self.values, range):
            if type(value) is not int or value not in self.values:
                return None
            return self.values.index(value)
        return self._positions.get((type(value), value))

    @cached_property
    def _positions(self) -> Mapping[tuple[type, Value], int]:
        return {(type(value), value): index for index, value in enumerate(self.values)}

    def options(self, value: Value) -> tuple[str, ...]:
        """Return the compiler options that set a flag to this value; none where it is absent."""
        absent = value is None or (self.kind == "boolean" and value is False)
        if absent or self.option is None:
            return ()
        file = self.files.get(value) if isinstance(value, str) else None
        text = shown(value) if file is None else file.mark
        # Split first: a value that contains a space stays one option.
        return tuple(part.replace("{value}", text) for part in self.option.split())


Placed = tuple[Location, Parameter]
"""A parameter or flag with its place in the file."""


def parameters_of(models: Mapping[str, ParameterModel]) -> list[Placed]:
    """Return the parameters of a space."""
    return [(("parameters", name), _parameter(name, model)) for name, model in models.items()]


def _parameter(name: str, model: ParameterModel) -> Parameter:
    kind: str = model.type
    values: Values
    if isinstance(model, IntegerParameter):
        values = range(model.min, model.max + 1, model.step)
    elif isinstance(model, LogIntegerParameter):
        values = range(model.min, model.max + 1)
    elif isinstance(model, PowerOfTwoParameter):
        values = tuple(1 << e for e in range(model.min.bit_length() - 1, model.max.bit_length()))
    elif isinstance(model, BooleanParameter):
        values = (False, True)
    else:
        values = tuple(model.values)
        kind = "ordered" if _is_scale(values) else "enum"
    if kind == "integer" and isinstance(values, range) and values.step > 1:
        kind = "ordered"
    return Parameter(name, kind, values, model.role, model.default, when=model.when)


def _is_scale(values: Values) -> bool:
    """Whether the values are numbers in ascending order."""
    if not all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
        return False
    numbers = [v for v in values if isinstance(v, (int, float))]
    return all(one < other for one, other in itertools.pairwise(numbers))


_LONG_OPTIONS = ("nvcc",)
"""Compilers whose flags begin with two dashes; other compilers' flags begin with one."""


def declared_flag(
    name: str,
    flag: Flag,
    compiler: str,
    files: Mapping[str, FlagFile] | None = None,
    catalogued: str | None = None,
) -> Parameter:
    """Return a flag that a space declares; its values may be `files`, and a catalogue may spell
    it."""
    spelled = ("--" if compiler in _LONG_OPTIONS else "-") + name
    if isinstance(flag, FlagSwitch):
        values, option = None, flag.option or spelled
    else:
        values = tuple(files or ()) if isinstance(flag, FlagPatterns) else flag.values
        option = flag.option or catalogued or f"{spelled}={{value}}"
    return flag_of(name.replace("-", "_"), compiler, option, values, flag.when, files)


def flag_of(
    name: str,
    compiler: str,
    option: str,
    values: Values | None,
    when: Expression | None = None,
    files: Mapping[str, FlagFile] | None = None,
) -> Parameter:
    """Return a flag that has one of these values or is absent; without values, it is there or
    not."""
    if values is None:
        return Parameter(name, "boolean", (False, True), "flag", False, compiler, option, when)
    every = (None, *values)
    return Parameter(name, "enum", every, "flag", None, compiler, option, when, files or {})
