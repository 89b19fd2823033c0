"""The inputs among which a campaign chooses more, and when it stops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from harness.core.records import Input
from harness.space_file.input_ranges import FeatureRange, candidate_inputs, parsed_condition
from harness.space_file.model import Inputs


@dataclass(frozen=True)
class AdaptivePlan:
    """Ranges to choose more inputs from, up to `most` in all; `error` is the share of time that
    twice the inputs must gain at least."""

    features: tuple[str, ...]
    ranges: Mapping[str, FeatureRange]
    where: str | None
    most: int
    error: float

    @classmethod
    def of(cls, inputs: Inputs) -> AdaptivePlan | None:
        """Make the plan of an `inputs` section; None where it asks for none."""
        if inputs.adaptive is None or inputs.ranges is None:
            return None
        chosen = inputs.adaptive
        features = tuple(inputs.features)
        return cls(features, inputs.ranges, inputs.where, chosen.most, chosen.error)

    def narrowed(self, condition: str) -> AdaptivePlan:
        """Return the plan with one more condition on the inputs."""
        both = condition if self.where is None else f"({self.where}) and ({condition})"
        return replace(self, where=both)

    def candidates(self) -> list[Input]:
        """List the inputs that may be chosen."""
        condition = parsed_condition(self.where, self.features)
        holds: Callable[[Input], bool] = condition.holds if condition else lambda _: True
        return candidate_inputs(self.features, self.ranges, holds)
