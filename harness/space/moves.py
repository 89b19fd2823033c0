"""Changes of one parameter, with the constraints that they can break."""

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
    """Makes changes of one parameter in a space's configurations."""

    def __init__(self, points: Points, judge: Judge, relevance: Relevance) -> None:
        self.points = points
        self._judge = judge
        self._relevance = relevance

    def to(self, config: Mapping[str, Value], parameter: Parameter, index: int) -> Move:
        """Return the configuration with another value of a parameter, and the constraints whose
        truth may change."""
        changed = {**config, parameter.name: parameter.values[index]}
        if not self._relevance:
            return changed, self._judge.naming[parameter.name]
        canonical = self._relevance.canonical(changed)
        if canonical[parameter.name] != changed[parameter.name]:
            return changed, self._judge.naming[parameter.name]
        different = {name for name, value in canonical.items() if value != config[name]}
        return canonical, [c for c in self._judge.constraints if c.names & different]
