"""Check that a space has legal configurations on every input, its default among them, and that
every `when` can be computed and is true somewhere."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from harness.constraints.expression import Expression
from harness.constraints.parts import Domains, TooLarge, truth_table
from harness.constraints.solutions import Solutions
from harness.core.errors import ExpressionError
from harness.core.records import LIMIT_NAMES, Input, Value, shown
from harness.space_file.document import Document, Location
from harness.space_file.parameters import Parameter, Placed

# The limits of some device: with them only the types of what constraints compute are checked.
_SOME_LIMITS = dict(zip(LIMIT_NAMES, (1024, 48 << 10, 16, 32, 99 << 10), strict=True))

_EXPLAINED = 20


PlacedExpression = tuple[Location, Expression]


def check_legality(
    document: Document,
    placed: Sequence[Placed],
    constraints: Sequence[PlacedExpression],
    sizes: Sequence[PlacedExpression],
    inputs: Sequence[Input],
) -> None:
    """Check that every `when` is of use, and that on every input the default is legal and can be
    launched with these sizes.

    Constraints over device limits are checked later, where there is a device.
    """
    _check_relevance(document, placed, inputs)
    parameters = [parameter for _, parameter in placed]
    for tuned in by_compiler(parameters):
        faults: dict[int, str] = {}
        names = {name for _, constraint in constraints for name in constraint.names}
        for number, problem in enumerate(_differing(inputs, names)):
            for index, text in _constraint_faults(tuned, constraints, problem, number == 0):
                faults.setdefault(index, text)
        for index, text in faults.items():
            if text:
                document.fault(constraints[index][0], text)
        if document.faults:
            return
    _check_launch(document, parameters, sizes, inputs)


def by_compiler(parameters: Sequence[Parameter]) -> Iterator[list[Parameter]]:
    """Yield the parameters that are tuned together: flags of one compiler at a time."""
    compilers = {p.compiler for p in parameters}
    for compiler in sorted(compilers - {None}, key=str) or [None]:
        yield [p for p in parameters if p.compiler in (None, compiler)]


def _constraint_faults(
    parameters: Sequence[Parameter],
    constraints: Sequence[PlacedExpression],
    problem: Input,
    thoroughly: bool,
) -> Iterator[tuple[int, str]]:
    """Yield the faults of constraints on an input; an empty text where another one explains it.

    The default is checked; where it is illegal, or thoroughly, so are all configurations.
    """
    domains = {p.name: p.values for p in parameters}
    default: dict[str, Value] = {**{p.name: p.default for p in parameters}, **problem}
    # Without those that need a device or name what is not known.
    every = dict(enumerate(expression for _, expression in constraints))
    portable = {k: c for k, c in every.items() if c.names <= default.keys()}
    broken = {k: why for k, c in portable.items() if (why := _why_not_default(c, default))}
    if not broken and not thoroughly:
        return
    reasons = {k: _why_impossible(c, domains, problem) for k, c in every.items()}
    impossible = {k: why for k, why in reasons.items() if why}
    if broken and not impossible:
        yield from _conflict(domains, portable, problem)
    yield from (*impossible.items(), *broken.items())


def _why_not_default(constraint: Expression, default: Mapping[str, Value]) -> str | None:
    try:
        false = constraint.why_false(default)
    except ExpressionError as error:
        return str(error)
    return f"the default configuration is illegal: {false}" if false else None


def _why_impossible(constraint: Expression, domains: Domains, problem: Input) -> str | None:
    """Return why no configuration satisfies a constraint, or it cannot be computed."""
    holds = _holds_somewhere(constraint, domains, problem)
    if isinstance(holds, str):
        return holds
    if holds is not False or constraint.names & set(LIMIT_NAMES):
        return None
    return f"no configuration satisfies `{constraint.written}`{_on(constraint.names, problem)}"


def _conflict(
    domains: Domains, portable: Mapping[int, Expression], problem: Input
) -> Iterator[tuple[int, str]]:
    """Yield the fault of a proven contradiction between constraints, which explains all others."""

    def is_proven(constraints: Mapping[int, Expression]) -> bool:
        return Solutions(domains, constraints.values(), problem).count == 0

    if not is_proven(portable):
        return
    needed = dict(portable)
    for index in list(portable)[:_EXPLAINED]:
        rest = {other: c for other, c in needed.items() if other != index}
        if is_proven(rest):
            needed = rest
    texts = " and ".join(f"`{c.written}`" for c in needed.values())
    names = frozenset(itertools.chain.from_iterable(c.names for c in needed.values()))
    text = f"no configuration satisfies {texts} together{_on(names, problem)}; loosen one of them"
    yield list(needed)[-1], text
    yield from dict.fromkeys(portable, "").items()


def _holds_somewhere(condition: Expression, domains: Domains, problem: Input) -> bool | str | None:
    """Whether a condition holds for some configuration, or why it cannot be computed; None where
    too little is known, or it connects too many configurations."""
    given: dict[str, Value] = {**_SOME_LIMITS, **problem}
    if not condition.names <= {*domains, *given}:
        return None
    try:
        named = {name: values for name, values in domains.items() if name in condition.names}
        return bool(truth_table(condition.holds, named, given).any())
    except ExpressionError as error:
        return str(error)
    except TooLarge:
        return None


def _on(names: frozenset[str], problem: Input) -> str:
    """Return the input's features that matter, as text."""
    used = {name: value for name, value in problem.items() if name in names}
    return f" on the input ({Input(used)})" if used else ""


