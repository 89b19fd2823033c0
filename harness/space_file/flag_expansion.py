"""Replace selections from flag catalogues by the flags and constraints that they stand for.

This happens in the document before it is validated, so later code sees declared flags only. The
result does not depend on the machine: `harness.measure.flags` asks the compiler later which
flags it knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.constraints.expression import Expression
from harness.core.errors import SpecError, UsageError
from harness.core.records import Value
from harness.space_file.document import Document, Location
from harness.space_file.files import section

if TYPE_CHECKING:
    from harness.space_file.flags.resolve import Selection

_OF_KERNELS = ("nvcc", "opencl")


@dataclass(frozen=True)
class Notice:
    """A note for the user about the flags of a compiler.

    One that is `lasting` holds whatever the compiler that is here knows.
    """

    compiler: str
    text: str
    lasting: bool = False

    def __str__(self) -> str:
        return f"flags of {self.compiler}: {self.text}"


@dataclass(frozen=True)
class NamedFlags:
    """The flags that a space selects from a compiler's catalogue.

    `linked` is True where a program is built, not a kernel that is loaded by itself. `levels` has
    the values of flags that are baselines. Where `changes_values` is False, every value of every
    flag must give bit for bit the same results.
    """

    compiler: str
    selection: Selection
    linked: bool
    levels: Mapping[str, tuple[Value, ...]]
    changes_values: bool


def expand_flags(document: Document) -> tuple[tuple[NamedFlags, ...], tuple[Notice, ...]]:
    """Put the flags of every selection, and the constraints between them, into the document.

    Returns the selections and notices about them. Raises SpecError for a selection that cannot be
    resolved; other faults cannot be found then, since the flags have no names.
    """
    before = len(document.faults)
    linked = "program" in document.data
    named: list[NamedFlags] = []
    notices: list[Notice] = []
    for compiler, selection in list(section(document, "flags").items()):
        if _is_selection(selection) and (linked or compiler in _OF_KERNELS):
            _expand(document, compiler, selection, linked, named, notices)
    if len(document.faults) > before:
        raise SpecError(document.faults)
    return tuple(named), tuple(notices)


def _is_selection(selection: object) -> bool:
    """Whether a value is a selection: a text, or a list of texts and mappings."""
    if isinstance(selection, list):
        return bool(selection) and all(isinstance(item, (str, dict)) and item for item in selection)
    return isinstance(selection, str)


def _expand(
    document: Document,
    compiler: str,
    selection: Selection,
    linked: bool,
    named: list[NamedFlags],
    notices: list[Notice],
) -> None:
    # Imported here, since the catalogues use this package's Document.
    from harness.space_file.flags.catalogue import catalogue_of
    from harness.space_file.flags.resolve import resolve

    flags = document.data["flags"]
    try:
        found = resolve(catalogue_of(compiler), selection, linked=linked)
    except UsageError as error:
        document.fault_at(("flags", compiler), str(error))
        return
    flags[compiler] = {name: dict(flag) for name, flag in found.declarations.items()}
    _move_own(document, compiler, selection)
    _add_constraints(document, compiler, found.constraints)
    named.append(NamedFlags(compiler, selection, linked, found.levels, found.changes_values))
    notices += (Notice(compiler, text) for text in found.notices)


def _move_own(document: Document, compiler: str, selection: Selection) -> None:
    """Keep the lines of flags that the space itself declares in the list."""
    for index, item in enumerate(selection):
        for name in item if isinstance(item, dict) else ():
            within: Location = ("flags", compiler, index, name)
            for location, line in list(document.lines.items()):
                if location[: len(within)] == within:
                    moved: Location = ("flags", compiler, name, *location[len(within) :])
                    document.lines[moved] = line


def _add_constraints(document: Document, compiler: str, constraints: Sequence[Expression]) -> None:
    listed: Any = document.data.setdefault("constraints", [])
    if isinstance(listed, list):
        line = document.line_of(("flags", compiler))
        for constraint in constraints:
            location: Location = ("constraints", len(listed))
            document.lines[location], document.parsed[location] = line, constraint
            listed.append(constraint.text)
