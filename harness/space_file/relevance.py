"""The `when` of parameters: check them, and order them by what they depend on."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from harness.constraints.expression import Expression
from harness.constraints.parts import TooLarge
from harness.constraints.solutions import constraint_table
from harness.core.errors import ExpressionError
from harness.core.records import LIMIT_NAMES, Input, Value
from harness.space_file.document import Document, Location
from harness.space_file.expressions import flag_name
from harness.space_file.files import section
from harness.space_file.solutions import SOME_LIMITS, by_compiler

if TYPE_CHECKING:
    from harness.space_file.parameters import Parameter


def conditional(parameters: Sequence[Parameter]) -> list[tuple[Parameter, Expression]]:
    """Return the parameters that have a `when`, each after those that its `when` depends on.

    Raises CycleError where one depends on itself.
    """
    by_name = {p.name: p for p in parameters}
    whens = {p.name: p.when for p in parameters if p.when is not None}
    sorter = TopologicalSorter({n: sorted(w.names & set(whens)) for n, w in whens.items()})
    return [(by_name[name], whens[name]) for name in sorter.static_order()]


def check_relevance(
    document: Document, parameters: Sequence[Parameter], inputs: Sequence[Input]
) -> None:
    """Check that every `when` can be computed, is true somewhere, and is not circular."""
    faults: dict[Location, str] = {}
    for tuned in by_compiler(parameters):
        try:
            ordered = conditional(tuned)
        except CycleError as error:
            circle: list[str] = error.args[1]
            first = next(p for p in tuned if p.name in circle)
            faults.setdefault(_location(document, first), _describe_cycle(circle))
            continue
        for parameter, when in ordered:
            message = _why_useless(parameter, when, tuned, inputs)
            if message is not None:
                faults.setdefault(_location(document, parameter), message)
    for location, text in faults.items():
        document.fault_at(location, text)


def _location(document: Document, parameter: Parameter) -> Location:
    """Return the location of a parameter's or flag's `when`."""
    if parameter.compiler is None:
        return ("parameters", parameter.name, "when")
    flags = section(document, "flags")[parameter.compiler]
    spelled = next(name for name in flags if flag_name(name) == parameter.name)
    return ("flags", parameter.compiler, spelled, "when")


def _describe_cycle(circle: Sequence[str]) -> str:
    if len(circle) == 2:
        return f"whether `{circle[0]}` matters cannot depend on `{circle[0]}` itself"
    names = [f"`{name}`" for name in reversed(circle)]
    steps = ", ".join(f"{one} on {other}" for one, other in itertools.pairwise(names))
    message = steps.replace(" on ", " depends on ", 1)
    return f"is circular: {message}; remove one of these conditions"


def _why_useless(
    parameter: Parameter, when: Expression, tuned: Sequence[Parameter], inputs: Sequence[Input]
) -> str | None:
    """Return why a condition cannot be used; None where it can, or where too little is known."""
    domains = {p.name: p.values for p in tuned}
    never = True
    for problem in dict.fromkeys(
        Input({n: v for n, v in i.items() if n in when.names}) for i in inputs
    ):
        if not when.names <= {*domains, *problem, *LIMIT_NAMES}:
            return None
        try:
            table = constraint_table(when, domains, {**SOME_LIMITS, **problem})
            never = never and not table.any()
        except ExpressionError as error:
            return str(error)
        except TooLarge:
            return _why_not_computed(when, {**SOME_LIMITS, **_defaults(tuned), **problem})
    if never and not when.names & set(LIMIT_NAMES):
        return (
            f"`{when.text}` never holds, so that {parameter.name} would never be tuned; "
            "loosen it, or remove the parameter"
        )
    return None


def _defaults(tuned: Sequence[Parameter]) -> dict[str, Value]:
    return {p.name: p.default for p in tuned}


def _why_not_computed(when: Expression, values: Mapping[str, Value]) -> str | None:
    try:
        when.holds(values)
    except ExpressionError as error:
        return str(error)
    return None
