"""Constraints that remove configurations through a parameter that does not matter there."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from harness.constraints.expression import Expression
from harness.core.errors import ExpressionError
from harness.core.records import Value
from harness.space_file import Parameter, Spec

_MOST_TRIED = 20_000


@dataclass(frozen=True)
class Removed:
    """A configuration that a constraint removes though the parameter does not matter in it."""

    parameter: Parameter
    example: Mapping[str, Value]


def removed_where_off(spec: Spec, constraint: Expression) -> Removed | None:
    """Find a configuration on the first input that a constraint removes at the default of a
    parameter whose `when` is false; None where none of the first 20,000 tried is one."""
    for parameter in spec.parameters:
        when = parameter.when
        if when is not None and parameter.name in constraint.names:
            example = _example(spec, constraint, parameter, when)
            if example is not None:
                return Removed(parameter, example)
    return None


def _example(
    spec: Spec, constraint: Expression, parameter: Parameter, when: Expression
) -> Mapping[str, Value] | None:
    named = (constraint.names | when.names) - {parameter.name}
    others = [p for p in spec.parameters if p.name in named]
    fixed = {**spec.inputs[0], parameter.name: parameter.default}
    for values in itertools.islice(itertools.product(*(p.values for p in others)), _MOST_TRIED):
        tried = {p.name: value for p, value in zip(others, values, strict=True)}
        try:
            if not when.holds({**fixed, **tried}) and not constraint.holds({**fixed, **tried}):
                return tried
        except ExpressionError:  # a device's limit, or a division by zero
            return None
    return None
