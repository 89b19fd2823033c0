"""Parameters that do not matter everywhere: the configurations that differ in nothing else are
one, and it is told with such a parameter at its default."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from harness.constraints.expression import Expression
from harness.core.records import Value, shown
from harness.space.judge import Judge, holds
from harness.space.points import Places, Points
from harness.space_file import Parameter, conditional


@dataclass(frozen=True)
class _Condition:
    """Where a parameter matters; `implied` is what that means for legal configurations."""

    parameter: Parameter
    when: Expression
    implied: Expression


class Relevance:
    """Which parameters matter, given the values of the others."""

    def __init__(
        self, points: Points, given: Mapping[str, Value], unjudged: Collection[str] = ()
    ) -> None:
        """`given` has the values of all other names; conditions that look at a name of `unjudged`
        are left out."""
        self._points = points
        self._given = given
        self._conditions = [
            _Condition(
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
        """What every configuration satisfies that is told in the one way."""
        return [condition.implied for condition in self._conditions]

    def why_false(self, implied: Expression, values: Mapping[str, Value]) -> str | None:
        """Why a configuration is not told in the one way, given what of `implied` is false."""
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
        """The configuration with all that does not matter at its default."""
        told = dict(config)
        for condition in self._conditions:  # in an order in which what it looks at is settled
            if not holds(condition.when, {**self._given, **told}):
                told[condition.parameter.name] = condition.parameter.default
        return told

    def canonical_places(self, judge: Judge, places: Places) -> Places:
        """`canonical` of many points, shape (points, parameters)."""
        told = places.copy() if self._conditions else places
        for condition in self._conditions:
            name, default = condition.parameter.name, condition.parameter.default
            (place,) = self._points.places_of_values(name, [default])
            told[~judge.held(condition.when, told), self._points.axis[name]] = place
        return told
