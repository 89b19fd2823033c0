"""Resolve a selection from a catalogue into declared flags, constraints and notices.

A selection is a set's name, or a list of names of sets and flags; `-NAME` takes a flag out again,
and `{NAME: {values: [..]}}` or `{NAME: {min: .., max: .., step: ..}}` leaves it fewer values.
Handed on as they are: an item with an `option`, which is a flag of the space's own, and one with
`files`, whose values are the files.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from pydantic import ValidationError

from harness.constraints.expression import Expression
from harness.core.errors import UsageError
from harness.core.records import Value, shown
from harness.core.text import suggestion
from harness.space_file.flags.catalogue import (
    Catalogue,
    named,
    selected,
    why_not_narrower,
)
from harness.space_file.flags.model import (
    Flag,
    FromFiles,
    Integer,
    Narrowing,
    OnOff,
    Setting,
    Switch,
)

Selection = str | Sequence[str | Mapping[str, Any]]
Declaration = Mapping[str, Any]
"""A flag as `flags:` of a space declares it."""

Ask = Callable[[Sequence[Setting]], Mapping[Setting, str | None]]
"""Ask a compiler about settings; returns its objection to each, None where it accepts."""


@dataclass(frozen=True)
class Resolution:
    """The result of a selection for one compiler.

    `declarations` are flags as `flags:` of a space declares them, `constraints` the conditions
    between them in the space's language. `levels` are the values of flags of the catalogue that
    are baselines. `notices` says what was left out, and why.
    `changes_values` is False where every configuration must compute the very same bits; of a
    space's own flags nothing is known.
    """

    declarations: Mapping[str, Declaration]
    constraints: tuple[Expression, ...]
    levels: Mapping[str, tuple[Value, ...]]
    notices: tuple[str, ...]
    changes_values: bool


def resolve(
    catalogue: Catalogue, selection: Selection, ask: Ask | None = None, *, linked: bool = False
) -> Resolution:
    """Return the flags of a selection that the compiler knows.

    `ask` asks the compiler that is here; without it nothing is left out, and a notice says so.
    `linked` says that what is built is a program, not a kernel that is loaded by itself. Raises
    UsageError for a name that the catalogue does not have, or a narrowing that does not fit.
    """
    items = [selection] if isinstance(selection, str) else selection
    own = {named(item): item[named(item)] for item in items if _is_own(item)}
    filed = [name for name, flag in own.items() if _is_filed(catalogue, name, flag)]
    chosen = _chosen(catalogue, [item for item in items if not _is_own(item)])
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
    declared = {name: _declared(catalogue.flags[name], v) for name, v in chosen.items()}
    return Resolution(
        {**declared, **own},
        tuple(_among(catalogue, (*chosen, *filed))),
        {n: _levels(catalogue.flags[n], values) for n, values in chosen.items() if n not in own},
        tuple(notices),
        bool(own) or not all(_keeps_values(catalogue, chosen)),
    )


# -------------------------------------------------------------------------- what is selected


def _is_own(item: str | Mapping[str, Any]) -> TypeGuard[Mapping[str, Any]]:
    """Whether an item declares a flag instead of naming one of the catalogue, or its files."""
    if isinstance(item, str) or len(item) != 1:
        return False
    given = item[named(item)]
    return isinstance(given, Mapping) and not {"option", "files"}.isdisjoint(given)


def _is_filed(catalogue: Catalogue, name: str, flag: Mapping[str, Any]) -> bool:
    """Whether an item names the files of a flag of the catalogue."""
    if "option" in flag:
        return False
    known = [n for n, flag in catalogue.flags.items() if isinstance(flag, FromFiles)]
    if name not in known:
        what = "takes no files" if name in catalogue.flags else "is no flag that takes files"
        hint = "declare it with an `option`"
        raise UsageError(f"`{name}` {what}; {suggestion(name, known, hint)}")
    return True


def _chosen(
    catalogue: Catalogue, items: Sequence[str | Mapping[str, Any]]
) -> dict[str, Sequence[Value]]:
    """Return the selected flags with their values, in the catalogue's order."""
    chosen: dict[str, Sequence[Value]] = {}
    for item in items:
        if isinstance(item, str) and item.startswith("-"):
            _take_out(catalogue, chosen, item[1:])
        else:
            _add(catalogue, chosen, item)
    return {name: chosen[name] for name in catalogue.flags if name in chosen}


