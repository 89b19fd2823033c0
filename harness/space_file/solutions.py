"""Whether a space has legal configurations, and whether its default is one, on every input."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from harness.constraints.expression import Expression
from harness.constraints.solver import Solutions, TooLarge, constraint_factor
from harness.core.errors import ExpressionError
from harness.core.records import LIMIT_NAMES, Input, Value, shown
from harness.space_file.document import Document, Place
from harness.space_file.expressions import Expressions
from harness.space_file.messages import told_at

if TYPE_CHECKING:
    from harness.space_file.parameters import Parameter

# Any device's would do: only the types of what constraints compute are checked with them.
SOME_LIMITS = dict(zip(LIMIT_NAMES, (1024, 48 << 10, 16, 32), strict=True))

_EXPLAINED = 20


def check_solutions(
    document: Document,
    parameters: Sequence[Parameter],
    expressions: Expressions,
    inputs: Sequence[Input],
) -> None:
    """On every input some configuration is legal, the default is, and it can be launched.

    What depends on a device is judged when there is one.
    """
    for tuned in by_compiler(parameters):
        _Judge(document, tuned, expressions.constraints).check(inputs)
        if document.faults:
            return
    _check_launch(document, parameters, expressions, inputs)


def by_compiler(parameters: Sequence[Parameter]) -> Iterator[list[Parameter]]:
    """The parameters that meet: flags of two compilers never do."""
    compilers = {p.compiler for p in parameters}
    for compiler in sorted(compilers - {None}, key=str) or [None]:
        yield [p for p in parameters if p.compiler in (None, compiler)]


class _Judge:
    """Holds the constraints against the parameters of one compiler; tells each fault once."""

    def __init__(
        self,
        document: Document,
        parameters: Sequence[Parameter],
        constraints: Mapping[int, Expression],
    ) -> None:
        self._document = document
        self._domains = {p.name: p.values for p in parameters}
        self._default = {p.name: p.default for p in parameters}
        self._constraints = constraints
        self._faulty: set[int] = set()

    def check(self, inputs: Iterable[Input]) -> None:
        """Judge every constraint on every input that differs in what constraints look at."""
        looked_at = {name for c in self._constraints.values() for name in c.names}
        judged: set[Input] = set()
        for given in inputs:
            seen = Input({name: value for name, value in given.items() if name in looked_at})
            if seen not in judged:
                self._check_input(given, thoroughly=not judged)
            judged.add(seen)

    def _check_input(self, given: Input, *, thoroughly: bool) -> None:
        """Judge the default; where it is illegal, and once in any case, whole tables too."""
        broken = {
            index: reason
            for index, constraint in self._portable(given).items()
            if (reason := self._why_not_default(constraint, given)) is not None
        }
        if not broken and not thoroughly:
            return
        impossible = self._impossible(given)
        for index, reason in impossible.items():
            self._note(index, reason)
        if not impossible and broken and self._note_conflict(given):
            return
        for index, reason in broken.items():
            self._note(index, reason)

    def _portable(self, given: Input) -> dict[int, Expression]:
        """The constraints that need no device and speak of what is there."""
        known = {*self._domains, *given}
        return {index: c for index, c in self._constraints.items() if c.names <= known}

    def _note(self, index: int, reason: str) -> None:
        if index not in self._faulty:
            place: Place = ("constraints", index)
            self._document.fault(place, told_at(place, reason))
            self._faulty.add(index)

    def _why_not_default(self, constraint: Expression, given: Input) -> str | None:
        try:
            false = constraint.why_false({**self._default, **given})
        except ExpressionError as error:
            return str(error)
        return f"the default configuration is illegal: {false}" if false else None

    def _impossible(self, given: Input) -> dict[int, str]:
        """The constraints that no configuration satisfies, or that some cannot be put into."""
        found = {}
        for index, constraint in self._constraints.items():
            if constraint.names <= {*self._domains, *given, *LIMIT_NAMES}:
                reason = self._why_impossible(constraint, given)
                if reason is not None:
                    found[index] = reason
        return found

    def _why_impossible(self, constraint: Expression, given: Input) -> str | None:
        try:
            table = constraint_factor(constraint, self._domains, {**SOME_LIMITS, **given}).table
        except ExpressionError as error:
            return str(error)
        except TooLarge:
            return None  # the default, which is judged by itself, has to do
        if table.any() or constraint.names & set(LIMIT_NAMES):
            return None
        return f"no configuration satisfies `{constraint.written}`{_on(constraint.names, given)}"

    def _note_conflict(self, given: Input) -> bool:
        """Whether the constraints contradict each other; tells which ones, and is certain."""
        portable = self._portable(given)
        if not self._none_legal(portable.values(), given):
            return False
        needed = dict(portable)
        for index in list(portable)[:_EXPLAINED]:
            rest = {other: c for other, c in needed.items() if other != index}
            if self._none_legal(rest.values(), given):
                needed = rest
        texts = " and ".join(f"`{c.written}`" for c in needed.values())
        names = frozenset(itertools.chain.from_iterable(c.names for c in needed.values()))
        told = f"no configuration satisfies {texts} together{_on(names, given)}; loosen one of them"
        place: Place = ("constraints", max(needed))
        self._document.fault(place, told_at(place, told))
        self._faulty.update(portable)
        return True

    def _none_legal(self, constraints: Iterable[Expression], given: Input) -> bool:
        """Whether it is certain that no configuration is legal."""
        return Solutions(self._domains, constraints, given).count == 0


def _on(names: frozenset[str], given: Input) -> str:
    """On which input, if it matters."""
    used = {name: value for name, value in given.items() if name in names}
    return f" on the input ({Input(used)})" if used else ""


def _check_launch(
    document: Document,
    parameters: Sequence[Parameter],
    expressions: Expressions,
    inputs: Sequence[Input],
) -> None:
    """The launch sizes of the default are whole numbers from 1, on every input."""
    default: dict[str, Value] = {p.name: p.default for p in parameters}
    for place, size in expressions.launch_sizes():
        for given in inputs:
            values = {**default, **given}
            told = _why_no_size(size, values) if size.names <= set(values) else None
            if told is not None:
                document.fault(place, told_at(place, told))
                break


def _why_no_size(size: Expression, values: Mapping[str, Value]) -> str | None:
    try:
        found = size(values)
    except ExpressionError as error:
        return str(error)
    if isinstance(found, (int, float)) and found >= 1 and found % 1 == 0:
        return None
    used = ", ".join(f"{name}={shown(values[name])}" for name in sorted(size.names))
    told = f"`{size.text}` is {shown(found)}" + (f" with {used}" if used else "")
    return f"{told}; a launch size must be a whole number from 1"