def _check_launch(
    document: Document,
    parameters: Sequence[Parameter],
    sizes: Iterable[PlacedExpression],
    inputs: Sequence[Input],
) -> None:
    """Check that the default's launch sizes are whole numbers on every input: from 1, bytes of
    shared memory from 0, its preferred percentage from -1."""
    default: dict[str, Value] = {p.name: p.default for p in parameters}
    for location, size in sizes:
        least = {"shared": 0, "carveout": -1}.get(str(location[1]), 1)
        for problem in _differing(inputs, size.names):
            values = {**default, **problem}
            message = _why_no_size(size, least, values) if size.names <= set(values) else None
            if message is not None:
                document.fault(location, message)
                break


def _differing(inputs: Iterable[Input], names: Collection[str]) -> Iterable[Input]:
    """Return the inputs that differ in one of these features."""
    differing: dict[tuple[Value | None, ...], Input] = {}
    for problem in inputs:
        differing.setdefault(tuple(map(problem.get, names)), problem)
    return differing.values()


def _why_no_size(size: Expression, least: int, values: Mapping[str, Value]) -> str | None:
    try:
        sizes = size(values)
    except ExpressionError as error:
        return str(error)
    if isinstance(sizes, (int, float)) and sizes >= least and sizes % 1 == 0:
        return None
    used = ", ".join(f"{name}={shown(values[name])}" for name in sorted(size.names))
    message = f"`{size.text}` is {shown(sizes)}" + (f" with {used}" if used else "")
    return f"{message}; a launch size must be a whole number from {least}"


# ------------------------------------------------------------------------------------ `when`


def conditional(parameters: Sequence[Parameter]) -> list[tuple[Parameter, Expression]]:
    """Return the parameters that have a `when`, each after those that its `when` depends on.

    Raises CycleError where one depends on itself.
    """
    by_name = {p.name: p for p in parameters}
    whens = {p.name: p.when for p in parameters if p.when is not None}
    sorter = TopologicalSorter({n: sorted(w.names & set(whens)) for n, w in whens.items()})
    return [(by_name[name], whens[name]) for name in sorter.static_order()]


def _check_relevance(document: Document, placed: Sequence[Placed], inputs: Sequence[Input]) -> None:
    """Check that every `when` can be computed, is true somewhere, and is not circular."""
    places = {id(parameter): (*location, "when") for location, parameter in placed}
    faults: dict[Location, str] = {}
    for tuned in by_compiler([parameter for _, parameter in placed]):
        try:
            ordered = conditional(tuned)
        except CycleError as error:
            circle: list[str] = error.args[1]
            first = next(p for p in tuned if p.name in circle)
            steps = " -> ".join(f"`{name}`" for name in reversed(circle))
            text = f"is circular: {steps}; remove one of these conditions"
            faults.setdefault(places[id(first)], text)
            continue
        for parameter, when in ordered:
            message = _why_useless(parameter, when, tuned, inputs)
            if message is not None:
                faults.setdefault(places[id(parameter)], message)
    for location, text in faults.items():
        document.fault(location, text)


def _why_useless(
    parameter: Parameter, when: Expression, tuned: Sequence[Parameter], inputs: Sequence[Input]
) -> str | None:
    """Return why a condition cannot be used; None where it can, or where too little is known."""
    domains = {p.name: p.values for p in tuned}
    holds = [_holds_somewhere(when, domains, problem) for problem in _differing(inputs, when.names)]
    faulty = next((reason for reason in holds if isinstance(reason, str)), None)
    if faulty is not None:
        return faulty
    if not any(holds) and None not in holds and not when.names & set(LIMIT_NAMES):
        return (
            f"`{when.text}` never holds, so that {parameter.name} would never be tuned; "
            "loosen it, or remove the parameter"
        )
    return None
