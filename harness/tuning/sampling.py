"""The uniform samples of a campaign that is validated in place of searched."""

from __future__ import annotations

import dataclasses
import random
from functools import cached_property

from harness.core.records import Config, Input, Measurement
from harness.models.encoding.pairs import PairEncoder
from harness.search import InputSearch, Progress, search_input
from harness.tuning.state import State
from harness.tuning.validation import Goal, Part, Validation, validate


class Sampling:
    """Draws what a validation asks for (harness.tuning.validation)."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._drawn: dict[tuple[Part, Input], int] = {}

    def run(self, target: float) -> Validation:
        """Sample until a tree predicts times with this median relative error."""
        state, counts = self._state, {}
        for given in state.spec.inputs:
            space = state.space(given)
            if not state.is_empty(given):
                estimated, _ = space.estimate_count(random.Random(state.options.seed))
                counts[given] = estimated if space.count is None else float(space.count)
        limit = state.options.test_limit * len(state.spec.inputs)
        return validate(self, counts, Goal(target, limit, state.options.seed))

    @cached_property
    def columns(self) -> PairEncoder:
        """What a tree over configurations and inputs sees."""
        inputs = self._state.spec.inputs
        return PairEncoder(self._state.space(inputs[0]).parameters, inputs)

    def is_time_up(self) -> bool:
        """Whether nothing more may be measured."""
        return self._state.is_time_up()

    def begin_samples(self, title: str, samples: int) -> None:
        """A part of a validation begins."""
        self._state.display.begin_stage(title, samples)

    def draw_samples(
        self, part: Part, given: Input, draws: int, held_out: frozenset[Config]
    ) -> list[Measurement]:
        """The first `draws` configurations that UniformRandom asks for on an input, in order.

        Each part is a run of its own, which each call continues.
        """
        state = self._state
        found: list[Measurement] = []
        earlier = self._drawn.get((part, given), 0)

        def note(progress: Progress) -> None:
            found.append(progress.measurement)
            if len(found) > earlier:
                state.replayed += progress.replayed
                state.display.step(str(given))

        options = dataclasses.replace(
            state.options,
            test_limit=draws,
            counts_all=True,
            salt=f":{part.value}",
            held_out=held_out,
        )
        plan = dataclasses.replace(
            state.plan(given),
            technique=f"{state.plan(given).technique} ({part.value})",
            test_limit=draws,
        )
        with state.telling(given):
            search = InputSearch(
                plan, state.space(given), state.measurer, state.store, state.known(given), note
            )
            state.runs[given] = search_input(search, options).run_id
        self._drawn[part, given] = len(found)
        return found
