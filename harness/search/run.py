"""The search of one input, from its options to its end.

`open_search` begins it, `driver.main()` is the loop of OpenTuner's SearchDriver, and the end of
the block stores how it ended. The loop calls these methods of our Driver, in this order, until
there is nothing more to test:

| method | what it does |
|---|---|
| `convergence_criteria` | says whether the test limit or another reason ends the search |
| `run_generation_techniques` | asks seeds and techniques for up to `parallelism` configurations |
| `run_generation_results` | starts their builds; then, for each of them, `_answer`: |
| - `InputInterface.run` | builds, verifies and times it, unless the database has its measurement |
| - `_note` | counts and reports it |
| - `write` | stores it, in one commit |
| `on_result` of each technique | learns from the results of all techniques |
| `result_callbacks` | passes each result on to the technique that asked for it |

Techniques call `get_configuration`, `results_query` and `register_result_callback` meanwhile.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from opentuner.resultsdb.models import CompressedPickler
from opentuner.search.objective import MinimizeTime

from harness.core.arrays import Flags
from harness.core.machine import notes as machine_notes
from harness.core.records import Config
from harness.results import COMPLETE, INTERRUPTED, MeasurementRows, RunPlan, Store
from harness.results.notes import Notes
from harness.search.driver import Driver
from harness.search.manipulator import SpaceManipulator
from harness.search.options import EndReason, InputSearch, Searched, SearchOptions
from harness.space import Space


def search_input(search: InputSearch) -> Searched:
    """Search until the budget is spent, the space is exhausted or the technique is done."""
    with open_search(search) as driver:
        driver.main()
    return Searched(driver.run_id, driver.tests, driver.why_ended())


@contextmanager
def open_search(search: InputSearch) -> Iterator[Driver]:
    """Begin a search, which the block drives to its end.

    A run that was interrupted goes on if its plan is equal: the same seed proposes the same
    configurations, and the database answers for those that were measured.
    """
    store = search.store
    driver = store.transact(lambda: _begin(search))
    with store.interrupting([driver.run_id]):
        yield driver
        driver.write()
    store.transact(lambda: _end(search, driver))


def _begin(search: InputSearch) -> Driver:
    """Begin or continue the run of a search, with what OpenTuner records of one."""
    store = search.store
    plan = search.plan
    options = search.options
    space = search.interface.space
    stream = f"{plan.seed}:{plan.problem.json}{options.salt}"
    manipulator = SpaceManipulator(space, random.Random(f"{stream}:draws"), search.transfer)
    run = store.begun(plan)
    if run is None:
        seeds = search.seeds
        recorded = {
            "args": CompressedPickler.dumps(options.for_opentuner()),
            "objective": CompressedPickler.dumps(MinimizeTime()),
            "parameter_info": manipulator.parameters_to_json(),
        }
        noted: Notes = {"facts": machine_notes(), **search.notes}
        run_id = store.begin_run(plan, noted, seeds, recorded)
    else:
        run_id = run.id
        seeds = run.seeds
        store.continue_run(run, plan)
    random.seed(stream)  # techniques draw from the two global generators
    np.random.seed(random.getrandbits(32))
    return Driver(search, run_id, _starts(seeds, options.seeds, space), manipulator)


def _end(search: InputSearch, driver: Driver) -> None:
    """Store how a search ended, and its best configuration."""
    store = search.store
    why = driver.why_ended()
    state = INTERRUPTED
    if why is not EndReason.TIME:
        state = COMPLETE
        store.note_run(driver.run_id, {"ended": why.value})
    best_id = None
    if driver.best_result is not None:
        best = driver.best_result.configuration.config
        (best_id,) = store.configuration_ids(search.plan.spec.name, [best])
    store.end_run(driver.run_id, state, best_id)


def find_ended(
    store: Store, plan: RunPlan, space: Space, options: SearchOptions, measured: MeasurementRows
) -> Searched | None:
    """Find the search of an equal plan that has ended, with those of the `measured` configurations
    that answered its tests, up to the limit; None where there may be more to do.

    There is where the user adds seeds, where a measurement no longer counts (one that was cut by a
    shorter timeout, for example), and where tests are missing: a run that was merged, or whose
    database was cut, may have fewer.
    """
    run = store.begun(plan)
    if run is None or run.state != "complete" or run.test_limit != plan.test_limit:
        return None
    if "ended" not in run.notes:  # not by a search
        return None
    if _starts(run.seeds, options.seeds, space) != list(run.seeds):
        return None
    ended = EndReason(run.notes["ended"])
    columns = measured.columns
    ids = measured.of(columns.id).tolist()
    row_of = dict(zip(ids, measured.selected.tolist(), strict=True))
    rows = [row_of.get(answer.result_id) for answer in store.answers(run.id)]
    if None in rows:
        return None
    answers = measured.take(np.array(rows, dtype=np.intp))
    counted = ~np.isin(answers.of(columns.outcome), list(options.free_outcomes))
    budget = space.budget(plan.test_limit)
    tests = int(counted.sum())
    if tests < budget and ended not in (EndReason.REFUSED, EndReason.TECHNIQUE):
        return None
    # A run with a higher limit has made more.
    is_within: Flags = np.less(np.cumsum(counted) - counted, budget)
    return Searched(run.id, min(tests, budget), ended, answers.where(is_within))


def _starts(begun: Sequence[Config], of_user: Sequence[Config], space: Space) -> list[Config]:
    """Add to the seeds of a run the user's own that a continued run did not have."""
    starts = list(begun)
    for seed in map(space.canonical, of_user):
        if seed not in starts and space.is_legal(seed):
            starts.append(seed)
    return starts
