"""Read and check a catalogue of compiler flags.

The catalogues of this folder are found by their compiler's name; a user's own is any YAML file of
the same shape. Faults are reported with file and line, like those of spaces.
"""

from __future__ import annotations

import functools
import keyword
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from harness.constraints.expression import FUNCTIONS, WORDS, Expression
from harness.core.errors import ExpressionError, SpecError, UsageError
from harness.core.program import family
from harness.core.records import LIMIT_NAMES, Value
from harness.core.text import suggestion
from harness.space_file.document import Document, Location, read_document
from harness.space_file.flags.model import (
    CatalogueFile,
    Flag,
    FromFiles,
    Item,
    Narrowing,
    Switch,
)
from harness.space_file.messages import describe_errors

# Each compiler with the file of its catalogue; the C++ drivers take the flags of the C drivers.
COMPILERS = {
    "nvcc": "nvcc",
    "opencl": "opencl",
    "gcc": "gcc",
    "g++": "gcc",
    "clang": "clang",
    "clang++": "clang",
}

# Selections that follow from the flags and from the set `default`.
EVERY, EXACT, FAST_MATH = "all", "exact", "fast_math"
DERIVED = (EVERY, EXACT, FAST_MATH)
DEFAULT = "default"


@dataclass(frozen=True)
class Catalogue:
    """The flags of one compiler, by their names in spaces."""

    path: Path
    flags: Mapping[str, Flag]
    sets: Mapping[str, tuple[Item, ...]]
    constraints: tuple[Expression, ...]

    def absent(self, name: str) -> Value:
        """Return the value of an absent flag: False if it is boolean, else None."""
        return False if isinstance(self.flags[name], Switch) else None


@functools.cache
def catalogue_of(compiler: str) -> Catalogue:
    """Return the catalogue of a compiler: nvcc, opencl, gcc, g++, clang or clang++, or gcc-12.

    Raises UsageError where there is none.
    """
    name = family(compiler)
    if name not in COMPILERS:
        message = f"there is no catalogue of flags for {compiler!r}; {suggestion(name, COMPILERS)}"
        raise UsageError(message)
    return load_catalogue(Path(__file__).parent / f"{COMPILERS[name]}.yaml")


def load_catalogue(path: Path) -> Catalogue:
    """Read a catalogue; raises SpecError with every fault that it has, by line."""
    document = read_document(path)
    try:
        model = CatalogueFile.model_validate(document.data)
    except ValidationError as error:
        described = describe_errors(error.errors(), document.data, (), CatalogueFile, {"flags": 2})
        for location, text in described.items():
            document.fault(location, text)
        raise SpecError(document.faults) from None
    constraints = tuple(_constraints(document, model))
    for location, text in (*_why_names(model), *_why_sets(model)):
        document.fault_at(location, text)
    if document.faults:
        raise SpecError(document.faults)
    sets = {name: tuple(items) for name, items in model.sets.items()} | _derived(model)
    return Catalogue(path, model.flags, sets, constraints)


def _derived(model: CatalogueFile) -> dict[str, tuple[Item, ...]]:
    """Return the sets that follow from the flags and from `default`: all, exact and fast_math."""
    usual = model.sets[DEFAULT]
    exact = (_exact(model.flags[named(item)], item) for item in usual)
    changing = (item for item in usual if model.flags[named(item)].changes_values is True)
    return {
        EVERY: tuple(n for n, flag in model.flags.items() if not isinstance(flag, FromFiles)),
        EXACT: tuple(item for item in exact if item is not None),
        FAST_MATH: tuple(changing),
    }


def _exact(flag: Flag, item: Item) -> Item | None:
    """Return the item with only the values that change no result; None where there are none."""
    values = selected(flag, item)
    kept = [v for v in values if v is not None and flag.keeps_values(v)]
    if len(kept) == len(values):
        return item
    return {named(item): Narrowing(values=kept)} if kept else None


