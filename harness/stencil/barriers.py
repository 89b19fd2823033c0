"""Barriers, where a group's threads need what others wrote, or write what others may still read.

Statements are read in order, outside loops that are shared by the group's threads: all threads of
a group go through them together. A barrier comes before a statement that reads local memory written
since the last one, or writes local memory used since; and at the end of a loop's body where that
holds between a turn and the next.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from harness.stencil.nest import Barrier, Loop, Statement, Store, loads_of


@dataclass
class _Use:
    """Local memory that is read and written, by name."""

    read: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)

    def conflicts(self, later: _Use) -> bool:
        """Whether a barrier must lie between this and what comes later."""
        return bool(self.written & (later.read | later.written) or self.read & later.written)

    def add(self, other: _Use) -> None:
        self.read |= other.read
        self.written |= other.written


def with_barriers(block: list[Statement]) -> list[Statement]:
    """The statements, with barriers between them."""
    return _passed(block)[0]


def _passed(block: Iterable[Statement]) -> tuple[list[Statement], _Use, _Use, bool]:
    """The statements with barriers, what they use before their first one and since their last, and
    whether there is one."""
    done: list[Statement] = []
    first, since, met = _Use(), _Use(), False
    for statement in block:
        statement, begin, end, has_barrier = _one(statement)
        if since.conflicts(begin):
            done.append(Barrier())
            since, met = _Use(), True
        if not met:
            first.add(begin)
        if has_barrier:
            since, met = end, True
        else:
            since.add(end)
        done.append(statement)
    return done, first, since, met


def _one(statement: Statement) -> tuple[Statement, _Use, _Use, bool]:
    """A statement, what it uses before its first barrier and since its last, whether it has one."""
    if not isinstance(statement, Loop) or statement.kind == "local":
        used = _used(statement)
        return statement, used, used, False
    body, first, since, met = _passed(statement.body)
    if statement.form == "for" and since.conflicts(first):
        body, since, met = [*body, Barrier()], _Use(), True
    return replace(statement, body=body), first, since, met


def _used(statement: Statement) -> _Use:
    use = _Use()
    if isinstance(statement, Loop):
        for inner in statement.body:
            use.add(_used(inner))
    elif isinstance(statement, Store):
        use.read |= {x.buffer.name for x in loads_of(statement.value) if x.buffer.space == "local"}
        if statement.target.buffer.space == "local":
            use.written.add(statement.target.buffer.name)
    return use
