"""Parameters that matter only under a condition.

Configurations that differ only in parameters that do not matter are one; its canonical form has
these parameters at their defaults.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from harness.constraints.expression import Expression
from harness.core.records import Value, shown
from harness.space.judge import Judge, holds
from harness.space.points import PointArray, Points
from harness.space_file import Parameter, conditional

Move = tuple[dict[str, Value], list[Expression]]


@dataclass(frozen=True)
class _ConditionalParameter:
    """A parameter with the condition `when` it matters, and the constraint that is `implied` for
    canonical configurations."""

    parameter: Parameter
    when: Expression
    implied: Expression


class Relevance:
    """Decides which parameters matter, from the values of the others."""

    def __init__(
        self, points: Points, given: Mapping[str, Value], unjudged: Collection[str] = ()
    ) -> None:
        """`given` has the values of all other names; conditions over names in `unjudged` are left
        out."""
        self._points = points
        self._given = given
        self._conditions = [
            _ConditionalParameter(
                parameter, when, Expression.or_equal(when, parameter.name, parameter.default)
            )
            for parameter, when in conditional(points.parameters)
            if not when.names & set(unjudged)
        ]
        self._by_text = {c.implied.text: c for c in self._conditions}

    def __bool__(self) -> bool:
        return bool(self._conditions)

    @property
    def implied(self) -> list[Expression]:
        """The constraints that every canonical configuration satisfies."""
        return [condition.implied for condition in self._conditions]

    def why_false(self, implied: Expression, values: Mapping[str, Value]) -> str | None:
        """Return why a configuration is not canonical, from a false constraint of `implied`."""
        condition = self._by_text.get(implied.text)
        if condition is None:
            return None
        name, default = condition.parameter.name, shown(condition.parameter.default)
        where = condition.when.describe_values(values)
        return (
            f"{name} does not matter{f' where {where}' if where else ''}, "
            f"so it stays at its default {default}"
        )

    def canonical(self, config: Mapping[str, Value]) -> dict[str, Value]:
        """Return the configuration with all parameters that do not matter at their defaults."""
        found = dict(config)
        for condition in self._conditions:  # ordered: what a condition names is settled before
            if not holds(condition.when, {**self._given, **found}):
                found[condition.parameter.name] = condition.parameter.default
        return found

    def move(
        self, judge: Judge, config: Mapping[str, Value], parameter: Parameter, index: int
    ) -> Move:
        """Return the configuration with another value of a parameter, and the constraints whose
        truth may change."""
        changed = {**config, parameter.name: parameter.values[index]}
        canonical = self.canonical(changed)
        if canonical == changed or canonical[parameter.name] != changed[parameter.name]:
            return changed, judge.naming[parameter.name]
        different = {name for name, value in canonical.items() if value != config[name]}
        return canonical, [c for c in judge.constraints if c.names & different]

    def canonical_points(self, judge: Judge, points: PointArray) -> PointArray:
        """Return the canonical form of many points, shape (points, parameters)."""
        found = points.copy() if self._conditions else points
        for condition in self._conditions:
            name, default = condition.parameter.name, condition.parameter.default
            (index,) = self._points.indices_of(name, [default])
            found[~judge.held(condition.when, found), self._points.axis[name]] = index
        return found
