"""The searches of a campaign: one input after another, each learning from those before it.

Several devices search as many inputs at once. A search then learns also from those that are still
under way, as far as they were when it began: so it goes on in the same way after an interruption.

Under a time limit each input has an equal share of the time that is left when its search begins.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Sequence

from harness.core.records import Config, Input, Measurement
from harness.models.columns import nearest_first
from harness.results.measured import MeasuredConfigs
from harness.results.notes import Notes
from harness.search import InputInterface
from harness.search.driver import MAX_FREE_IN_A_ROW
from harness.search.options import EndReason, InputSearch, Progress, SearchOptions
from harness.search.run import find_ended, search_input
from harness.tuning.sharing import do_work
from harness.tuning.state import State

_FOR_WINNERS = 0.1
"""The share of the time that is kept for the winners on other inputs: a choice by input is learnt
from them."""

_MOST_EARLIER = 500
"""So many inputs a search learns from, the last ones: of more it would read for a long time."""


def search_inputs(state: State) -> None:
    """Search all inputs; leave out one whose data cannot be made."""
    begun: dict[Input, list[Input]] = {}  # each with those before it
    spec = state.spec
    options = state.options
    stop_at = options.stop_at
    if stop_at is not None and state.plan.cross and len(spec.inputs) > 1:
        stop_at -= _FOR_WINNERS * max(0.0, stop_at - time.monotonic())

    def search(problem: Input, number: int) -> None:
        if problem not in begun:  # else its device failed, and it begins again
            begun[problem] = [*begun][-_MOST_EARLIER:]
        before = [other for other in begun[problem] if other not in state.left_out]
        share_ends_at = None
        if stop_at is not None:  # as much of the time that is left as each input that waits has
            now_s = time.monotonic()
            waiting = 1 + len(spec.inputs) - len(begun)
            share_ends_at = now_s + (stop_at - now_s) / math.ceil(waiting / len(state.pool.left))
        with state.leaving_out(problem):
            limited = dataclasses.replace(options, stop_at=share_ends_at)
            _search(state, number, problem, before, limited)

    do_work(state, [(p, number) for number, p in enumerate(spec.inputs, start=1)], search)


def _search(
    state: State, number: int, problem: Input, before: Sequence[Input], options: SearchOptions
) -> None:
    """Search one input, unless an equal search has ended, with what is learnt from the inputs
    before it."""
    store = state.store
    plan = state.run_plan(problem)
    space = state.space(problem)
    rows = state.ledger.searched(problem).rows
    ended = store.transact(lambda: find_ended(store, plan, space, options, rows))
    steps = 0
    if ended is None and not state.is_time_up():
        steps = space.budget(options.test_limit)
    title = f"[{number}/{len(state.spec.inputs)}] {problem}"
    state.display.begin_stage(title, steps, min(steps, len(rows)))
    if state.is_empty(problem):
        return
    searched = ended or search_input(prepared(state, problem, before, options))
    if ended and ended.answers:
        answers = ended.answers
        total = space.budget(options.test_limit)
        last = answers[-1].measurement
        best = MeasuredConfigs(answers).fastest
        shared = int(answers.is_shared.sum())
        state.note(
            Progress(plan, ended.tests, total, last, best, len(answers), answers.outcomes, shared)
        )
    state.runs[problem] = searched.run_id
    state.searched[problem] = searched
    if searched.ended is EndReason.REFUSED:
        state.warn(
            f"({problem}) has {searched.tests} of {options.test_limit} samples: after them "
            f"compiler or device refused {MAX_FREE_IN_A_ROW} configurations in a row"
        )


def prepared(
    state: State, problem: Input, before: Sequence[Input], options: SearchOptions
) -> InputSearch:
    """Return the search of an input, with what is learnt from recordings, from other devices, and
    from the inputs before it as its run found them."""
    plan = state.run_plan(problem)
    space = state.space(problem)
    run = state.store.begun(plan)
    measured: dict[Input, list[Measurement]] = {}
    for other in before:
        measured[other] = []
        for row in state.ledger.answers(other).values():
            if run is None or row.measured_at <= run.started_at:
                measured[other].append(row.measurement)
    notes: Notes = {}
    devices = state.sources.devices(plan)
    if devices:
        notes["warm_start"] = devices
    return InputSearch(
        plan,
        options,
        InputInterface(state.spec, problem, space, state.measurer_for(problem)),
        state.store,
        state.ledger,
        state.note,
        seeds=_seeds(state, problem, before),
        transfer=state.sources.data_for(space, problem, measured, plan),
        notes=notes,
    )


def _seeds(state: State, problem: Input, before: Sequence[Input]) -> list[Config]:
    """Return the configurations that a search starts from: the default, the user's own, and the
    winner of the most similar input before.

    Other winners are tried after the search, which learns from them as a prior
    (harness.models.transfer_prior). A self-contained technique starts by itself.
    """
    if state.options.is_self_contained:
        return []
    space = state.space(problem)
    seeds = [space.default, *state.options.seeds]
    for other in nearest_first(problem, before):
        best = state.best(other)
        if best is not None and space.is_legal(space.canonical(best.config)):
            seeds.append(best.config)
            break
    canonical = dict.fromkeys(map(space.canonical, seeds))
    return list(filter(space.is_legal, canonical))
