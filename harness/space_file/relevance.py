"""The `when` of parameters: where each of them matters, and in which order that is found out."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from harness.constraints.expression import Expression
from harness.constraints.solver import TooLarge, constraint_factor
from harness.core.errors import ExpressionError
from harness.core.records import LIMIT_NAMES, Input, Value
from harness.space_file.document import Document, Place
from harness.space_file.expressions import flag_name
from harness.space_file.files import section
from harness.space_file.messages import told_at
from harness.space_file.solutions import SOME_LIMITS, by_compiler

if TYPE_CHECKING:
    from harness.space_file.parameters import Parameter


def conditional(parameters: Sequence[Parameter]) -> list[tuple[Parameter, Expression]]:
    """The parameters that have a `when`, each after all those that its own depends on.

    Raises CycleError where one depends on itself.
    """
    by_name = {p.name: p for p in parameters}
    whens = {p.name: p.when for p in parameters if p.when is not None}
    sorter = TopologicalSorter({n: sorted(w.names & set(whens)) for n, w in whens.items()})
    return [(by_name[name], whens[name]) for name in sorter.static_order()]


def check_relevance(
    document: Document, parameters: Sequence[Parameter], inputs: Sequence[Input]
) -> None:
    """Every `when` can be computed, holds somewhere, and does not depend on itself."""
    faults: dict[Place, str] = {}
    for tuned in by_compiler(parameters):
        try:
            ordered = conditional(tuned)
        except CycleError as error:
            circle: list[str] = error.args[1]
            first = next(p for p in tuned if p.name in circle)
            faults.setdefault(_place(document, first), _circle_told(circle))
            continue
        for parameter, when in ordered:
            told = _why_useless(parameter, when, tuned, inputs)
            if told is not None:
                faults.setdefault(_place(document, parameter), told)
    for place, text in faults.items():
        document.fault(place, told_at(place, text))


def _place(document: Document, parameter: Parameter) -> Place:
    """Where a parameter's or flag's `when` stands."""
    if parameter.compiler is None:
        return ("parameters", parameter.name, "when")
    flags = section(document, "flags")[parameter.compiler]
    spelled = next(name for name in flags if flag_name(name) == parameter.name)
    return ("flags", parameter.compiler, spelled, "when")


def _circle_told(circle: Sequence[str]) -> str:
    if len(circle) == 2:
        return f"whether `{circle[0]}` matters cannot depend on `{circle[0]}` itself"
    names = [f"`{name}`" for name in reversed(circle)]
    steps = ", ".join(f"{one} on {other}" for one, other in itertools.pairwise(names))
    told = steps.replace(" on ", " depends on ", 1)
    return f"goes round in a circle: {told}; remove one of these conditions"


def _why_useless(
    parameter: Parameter, when: Expression, tuned: Sequence[Parameter], inputs: Sequence[Input]
) -> str | None:
    """Why a condition cannot be used; None where it can, or where too little is known."""
    domains = {p.name: p.values for p in tuned}
    never = True
    for given in dict.fromkeys(
        Input({n: v for n, v in i.items() if n in when.names}) for i in inputs
    ):
        if not when.names <= {*domains, *given, *LIMIT_NAMES}:
            return None
        try:
            table = constraint_factor(when, domains, {**SOME_LIMITS, **given}).table
            never = never and not table.any()
        except ExpressionError as error:
            return str(error)
        except TooLarge:
            return _why_not_computed(when, {**SOME_LIMITS, **_defaults(tuned), **given})
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
