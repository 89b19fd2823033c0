"""Flags that a space names from a catalogue -> flags and constraints as if the space declared them.

It happens in the document, before its shape is validated, so that nothing after it knows the
difference. What a space holds does not depend on the machine: which of the flags a compiler knows
is asked later, by `harness.measure.flags.fit`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.constraints.expression import Expression
from harness.core.errors import SpecError, UsageError
from harness.core.records import Value
from harness.space_file.document import Document, Place
from harness.space_file.files import section
from harness.space_file.messages import told_at

if TYPE_CHECKING:
    from harness.space_file.flags.resolve import Selection

_OF_KERNELS = ("nvcc", "opencl")


@dataclass(frozen=True)
class Notice:
    """What a person has to know of the flags of a compiler that a space names."""

    compiler: str
    text: str

    def __str__(self) -> str:
        return f"flags of {self.compiler}: {self.text}"


@dataclass(frozen=True)
class NamedFlags:
    """What a space selects from the catalogue of a compiler.

    `linked` says that a program is built, not a kernel that is loaded by itself. `levels` are the
    values of its flags that are baselines. Where `changes_values` is False every value of every
    flag must lead to the same bits.
    """

    compiler: str
    selection: Selection
    linked: bool
    levels: Mapping[str, tuple[Value, ...]]
    changes_values: bool


def expand_flags(document: Document) -> tuple[tuple[NamedFlags, ...], tuple[Notice, ...]]:
    """Put the flags of every selection, and the constraints between them, into the document.

    Returns the selections, and what a person has to know of them. Raises SpecError for one that
    cannot be resolved: what else is wrong then cannot be told, since the flags have no names.
    """
    before = len(document.faults)
    linked = "program" in document.data
    named: list[NamedFlags] = []
    notices: list[Notice] = []
    for compiler, given in list(section(document, "flags").items()):
        if _is_selection(given) and (linked or compiler in _OF_KERNELS):
            _expand(document, compiler, given, linked, named, notices)
    if len(document.faults) > before:
        raise SpecError(document.faults)
    return tuple(named), tuple(notices)


def _is_selection(given: object) -> bool:
    """Whether it is meant to name flags: a text, or a list of texts and mappings."""
    if isinstance(given, list):
        return bool(given) and all(isinstance(item, (str, dict)) and item for item in given)
    return isinstance(given, str)


def _expand(
    document: Document,
    compiler: str,
    given: Selection,
    linked: bool,
    named: list[NamedFlags],
    notices: list[Notice],
) -> None:
    # Here, since the catalogues are read with this package's Document.
    from harness.space_file.flags.catalogue import catalogue_of
    from harness.space_file.flags.resolve import resolve

    flags = document.data["flags"]
    try:
        found = resolve(catalogue_of(compiler), given, linked=linked)
    except UsageError as error:
        place: Place = ("flags", compiler)
        document.fault(place, told_at(place, str(error)))
        return
    flags[compiler] = {name: dict(flag) for name, flag in found.declarations.items()}
    _move_own(document, compiler, given)
    _add_constraints(document, compiler, found.constraints)
    named.append(NamedFlags(compiler, given, linked, found.levels, found.changes_values))
    notices += (Notice(compiler, text) for text in found.notices)


def _move_own(document: Document, compiler: str, given: Selection) -> None:
    """A flag that the space declares in the list keeps the lines where it stands."""
    for index, item in enumerate(given):
        for name in item if isinstance(item, dict) else ():
            within: Place = ("flags", compiler, index, name)
            for place, line in list(document.lines.items()):
                if place[: len(within)] == within:
                    moved: Place = ("flags", compiler, name, *place[len(within) :])
                    document.lines[moved] = line


def _add_constraints(document: Document, compiler: str, constraints: Sequence[Expression]) -> None:
    listed: Any = document.data.setdefault("constraints", [])
    if isinstance(listed, list):
        line = document.line_of(("flags", compiler))
        for constraint in constraints:
            place: Place = ("constraints", len(listed))
            document.lines[place], document.parsed[place] = line, constraint
            listed.append(constraint.text)