def selected(flag: Flag, item: Item) -> Sequence[Value]:
    """Return the values of a flag that an item of a set selects."""
    if isinstance(item, str):
        return flag.values
    narrowing = item[named(item)]
    if narrowing.values is not None:
        return tuple(narrowing.values)
    assert isinstance(flag.values, range)
    return narrowed_range(flag.values, narrowing)


def named(item: str | Mapping[str, Any]) -> str:
    """Return the name of the flag in an item of a set."""
    return item if isinstance(item, str) else next(iter(item))


# -------------------------------------------------------------------------- what can be wrong


def _why_names(model: CatalogueFile) -> Iterator[tuple[Location, str]]:
    """Yield the flags whose names are words of constraints."""
    taken = {*FUNCTIONS, *WORDS, *LIMIT_NAMES, *keyword.kwlist}
    for name in taken & set(model.flags):
        yield ("flags", name), f"`{name}` is a word of constraints; choose another name"


def _why_sets(model: CatalogueFile) -> Iterator[tuple[Location, str]]:
    if DEFAULT not in model.sets:
        yield ("sets",), f"needs the set `{DEFAULT}`"
    for name, items in model.sets.items():
        if name in (*DERIVED, *model.flags):
            kind = "a flag" if name in model.flags else "a set that every catalogue has"
            yield ("sets", name), f"`{name}` is {kind} already; choose another name"
        for index, item in enumerate(items):
            message = _why_not_item(model, item)
            if message is not None:
                yield ("sets", name, index), message


def _why_not_item(model: CatalogueFile, item: str | Mapping[str, Narrowing]) -> str | None:
    if len(item) != 1 and not isinstance(item, str):
        return "an item is a flag's name, or one name with fewer values: `{NAME: {values: [..]}}`"
    name = named(item)
    if name not in model.flags:
        return f"`{name}` is not a flag of this catalogue; {suggestion(name, model.flags)}"
    if isinstance(model.flags[name], FromFiles):
        return f"`{name}` takes files, which only a space can name; leave it out"
    return None if isinstance(item, str) else why_not_narrower(model.flags[name], item[name])


def why_not_narrower(flag: Flag, narrowing: Narrowing) -> str | None:
    """Return why a narrowing does not select some of the flag's values; None where it does."""
    there = flag.values
    if narrowing.values is not None:
        strange = [value for value in narrowing.values if value not in there]
        listed = ", ".join(map(str, there if len(there) <= 12 else (there[0], "..", there[-1])))
        return f"{strange[0]} is not one of its values: {listed}" if strange else None
    if not isinstance(there, range):
        return "has no range; narrow it by `values`"
    left = narrowed_range(there, narrowing)
    if not left:
        return "leaves no value"
    if any(value not in there for value in left):
        steps = f" by {there.step}" if there.step > 1 else ""
        return f"its range is {there.start} to {there[-1]}{steps}"
    return None


def narrowed_range(there: range, narrowing: Narrowing) -> range:
    """Return the part of a range that a narrowing selects."""
    least = there.start if narrowing.min is None else narrowing.min
    most = there.stop - 1 if narrowing.max is None else narrowing.max
    return range(least, most + 1, narrowing.step or there.step)


def _constraints(document: Document, model: CatalogueFile) -> Iterator[Expression]:
    """Yield the constraints, and note their faults."""
    absent = {
        name: False if isinstance(flag, Switch) else None for name, flag in model.flags.items()
    }
    for index, given in enumerate(model.constraints):
        location: Location = ("constraints", index)
        try:
            expression = Expression(given)
            strange = sorted(expression.names - set(model.flags))
            if strange:
                message = f"`{strange[0]}` is not a flag; {suggestion(strange[0], model.flags)}"
                document.fault_at(location, message)
            elif not expression.holds(absent):
                message = f"`{given}` forbids that every flag is absent, the baseline"
                document.fault_at(location, message)
            else:
                yield expression
        except ExpressionError as error:
            document.fault_at(location, str(error))
