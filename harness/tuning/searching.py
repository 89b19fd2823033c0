"""The searches of a campaign: one input after another, each learning from those before it.

Several devices search as many inputs at once. A search then learns also from those that are still
under way, as far as they were when it began: so it goes on in the same way after an interruption.

Under a time limit each input has an equal share of the time that is left when its search begins.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np

from harness.core.arrays import Flags
from harness.core.records import Config, Input
from harness.models.columns import nearest_first
from harness.models.transfer_prior import TransferData
from harness.search import InputInterface
from harness.search.driver import MAX_FREE_IN_A_ROW
from harness.search.options import EndReason, InputSearch, Progress, Searched, SearchOptions
from harness.search.run import EndedSearch, find_ended, search_input
from harness.tuning.sharing import do_work
from harness.tuning.state import State

_FOR_WINNERS = 0.1
"""The share of the time that is kept for the winners on other inputs: a choice by input is learnt
from them."""

_MOST_EARLIER = 500
"""So many inputs a search learns from, the last ones: of more it would read for a long time."""


class Searching:
    """Searches the inputs one after another; each measurement is stored when it ends."""

    def __init__(
        self, state: State, note: Callable[[Progress], None], is_crossed: bool = False
    ) -> None:
        """`note` takes in each test that has ended. `is_crossed` says whether winners are measured
        on other inputs afterwards, for which time is left."""
        self.state = state
        self._note = note
        self.searched: dict[Input, Searched] = {}
        self._is_crossed = is_crossed

    def run(self) -> None:
        """Search all inputs; leave out one whose data cannot be made."""
        begun: dict[Input, list[Input]] = {}  # each with those before it
        left_out, count = self.state.left_out, len(self.state.spec.inputs)
        stop_at = self.state.options.stop_at
        if stop_at is not None and self._is_crossed:
            stop_at -= _FOR_WINNERS * max(0.0, stop_at - time.monotonic())

        def search(problem: Input, number: int) -> None:
            if problem not in begun:  # else its device failed, and it begins again
                begun[problem] = [*begun][-_MOST_EARLIER:]
            others = [other for other in begun[problem] if other not in left_out]
            options = self.state.options
            if stop_at is not None:
                share_ends_at = self._share_ends_at(stop_at, 1 + count - len(begun))
                options = dataclasses.replace(options, stop_at=share_ends_at)
            with self.state.leaving_out(problem):
                self._search(number, problem, others, options)

        numbered = enumerate(self.state.spec.inputs, start=1)
        do_work(self.state, [(problem, number) for number, problem in numbered], search)

    def _share_ends_at(self, stop_at: float, waiting: int) -> float:
        """Return when the search of an input ends, which has as much of the time that is left as
        each of those that wait with it."""
        now_s, devices = time.monotonic(), len(self.state.pool.left)
        return now_s + (stop_at - now_s) / math.ceil(waiting / devices)

    def _search(
        self, number: int, problem: Input, before: Sequence[Input], options: SearchOptions
    ) -> None:
        """Search one input, unless an equal search has ended, with what is learnt from the inputs
        before it."""
        state, count = self.state, len(self.state.spec.inputs)
        space, plan = state.space(problem), state.run_plan(problem)
        interface = InputInterface(state.spec, problem, space, state.measurer)
        search = InputSearch(plan, space, interface, state.store, state.ledger, self._note)
        rows = state.ledger.searched(problem).rows
        ended = state.store.read(lambda: find_ended(search, options, rows))
        budget = space.budget(options.test_limit)
        steps = 0 if state.is_time_up() or ended else budget
        stored = min(steps, len(rows))
        state.display.begin_stage(f"[{number}/{count}] {problem}", steps, stored)
        if state.is_empty(problem):
            return
        if ended:
            searched = self._report(ended, search, options)
        else:
            searched = search_input(self.prepared(problem, before), options)
        state.runs[problem], self.searched[problem] = searched.run_id, searched
        if searched.ended is EndReason.REFUSED:
            state.display.warn(
                f"({problem}) has {searched.tests} of {options.test_limit} samples: after them "
                f"compiler or device refused {MAX_FREE_IN_A_ROW} configurations in a row"
            )

    def prepared(self, problem: Input, before: Sequence[Input]) -> InputSearch:
        """Return the search of an input, with what is learnt from the inputs before it."""
        state, plan = self.state, self.state.run_plan(problem)
        space, measurer = state.space(problem), state.measurer_for(problem)
        return InputSearch(
            plan,
            space,
            InputInterface(state.spec, problem, space, measurer),
            state.store,
            state.ledger,
            self._note,
            seeds=self.seeds(problem, before),
            transfer=self.transfer_data(problem, before),
            notes=state.stored_sources.notes(plan),
        )

    def _report(self, ended: EndedSearch, search: InputSearch, options: SearchOptions) -> Searched:
        """Report a search that has ended, up to the limit."""
        answers, total = ended.answers, search.space.budget(search.plan.test_limit)
        columns, outcomes = answers.columns, answers.columns.outcomes
        free = list(map(outcomes.code, options.free_outcomes))
        counted = ~np.isin(answers.of(outcomes.codes), free)
        if ended.ended is EndReason.LIMIT:  # a run with a higher limit has made the rest
            own: Flags = np.less(np.cumsum(counted) - counted, total)
            answers, counted = answers.where(own), counted[own]
        ordinal = int(counted.sum())
        if len(answers):
            rows, times_s = answers.selected.tolist(), answers.of(columns.time_s)
            least = int(times_s.argmin())
            best = columns.measurement(rows[least]) if np.isfinite(times_s[least]) else None
            counts = len(rows), answers.outcomes, int(answers.is_shared.sum())
            last = columns.measurement(rows[-1])
            self._note(Progress(search.plan, ordinal, total, last, best, *counts))
        return Searched(ended.run_id, ordinal, ended.ended)

    def seeds(self, problem: Input, before: Sequence[Input]) -> list[Config]:
        """Return the configurations that a search starts from: the default, the user's own, and
        the winner of the most similar input before.

        Other winners are tried after the search, which learns from them as a prior
        (harness.models.transfer_prior). A self-contained technique starts by itself.
        """
        state = self.state
        if state.options.is_self_contained:
            return []
        space = state.space(problem)
        bests = filter(None, map(state.best, nearest_first(problem, before)))
        winners = filter(space.is_legal, (space.canonical(best.config) for best in bests))
        seeds = [*map(space.canonical, [space.default, *state.options.seeds]), *islice(winners, 1)]
        return [config for config in dict.fromkeys(seeds) if space.is_legal(config)]

    def transfer_data(self, problem: Input, before: Sequence[Input]) -> TransferData | None:
        """Gather recordings, and other devices' results and the inputs before this one as its run
        found them."""
        state = self.state
        plan, space = state.run_plan(problem), state.space(problem)
        run = state.store.begun(plan)
        measured = {
            other: [
                row.measurement
                for row in state.ledger.answers(other).values()
                if run is None or row.measured_at <= run.started_at
            ]
            for other in before
        }
        stored = state.stored_sources.tasks(plan, space)
        return state.transfer_sources.data_for(space, problem, measured, stored)