def _take_out(catalogue: Catalogue, chosen: dict[str, Sequence[Value]], name: str) -> None:
    if name not in chosen:
        if name.startswith("-"):  # as on a command line
            plain, known = name.lstrip("-").replace("-", "_"), [*catalogue.sets, *catalogue.flags]
            raise UsageError(f"`-{name}` is no name of a flag; {suggestion(plain, known)}")
        hint = None if chosen else "there is no flag before it"
        raise UsageError(f"`-{name}` takes out nothing; {suggestion(name, chosen, hint)}")
    del chosen[name]


def _add(
    catalogue: Catalogue, chosen: dict[str, Sequence[Value]], item: str | Mapping[str, Any]
) -> None:
    if isinstance(item, str) and item in catalogue.sets:
        for member in catalogue.sets[item]:
            _add(catalogue, chosen, member)
        return
    name = named(item)
    if name in catalogue.sets:
        raise UsageError(f"`{name}` is a set of flags; write it without values")
    if name not in catalogue.flags:
        known = [*catalogue.sets, *catalogue.flags]
        raise UsageError(f"`{name}` is neither a flag nor a set; {suggestion(name, known)}")
    flag = catalogue.flags[name]
    if isinstance(flag, FromFiles):
        raise UsageError(f"`{name}` needs files; write `{{{name}: {{files: PATTERN}}}}`")
    chosen[name] = flag.values if isinstance(item, str) else _narrowed(name, flag, item)


def _narrowed(name: str, flag: Flag, item: Mapping[str, Any]) -> Sequence[Value]:
    given = item[name]
    if not isinstance(given, Narrowing):
        try:
            given = Narrowing.model_validate(given)
        except ValidationError as error:
            raise UsageError(f"`{name}`: {error.errors()[0]['msg']}") from None
    message = why_not_narrower(flag, given)
    if len(item) != 1 or message is not None:
        raise UsageError(f"`{name}`: {message or 'narrow one flag in each item'}")
    return selected(flag, {name: given})


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


def _levels(flag: Flag, values: Sequence[Value]) -> tuple[Value, ...]:
    return tuple(value for value in flag.baselines if value in values)


def _declared(flag: Flag, values: Sequence[Value]) -> Declaration:
    if isinstance(flag, Switch):
        return {"type": "boolean", "option": flag.option}
    if isinstance(flag, Integer) and isinstance(values, range):
        limits = {"min": values.start, "max": values[-1], "step": values.step}
        return {**limits, "option": flag.option}
    option = flag.template if isinstance(flag, OnOff) else flag.option
    return {"values": list(values), "option": option}


def _among(catalogue: Catalogue, names: Sequence[str]) -> Iterator[Expression]:
    """Yield the constraints over these flags; every other flag is absent."""
    absent = {n: catalogue.absent(n) for n in catalogue.flags if n not in names}
    for constraint in catalogue.constraints:
        expression = constraint
        missing = {n: absent[n] for n in expression.names if n in absent}
        if not missing:
            yield expression
        elif _says_something(catalogue, constraint, names):
            yield SettledExpression(expression, missing)


def _keeps_values(catalogue: Catalogue, chosen: Mapping[str, Sequence[Value]]) -> Iterator[bool]:
    for name, values in chosen.items():
        yield from map(catalogue.flags[name].keeps_values, values)


def _says_something(catalogue: Catalogue, constraint: Expression, names: Sequence[str]) -> bool:
    """Whether the constraint can be false while the flags that are not selected are absent."""
    found: list[dict[str, Value]] = [{n: catalogue.absent(n) for n in constraint.names}]
    for name in constraint.names.intersection(names):
        domain = (catalogue.absent(name), *catalogue.flags[name].values)
        found = [{**given, name: value} for given in found for value in domain]
    return not all(constraint.holds(given) for given in found)


class SettledExpression(Expression):
    """An expression in which some names are replaced by fixed values.

    A flag that a space leaves out is absent, so its name is replaced by its value: `prec_div !=
    'false'` becomes `absent != 'false'`. Messages show it as it was `written`, with those values.
    """

    def __init__(self, written: Expression, values: Mapping[str, Value]) -> None:
        super().__init__(_with_values(written, values))
        self.written = written.text
        self._describe, self._values = written.describe_values, values

    def describe_values(self, values: Mapping[str, Value]) -> str:
        """Return the values that it uses, with the fixed ones."""
        return self._describe({**self._values, **values})


def _with_values(expression: Expression, values: Mapping[str, Value]) -> str:
    """Return the expression's text with names replaced by words such as `absent`."""
    text = expression.text.encode()  # syntax trees count columns in bytes
    nodes = [n for n in ast.walk(expression.tree) if isinstance(n, ast.Name) and n.id in values]
    for node in sorted(nodes, key=lambda node: -node.col_offset):
        word = shown(values[node.id]).encode()
        text = text[: node.col_offset] + word + text[node.end_col_offset :]
    return text.decode()
