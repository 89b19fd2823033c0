"""Changes of one parameter, and the constraints that they concern."""

from __future__ import annotations

from collections.abc import Mapping

from harness.constraints.expression import Expression
from harness.core.records import Value
from harness.space.judge import Judge
from harness.space.points import Points
from harness.space.relevance import Relevance
from harness.space_file import Parameter

Move = tuple[dict[str, Value], list[Expression]]


class Moves:
    """The changes of a space's configurations."""

    def __init__(self, points: Points, judge: Judge, relevance: Relevance) -> None:
        self.points = points
        self._judge = judge
        self._relevance = relevance

    def to(self, config: Mapping[str, Value], parameter: Parameter, place: int) -> Move:
        """The configuration with another value of a parameter, and the constraints whose truth
        may differ; none where the parameter does not matter there."""
        changed = {**config, parameter.name: parameter.values[place]}
        if not self._relevance:
            return changed, self._judge.naming[parameter.name]
        told = self._relevance.canonical(changed)
        if told[parameter.name] != changed[parameter.name]:
            return changed, self._judge.naming[parameter.name]
        different = {name for name, value in told.items() if value != config[name]}
        return told, [c for c in self._judge.constraints if c.names & different]
