"""The catalogues of compiler flags in this folder, by their compiler's name."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from harness.constraints.expression import Expression
from harness.core.errors import UsageError
from harness.core.program import family
from harness.core.records import Value
from harness.core.text import suggestion
from harness.space_file.document import read_document
from harness.space_file.messages import StrictModel, validated
from harness.space_file.parameters import Parameter, flag_of
from harness.space_file.tuned import Condition, Name, Narrowing, Selection, Values

ON_OFF = "[no-]"


class CatalogueFlag(StrictModel):
    """A flag of a catalogue, or absent.

    A `boolean` is there or not. An `onoff` flag, such as `-f[no-]unroll-loops`, has as values the
    text from the bracket on, with and without `no-`. An `enum` takes one of the listed values, an
    `integer` a whole number, and `files` one of the files that a space names.
    """

    type: Literal["boolean", "onoff", "enum", "integer", "files"]
    option: str
    """how it is spelled on the command line"""
    changes_values: bool | Values
    """whether results may differ in their last places, or for NaN and subnormals; or the values
    with which they may"""
    needs: Literal["linking"] | None = None
    """linking: it acts only on a program that is linked"""
    listed: Values = Field(alias="values", default_factory=list)
    """of an enum"""
    min: int = 0
    """of an integer"""
    max: int = 0
    """of an integer"""
    step: int = 1
    """of an integer"""

    @property
    def values(self) -> Sequence[Value]:
        """The values of the flag, without its absence."""
        if self.type == "onoff":
            positive = self.option.partition(ON_OFF)[2]
            return (positive, f"no-{positive}")
        if self.type == "integer":
            return range(self.min, self.max + 1, self.step)
        return (True,) if self.type == "boolean" else tuple(self.listed)

    @property
    def absent(self) -> Value:
        """The value of a flag that is not there."""
        return False if self.type == "boolean" else None

    @property
    def template(self) -> str:
        """The spelling, with `{value}` where the value goes."""
        is_on_off = self.type == "onoff"
        return self.option.partition(ON_OFF)[0] + "{value}" if is_on_off else self.option

    def parameter(self, name: str, compiler: str, values: Sequence[Value]) -> Parameter:
        """Return the flag as a space tunes it, with these values."""
        is_switch = self.type == "boolean"
        return flag_of(name, compiler, self.template, None if is_switch else values)

    def exact(self, values: Sequence[Value]) -> Sequence[Value]:
        """Return those of these values with which results are bit for bit the same as without the
        flag."""
        if isinstance(self.changes_values, bool):
            return () if self.changes_values else values
        changing = self.changes_values
        return tuple(value for value in values if value not in changing)


class _CatalogueFile(StrictModel):
    """A catalogue: the flags of one compiler, named sets of them, and their conflicts."""

    flags: dict[Name, CatalogueFlag]
    sets: dict[Name, Selection]
    constraints: list[Condition] = Field(default_factory=list)


# Each compiler with the file of its catalogue; the C++ drivers take the flags of the C drivers.
COMPILERS = {
    "nvcc": "nvcc",
    "opencl": "opencl",
    "gcc": "gcc",
    "g++": "gcc",
    "clang": "clang",
    "clang++": "clang",
}

Chosen = dict[str, Sequence[Value]]
"""Flags with some of their values."""


@dataclass(frozen=True)
class Catalogue:
    """The flags of one compiler, by their names in spaces, named sets of them, and the constraints
    between them."""

    flags: Mapping[str, CatalogueFlag]
    sets: Mapping[str, Chosen]
    constraints: Sequence[Expression]

    @classmethod
    def read(cls, path: Path) -> Catalogue:
        """Read a catalogue, and add the sets that follow from its set `default`."""
        model = validated(read_document(path), _CatalogueFile)
        flags = model.flags
        sets = {name: chosen(flags, {}, selection) for name, selection in model.sets.items()}
        usual = sets["default"]
        exact = {name: flags[name].exact(values) for name, values in usual.items()}
        sets |= {
            "all": {name: flag.values for name, flag in flags.items() if flag.type != "files"},
            "exact": {name: values for name, values in exact.items() if values},
            "fast_math": {n: v for n, v in usual.items() if flags[n].changes_values is True},
        }
        return cls(flags, sets, model.constraints)


@functools.cache
def catalogue_of(compiler: str) -> Catalogue:
    """Return the catalogue of a compiler: nvcc, opencl, gcc, g++, clang or clang++, or gcc-12.

    Raises UsageError where there is none.
    """
    name = family(compiler)
    if name not in COMPILERS:
        message = f"there is no catalogue of flags for {compiler!r}; {suggestion(name, COMPILERS)}"
        raise UsageError(message)
    return Catalogue.read(Path(__file__).parent / f"{COMPILERS[name]}.yaml")


# -------------------------------------------------------------------------- what is selected


def chosen(
    flags: Mapping[str, CatalogueFlag], sets: Mapping[str, Chosen], selection: Selection
) -> Chosen:
    """Return the selected flags with their values, in the catalogue's order.

    Raises UsageError for a name that is neither a flag nor a set, or a narrowing that does not fit.
    """
    values_by_flag: Chosen = {}
    for item in selection:
        if isinstance(item, str) and item.startswith("-"):
            _take_out([*sets, *flags], values_by_flag, item[1:])
        elif isinstance(item, str):
            values_by_flag |= sets.get(item) or {item: _values(flags, sets, item)}
        else:
            for name, flag in item.items():
                if name in sets:
                    raise UsageError(f"`{name}` is a set of flags; write it without values")
                if isinstance(flag, Narrowing):
                    values_by_flag[name] = _narrowed(name, _values(flags, sets, name), flag)
    return {name: values_by_flag[name] for name in flags if name in values_by_flag}


def _take_out(names: Sequence[str], chosen_flags: Chosen, name: str) -> None:
    if name not in chosen_flags:
        if name.startswith("-"):  # as on a command line
            plain = name.lstrip("-").replace("-", "_")
            raise UsageError(f"`-{name}` is no name of a flag; {suggestion(plain, names)}")
        hint = None if chosen_flags else "there is no flag before it"
        raise UsageError(f"`-{name}` takes out nothing; {suggestion(name, chosen_flags, hint)}")
    del chosen_flags[name]


def _values(
    flags: Mapping[str, CatalogueFlag], sets: Mapping[str, Chosen], name: str
) -> Sequence[Value]:
    if name not in flags:
        hint = suggestion(name, [*sets, *flags])
        raise UsageError(f"`{name}` is neither a flag nor a set; {hint}")
    if flags[name].type == "files":
        raise UsageError(f"`{name}` needs files; write `{{{name}: {{files: PATTERN}}}}` in a space")
    return flags[name].values


def _narrowed(name: str, there: Sequence[Value], narrowing: Narrowing) -> Sequence[Value]:
    """Return the values that a narrowing leaves; raises UsageError where it does not fit."""
    left: Sequence[Value] = narrowing.values or ()
    message = None
    if narrowing.values is not None:
        strange = [value for value in left if value not in there]
        listed = ", ".join(map(str, there if len(there) <= 12 else (there[0], "..", there[-1])))
        message = f"{strange[0]} is not one of its values: {listed}" if strange else None
    elif isinstance(there, range):
        least = there.start if narrowing.min is None else narrowing.min
        most = there[-1] if narrowing.max is None else narrowing.max
        left = range(least, most + 1, narrowing.step or there.step)
        if not left or any(value not in there for value in left):
            steps = f" by {there.step}" if there.step > 1 else ""
            message = (
                f"its range is {there.start} to {there[-1]}{steps}" if left else "leaves no value"
            )
    else:
        message = "has no range; narrow it by `values`"
    if message is not None:
        raise UsageError(f"`{name}`: {message}")
    return left
