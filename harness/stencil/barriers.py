"""Insert barriers between conflicting accesses of a group's threads to local memory.

All threads of a group execute the statements outside the loops that they share, in order. A
barrier goes before each statement that reads local memory written since the last barrier, or
writes local memory used since then, and at the end of a loop's body where one iteration conflicts
with the next.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from harness.stencil.nest import Assignment, Barrier, Loop, Statement, loads_of, statements_of


@dataclass
class _Use:
    """The names of the local buffers that are read and written."""

    read: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)

    def conflicts(self, later: _Use) -> bool:
        """Return whether this use and a later one need a barrier between them."""
        return bool(self.written & (later.read | later.written) or self.read & later.written)

    def add(self, other: _Use) -> None:
        self.read |= other.read
        self.written |= other.written


def with_barriers(block: list[Statement]) -> list[Statement]:
    """Insert the barriers that a block needs."""
    return _with_uses(block)[0]


def _with_uses(block: Iterable[Statement]) -> tuple[list[Statement], _Use, _Use, bool]:
    """Return the statements with barriers, their uses before the first barrier and since the last,
    and whether there is a barrier."""
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
    """Return the same as `_with_uses`, for one statement."""
    if not isinstance(statement, Loop) or statement.kind == "local":
        used = _used(statement)
        return statement, used, used, False
    body, first, since, met = _with_uses(statement.body)
    if statement.form == "for" and since.conflicts(first):
        body, since, met = [*body, Barrier()], _Use(), True
    return replace(statement, body=body), first, since, met


def _used(statement: Statement) -> _Use:
    stored = [s for s in statements_of([statement]) if isinstance(s, Assignment)]
    read = (load.buffer for s in stored for load in loads_of(s.value))
    written = (s.target.buffer for s in stored)
    return _Use(*({b.name for b in used if b.space == "local"} for used in (read, written)))
