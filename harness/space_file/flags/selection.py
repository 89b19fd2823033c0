"""Resolve a selection from a catalogue into the flags, constraints and notices that it stands for.

A selection is a set's name, or a list of names of sets and flags; `-NAME` takes a flag out again,
and `{NAME: {values: [..]}}` or `{NAME: {min: .., max: .., step: ..}}` leaves it fewer values.
An item with an `option` is a flag of the space's own, and one with `files` has these as values.

What a space holds does not depend on the machine: `harness.measure.flags` asks the compiler later
which flags it knows.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.constraints.expression import Expression
from harness.core.errors import UsageError
from harness.core.records import Value, shown
from harness.core.text import suggestion
from harness.space_file.flags.catalogue import Catalogue, Setting
from harness.space_file.flags.catalogue import chosen as flags_chosen
from harness.space_file.tuned import Flag as OwnFlag
from harness.space_file.tuned import FlagPatterns, Narrowing, Selection

Ask = Callable[[Sequence[Setting]], Mapping[Setting, str | None]]
"""Ask a compiler about settings; returns its objection to each, None where it accepts."""


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
class SelectedFlags:
    """The flags that a space selects from a compiler's catalogue.

    `linked` is True where a program is built, not a kernel that is loaded by itself. `values` are
    those of the catalogue's flags, and `constraints` the conditions between them. `levels` are the
    values that are baselines. `notices` says what was left out, and why. `changes_values` is False
    where every configuration must compute the very same bits; of a space's own flags nothing is
    known.
    """

    selection: Selection
    linked: bool
    values: Mapping[str, Sequence[Value]]
    constraints: tuple[Expression, ...]
    levels: Mapping[str, tuple[Value, ...]]
    notices: tuple[str, ...]
    changes_values: bool


def own_flags(selection: Selection) -> dict[str, OwnFlag]:
    """Return the flags that a selection declares instead of naming them."""
    return {
        name: flag
        for item in selection
        if not isinstance(item, str)
        for name, flag in item.items()
        if not isinstance(flag, Narrowing)
    }


def resolve(
    catalogue: Catalogue, selection: Selection, ask: Ask | None = None, *, linked: bool = False
) -> SelectedFlags:
    """Return the flags of a selection that the compiler knows.

    `ask` asks the compiler that is here; without it nothing is left out, and a notice says so.
    `linked` says that what is built is a program, not a kernel that is loaded by itself. Raises
    UsageError for a name that the catalogue does not have, or a narrowing that does not fit.
    """
    own = own_flags(selection)
    filed = [name for name, flag in own.items() if _is_filed(catalogue, name, flag)]
    chosen = flags_chosen(catalogue.flags, catalogue.sets, selection)
    notices: list[str] = []
    if not linked:
        for name in [n for n in chosen if catalogue.flags[n].needs == "linking"]:
            notices.append(f"`{name}` acts only on a program that is linked; it is left out")
            del chosen[name]
    if ask is None:
        notices.append("no compiler was asked which of these flags it knows")
    else:
        chosen = dict(_known(catalogue, chosen, ask, notices))
    if not chosen and not own:
        notices.append("the selection leaves no flag to tune")
    values = {name: values for name, values in chosen.items() if name not in own}
    flags = catalogue.flags
    return SelectedFlags(
        selection,
        linked,
        values,
        tuple(_among(catalogue, (*chosen, *filed))),
        {n: tuple(v for v in flags[n].baselines if v in there) for n, there in values.items()},
        tuple(notices),
        bool(own) or any(len(flags[n].exact(v)) < len(v) for n, v in chosen.items()),
    )


def _is_filed(catalogue: Catalogue, name: str, flag: OwnFlag) -> bool:
    """Whether an item names the files of a flag of the catalogue."""
    if not isinstance(flag, FlagPatterns) or flag.option is not None:
        return False
    known = [n for n, flag in catalogue.flags.items() if flag.type == "files"]
    if name not in known:
        what = "takes no files" if name in catalogue.flags else "is no flag that takes files"
        hint = "declare it with an `option`"
        raise UsageError(f"`{name}` {what}; {suggestion(name, known, hint)}")
    return True


# -------------------------------------------------------------------------- what is known here


def _known(
    catalogue: Catalogue, chosen: Mapping[str, Sequence[Value]], ask: Ask, notices: list[str]
) -> Iterator[tuple[str, Sequence[Value]]]:
    """Yield the flags and values that the compiler accepts; of a range, only its ends are tried."""
    said = ask([s for n, v in chosen.items() for s in _settings(catalogue, n, v)])
    for name, values in chosen.items():
        tried = _tried(values)
        refused = {
            value: message
            for value, setting in zip(tried, _settings(catalogue, name, values), strict=True)
            if (message := said[setting]) is not None
        }
        if not refused:
            yield name, values
        elif isinstance(values, range) or len(refused) == len(values):
            value, message = next(iter(refused.items()))
            spelled = " ".join(catalogue.flags[name].words(value))
            notices.append(f"`{name}` is left out: the compiler refuses {spelled}: {message}")
        else:
            yield name, tuple(value for value in values if value not in refused)
            for value, message in refused.items():
                notices.append(f"`{name}` is left without {shown(value)}: {message}")


def _tried(values: Sequence[Value]) -> Sequence[Value]:
    return tuple(dict.fromkeys((values[0], values[-1]))) if isinstance(values, range) else values


def _settings(catalogue: Catalogue, name: str, values: Sequence[Value]) -> list[Setting]:
    flag = catalogue.flags[name]
    linked = flag.needs == "linking"
    return [Setting(flag.words(value), linked) for value in _tried(values)]


# -------------------------------------------------------------------------- as a space has them


def _among(catalogue: Catalogue, names: Sequence[str]) -> Iterator[Expression]:
    """Yield the constraints over these flags that can be false while every other one is absent."""
    for constraint in catalogue.constraints:
        absent = {n: catalogue.flags[n].absent for n in constraint.names.difference(names)}
        if not absent:
            yield constraint
        elif _can_be_false(catalogue, constraint, absent):
            yield _with_values(constraint, absent)


def _can_be_false(
    catalogue: Catalogue, constraint: Expression, absent: Mapping[str, Value]
) -> bool:
    found = [dict(absent)]
    for name in constraint.names.difference(absent):
        flag = catalogue.flags[name]
        found = [{**given, name: value} for given in found for value in (flag.absent, *flag.values)]
    return not all(constraint.holds(given) for given in found)


def _with_values(written: Expression, values: Mapping[str, Value]) -> Expression:
    """Return a constraint with words such as `absent` in place of flags that are never there.

    So it needs no value for them wherever it is read again, as in a database. Messages show it as
    it was written.
    """
    text = written.text.encode()  # syntax trees count columns in bytes
    nodes = [n for n in ast.walk(written.tree) if isinstance(n, ast.Name) and n.id in values]
    for node in sorted(nodes, key=lambda node: -node.col_offset):
        word = shown(values[node.id]).encode()
        text = text[: node.col_offset] + word + text[node.end_col_offset :]
    settled = Expression(text.decode())
    settled.written = written.text
    return settled
