"""Choose more inputs where the choice by input is likely to be wrong, one by one, until more would
not pay.

The database has the chosen inputs in their order. A campaign that goes on takes them first, and
then chooses as it would have done without the interruption.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.core.records import Input
from harness.core.text import counted
from harness.dispatch.candidates import searched_matrix
from harness.dispatch.enough_inputs import LearningCurve, learning_curve
from harness.dispatch.matrix import Matrix
from harness.dispatch.next_inputs import (
    ExpectedLoss,
    distances,
    draw_by_weight,
    draw_without_replacement,
)
from harness.recordings.replay import ReplayMeasurer
from harness.results import SEARCHED
from harness.space_file.adaptive import AdaptivePlan
from harness.tuning.crossing import applies_on, cross_measure_early, searched_inputs
from harness.tuning.devices import EqualDevices
from harness.tuning.searching import Searching
from harness.tuning.state import State

_NEAREST = 1e-6  # is added to distances: the chance of an input is never 0
_NEXT_TO_NOTHING = 0.1  # percent

_JUDGED_EACH = 4
"""So many inputs are added before the choice is judged again."""


@dataclass(frozen=True)
class ChosenInput:
    """An input, and how much slower the choice on it is expected to be than the best, as a
    logarithm."""

    problem: Input
    loss: float


class AddingInputs:
    """Adds inputs to a campaign whose first ones were searched."""

    def __init__(self, state: State, searching: Searching) -> None:
        self._state = state
        self._searching = searching
        self._first = len(state.spec.inputs)
        self._others = 0  # of these, which are not in the pool
        self._curve: LearningCurve | None = None  # as it was judged last
        self._end = ""  # why no more were chosen

    def run(self, note: Callable[[Sequence[Input]], None]) -> None:
        """Add inputs until twice as many would gain little, or there are no more, or the time is
        up. `note` gets all inputs after each change."""
        plan = self._state.spec.adaptive
        if plan is None:
            return
        left = self._measurable(plan.pool.weights())
        there = len(left)
        for problem in self._state.spec.inputs:
            left.pop(problem, None)
        self._others = self._first - (there - len(left))
        again = self._stored(left)[: max(0, plan.most - self._tuned)]
        if again:
            self._add(again, left, note)
        while not self._has_ended(plan, left):
            matrix = self._matrix()
            if matrix is None:
                self._end = "fewer than two inputs have configurations that work"
            elif not self._pays(plan, matrix):
                self._end = f"twice the inputs would gain at most {100 * plan.error:.3g} %"
            else:
                count = min(self._at_once(), plan.most - self._tuned)
                chosen = self._choose(matrix, left, count)
                for number, one in enumerate(chosen, start=self._tuned + 1):
                    self._describe_choice(number, plan.most, one)
                self._add([one.problem for one in chosen], left, note)

    def _has_ended(self, plan: AdaptivePlan, left: Mapping[Input, float]) -> bool:
        """Whether something else than the gain ends the choice."""
        if self._end:
            return True
        if not left:
            self._end = "there are no more inputs to choose from"
        elif self._tuned >= plan.most:
            self._end = f"{plan.most} inputs are the most ({plan.key})"
        elif self._state.is_time_up():
            self._end = "the time was up"
        return bool(self._end)

    def _measurable(self, weights: Mapping[Input, float]) -> dict[Input, float]:
        """Keep the inputs that can be measured: of a recording those that it has."""
        measurer = self._state.measurer
        if not (measurer.is_replay and isinstance(measurer, ReplayMeasurer)):
            return dict(weights)
        recorded = {problem for problem, _ in measurer.measurements}
        return {problem: weight for problem, weight in weights.items() if problem in recorded}

    @property
    def _tuned(self) -> int:
        """The number of tuned inputs that are in the pool."""
        return len(self._state.spec.inputs) - self._others

    def _stored(self, left: Mapping[Input, float]) -> list[Input]:
        """Return the inputs that earlier commands chose, in their order."""
        earlier = self._state.earlier
        begun = {p: earlier[p].of_stages(SEARCHED) for p in left if p in earlier}
        first = {p: min(row.id for row in rows) for p, rows in begun.items() if len(rows)}
        return sorted(first, key=lambda problem: first[problem])

    def _at_once(self) -> int:
        """Return how many inputs are chosen at once: one for each device."""
        measurer = self._state.measurer
        return len(measurer.left) if isinstance(measurer, EqualDevices) else 1

    def _add(
        self,
        chosen: Sequence[Input],
        left: dict[Input, float],
        note: Callable[[Sequence[Input]], None],
    ) -> None:
        state = self._state
        state.spec = dataclasses.replace(state.spec, inputs=(*state.spec.inputs, *chosen))
        note(state.spec.inputs)
        for problem in chosen:
            del left[problem]
        self._searching.go_on()

    def _matrix(self) -> Matrix | None:
        """Measure winners on all inputs, and return the times; None where too few inputs have
        any."""
        state = self._state
        cross_measure_early(state)
        known = searched_inputs(state)
        if len(known) < 2:
            return None
        matrix = searched_matrix(
            known, state.space(state.spec.inputs[0]).default, applies_on(state)
        )
        return matrix if len(matrix.features) > 1 else None

    def _pays(self, plan: AdaptivePlan, matrix: Matrix) -> bool:
        """Whether twice the inputs may gain as much as the plan demands."""
        added = len(self._state.spec.inputs) - self._first
        if self._curve is None or added % _JUDGED_EACH == 0:
            self._curve = learning_curve(matrix, self._state.options.seed)
        return self._curve is None or not self._curve.is_enough(plan.error)

    def _choose(self, matrix: Matrix, left: Mapping[Input, float], count: int) -> list[ChosenInput]:
        """Draw inputs by their weights, the expected loss, and the distance to tuned inputs."""
        import pandas as pd  # here: it takes half a second to load

        seed = self._state.options.seed + len(self._state.spec.inputs)
        inputs = list(left)
        indices, counts = draw_by_weight(list(left.values()), seed)
        drawn = [inputs[index] for index in indices]
        may = applies_on(self._state)
        applies = np.array([[may(problem, c) for c in matrix.candidates] for problem in drawn])
        features = pd.DataFrame([dict(problem) for problem in drawn])
        loss = ExpectedLoss.learn(matrix, seed).of(features, applies)
        apart = counts * (_NEAREST + distances(matrix.features, features))
        chosen = draw_without_replacement(loss * apart, apart, count, seed)
        return [ChosenInput(drawn[index], float(loss[index])) for index in chosen]

    def _describe_choice(self, number: int, most: int, one: ChosenInput) -> None:
        slower = 100 * np.expm1(one.loss)
        why = f"where the choice by input is expected to be {slower:.1f} % slower than the best"
        if slower < _NEXT_TO_NOTHING:
            why = "unlike those before"
        self._state.display.note(f"input {number} of at most {most}: ({one.problem}), {why}")

    def describe(self) -> Iterator[str]:
        """Say in lines how many inputs were chosen, and why no more; nothing without a plan."""
        plan = self._state.spec.adaptive
        if plan is None:
            return
        if not self._end:
            yield (
                f"harness chose no inputs ({plan.key}): that needs a search, and winners that "
                "are measured on all inputs, so neither --validate nor --no-cross."
            )
            return
        added = len(self._state.spec.inputs) - self._first
        where = ", where the choice by input was least sure" if added else ""
        yield (
            f"harness chose {counted(added, 'input') if added else 'no inputs'} after the first "
            f"{self._first}{where}. It stopped since {self._end}."
        )
        if self._curve is not None:
            yield (
                "On held-out inputs the choice takes "
                f"{self._curve.slowdown.text('.3f', 'x')} the time of the best known."
            )
        if self._curve is not None and self._curve.gain is not None:
            yield (
                "Learnt from half of the inputs, it takes "
                f"{self._curve.gain.text('.3f', 'x')} the time of one learnt from all: twice the "
                "inputs would gain less than that."
            )
