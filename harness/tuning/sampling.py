"""The uniform samples of a campaign that validates a tree in place of searching."""

from __future__ import annotations

import dataclasses
import random

from harness.core.records import Config, Input, Measurement, SampleRole
from harness.search import InputSearch, Progress, search_input
from harness.tuning.state import State
from harness.tuning.validation import Goal, Validation, validate


class UniformSampling:
    """Draws the samples of a validation (harness.tuning.validation)."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._drawn: dict[tuple[SampleRole, Input], int] = {}

    def run(self, target: float) -> Validation:
        """Sample until a tree predicts times with this median relative error."""
        state, counts = self._state, {}
        for problem in state.spec.inputs:
            space = state.space(problem)
            if not state.is_empty(problem):
                estimated, _ = space.estimate_count(random.Random(state.options.seed))
                counts[problem] = estimated if space.count is None else float(space.count)
        limit = state.options.test_limit * len(state.spec.inputs)
        return validate(self, counts, Goal(target, limit, state.options.seed))

    def is_time_up(self) -> bool:
        """Whether the time is up."""
        return self._state.is_time_up()

    def begin_samples(self, title: str, samples: int) -> None:
        """Show that some more samples are drawn."""
        self._state.display.begin_stage(title, samples)

    def draw_samples(
        self, role: SampleRole, problem: Input, draws: int, held_out: frozenset[Config]
    ) -> list[Measurement]:
        """Return the first `draws` configurations that UniformRandom proposes, in order.

        Each role has its own run, which each call continues.
        """
        state = self._state
        found: list[Measurement] = []
        earlier = self._drawn.get((role, problem), 0)

        def note(progress: Progress) -> None:
            found.append(progress.measurement)
            if len(found) > earlier:
                state.replayed += progress.replayed
                state.display.step(str(problem))

        options = dataclasses.replace(
            state.options,
            test_limit=draws,
            counts_all=True,
            salt=f":{role.value}",
            held_out=held_out,
        )
        plan = state.run_plan(problem)
        technique = f"{plan.technique} ({role.value})"
        plan = dataclasses.replace(plan, technique=technique, test_limit=draws)
        with state.leaving_out(problem):
            search = InputSearch(
                plan, state.space(problem), state.measurer, state.store, state.known(problem), note
            )
            state.runs[problem] = search_input(search, options).run_id
        self._drawn[role, problem] = len(found)
        return found
