"""The inputs among which a campaign chooses more, and when it stops."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from harness.constraints.expression import Expression
from harness.core.records import Input
from harness.space_file.input_ranges import FeatureRange, candidate_inputs, parsed_condition
from harness.space_file.model import Inputs

ERROR = 0.02
"""The share of time that twice the inputs must gain at least, by default."""


class InputPool(Protocol):
    """Inputs that may be chosen."""

    def weights(self) -> Mapping[Input, float]:
        """Return the inputs, always in the same order, with weights above 0."""

    def narrowed(self, condition: Expression) -> InputPool:
        """Keep the inputs for which a condition holds."""


@dataclass(frozen=True)
class RangesPool:
    """Inputs in ranges, all of the same weight."""

    features: tuple[str, ...]
    ranges: Mapping[str, FeatureRange]
    where: str | None

    def weights(self) -> Mapping[Input, float]:
        """Return a few thousand inputs."""
        condition = parsed_condition(self.where, self.features)
        holds: Callable[[Input], bool] = condition.holds if condition else lambda _: True
        return dict.fromkeys(candidate_inputs(self.features, self.ranges, holds), 1.0)

    def narrowed(self, condition: Expression) -> RangesPool:
        """Add a condition."""
        text = condition.text
        return replace(self, where=text if self.where is None else f"({self.where}) and ({text})")


@dataclass(frozen=True)
class ListedPool:
    """Listed inputs with their weights, such as those of a workload."""

    listed: Mapping[Input, float]

    def weights(self) -> Mapping[Input, float]:
        """Return the inputs as they are listed."""
        return self.listed

    def narrowed(self, condition: Expression) -> ListedPool:
        """Keep the inputs for which the condition holds."""
        kept = {problem: one for problem, one in self.listed.items() if condition.holds(problem)}
        return ListedPool(kept)


@dataclass(frozen=True)
class AdaptivePlan:
    """A pool to choose more inputs from, until `most` of the pool are tuned; `error` is the share
    of time that twice the inputs must gain at least. `key` is what sets `most`."""

    pool: InputPool
    most: int
    key: str
    error: float = ERROR

    @classmethod
    def of(cls, inputs: Inputs) -> AdaptivePlan | None:
        """Make the plan of an `inputs` section; None where it asks for none."""
        if inputs.adaptive is None or inputs.ranges is None:
            return None
        pool = RangesPool(tuple(inputs.features), inputs.ranges, inputs.where)
        return cls(pool, inputs.adaptive.most, "inputs.adaptive.most", inputs.adaptive.error)

    def most_more(self, tuned: Collection[Input]) -> int:
        """Return how many inputs may be chosen after these, of which some may be others."""
        pool = self.pool.weights()
        return max(0, min(self.most, len(pool)) - sum(problem in pool for problem in tuned))

    def narrowed(self, condition: Expression) -> AdaptivePlan:
        """Keep the inputs for which a condition holds."""
        return replace(self, pool=self.pool.narrowed(condition))
