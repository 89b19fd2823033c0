"""The search of one input, from its options to its end."""

from __future__ import annotations

import random
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from opentuner.resultsdb.connect import DB_VERSION
from opentuner.resultsdb.models import Base, TuningRun, _Meta
from opentuner.search.plugin import FileDisplayPlugin

from harness.core.errors import ResultsError, UsageError
from harness.core.machine import notes
from harness.core.records import Config, Measurement, Outcome
from harness.core.text import suggestion
from harness.results import Store
from harness.results.database import shown_name
from harness.results.server import lock_shared_rows
from harness.results.store import StoredRun
from harness.search.drivers import DurableRun
from harness.search.interface import TuningInterface
from harness.search.patches import OFFERED
from harness.search.records import (
    LOG_HEAD,
    EndReason,
    InputSearch,
    Searched,
    SearchOptions,
    Tally,
)
from harness.search.techniques import own_techniques
from harness.space import Space

DEFAULT_TECHNIQUE = "GaussianProcess"
"""The technique that `auto` means: the best of those compared on recorded spaces."""


def techniques() -> tuple[str, ...]:
    """Return the names that --technique takes."""
    return tuple(sorted({*OFFERED, *own_techniques()}))


def resolve_techniques(names: Sequence[str]) -> tuple[str, ...]:
    """Check the names of techniques, and replace `auto` by the default. Raises UsageError."""
    offered = techniques()
    resolved = tuple(DEFAULT_TECHNIQUE if name == "auto" else name for name in names)
    for name in resolved:
        if name not in offered:
            hint = suggestion(name, [*offered, "auto"], "--list-techniques lists them")
            raise UsageError(f"there is no technique {name}; {hint}")
    return resolved


def make_opentuner_tables(store: Store) -> None:
    """Make OpenTuner's tables next to ours, with the version row that it looks for."""

    def make() -> None:
        lock_shared_rows(store.connection)
        Base.metadata.create_all(store.connection)
        _Meta.add_version(store.session, DB_VERSION)

    store.transact(make)


def search_input(search: InputSearch, options: SearchOptions) -> Searched:
    """Search until the budget is spent, the space is exhausted or the technique is done.

    A run that was interrupted goes on if its plan is equal: the same seed proposes the same
    configurations, and the database answers for those that were measured.
    """
    store = search.store
    begun, run = store.transact(lambda: _begun(search, options))
    logs = (p for p in run.search_driver.plugins if isinstance(p, FileDisplayPlugin))
    for log in logs:
        print(LOG_HEAD, file=log.out)
    with store.interrupting([begun.id]):
        run.main()
    interface: TuningInterface = run.measurement_interface
    ended = interface.why_ended()
    is_round = ended is EndReason.LIMIT and options.test_limit < search.plan.test_limit
    is_cut = ended is EndReason.TIME or is_round

    def end() -> None:
        if not is_cut:
            store.note_run(begun.id, {"ended": ended.value})
        store.end_run(begun.id, "interrupted" if is_cut else "complete")

    store.transact(end)
    return Searched(begun.id, interface.tests, ended)


def _begun(search: InputSearch, options: SearchOptions) -> tuple[StoredRun, DurableRun]:
    """Begin or continue the run of a search in our tables and in OpenTuner's."""
    store, plan, space = search.store, search.plan, search.space
    lock_shared_rows(store.connection)
    begun = store.begin_run(plan, {"facts": notes(), **search.notes}, search.seeds)
    stream = f"{plan.seed}:{plan.problem.json}{options.salt}"
    interface = TuningInterface(
        search,
        options,
        run_id=begun.id,
        seeds=_starts(begun.seeds, options.seeds, space),
        rng=random.Random(f"{stream}:draws"),
    )
    _seed_techniques(stream)
    with _refusing_damage(store):
        earlier = begun.tuning_run_id and store.session.get(TuningRun, begun.tuning_run_id)
        run = DurableRun(interface, interface.args, store, earlier)
        run.init()
    run.search_driver.taken |= options.held_out
    store.tie_run(begun.id, run.tuning_run.id)
    return begun, run


@dataclass(frozen=True)
class EndedSearch:
    """A search that an earlier command brought to its end: its run's id, why it ended, and the
    measurements that answered its tests, in order."""

    run_id: int
    ended: EndReason
    answers: Sequence[Measurement]

    def is_credible(self, search: InputSearch, free: Container[Outcome]) -> bool:
        """Whether the tests that are here can end a search for this reason: those of a run that
        was merged, or whose database was cut, may be fewer."""
        counted = sum(measurement.outcome not in free for measurement in self.answers)
        budget = search.space.budget(search.plan.test_limit)
        if self.ended is EndReason.LIMIT:
            return counted >= budget
        if self.ended is EndReason.EXHAUSTED:
            return len({m.config for m in self.answers}) == search.space.count
        return self.ended is not EndReason.TIME

    def report(self, search: InputSearch, options: SearchOptions) -> Searched:
        """Report the tests up to the limit, without asking the techniques for them again."""
        tally = Tally(search.plan, search.space, options.free_outcomes, search.report)
        budget = search.space.budget(search.plan.test_limit)
        for measurement in self.answers:
            if self.ended is EndReason.LIMIT and tally.tests == budget:
                break  # a run with a higher limit has made the rest
            tally.note(measurement, replayed=True)
        return Searched(self.run_id, tally.tests, self.ended)


def find_ended(search: InputSearch, options: SearchOptions) -> EndedSearch | None:
    """Find the search of an equal plan that has ended; None where there may be more to do.

    There is where the user adds seeds, or where a measurement no longer counts: one that was cut
    by a shorter timeout, for example. A log of new bests is written by a search only.
    """
    run = search.store.ended_run(search.plan)
    if run is None or options.results_log is not None:
        return None
    by_id = {stored.id: stored.measurement for stored in search.known.values()}
    is_whole = all(row_id in by_id for row_id in run.measurement_ids)
    has_all_seeds = _starts(run.seeds, options.seeds, search.space) == list(run.seeds)
    if not (is_whole and has_all_seeds and run.ended in set(EndReason)):
        return None
    answers = [by_id[row_id] for row_id in run.measurement_ids]
    ended = EndedSearch(run.id, EndReason(run.ended), answers)
    return ended if ended.is_credible(search, options.free_outcomes) else None


@contextmanager
def _refusing_damage(store: Store) -> Iterator[None]:
    """Turn errors about OpenTuner's rows that OpenTuner cannot have written into ResultsError."""
    try:
        yield
    except (LookupError, TypeError, ValueError) as error:
        raise ResultsError(
            f"OpenTuner's tables in {shown_name(store.session.connection())} are damaged: {error}; "
            "copy the database again from the original, or choose another --database"
        ) from error


def _seed_techniques(stream: str) -> None:
    """Seed the two global generators that techniques draw from."""
    random.seed(stream)
    np.random.seed(random.getrandbits(32))


def _starts(begun: Sequence[Config], own: Sequence[Config], space: Space) -> list[Config]:
    """Add to the seeds of a run the user's own that a continued run did not have."""
    added = map(space.canonical, own)
    return [*begun, *(s for s in added if s not in begun and space.is_legal(s))]
