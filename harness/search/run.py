"""One input's search, from its options to its best configuration."""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import opentuner
from opentuner.resultsdb.connect import DB_VERSION
from opentuner.resultsdb.models import Base, TuningRun, _Meta

from harness.core.errors import UsageError
from harness.core.machine import notes
from harness.core.records import Config, Outcome
from harness.core.text import suggestion
from harness.measure.kernels import Measurer
from harness.models.transfer_prior import TransferData
from harness.results import RunPlan, Store, Stored
from harness.search.durable_run import DurableRun
from harness.search.interface import Ended, Report, TuningInterface
from harness.search.patches import offered_techniques
from harness.search.techniques import own_techniques, sole_technique
from harness.space import Space

DEFAULT_TECHNIQUE = "GaussianProcess"
"""What `auto` is: `benchmarks/study.py` chose it."""

_BAIL_GENERATIONS = 20


@dataclass(frozen=True)
class SearchOptions:
    """How each input is searched. `stop_at` is a time.monotonic(), `parallelism` how many
    proposals a generation has, whose builds run side by side, `seeds` a person's own.

    `counts_all` counts what a self-contained technique otherwise does not; `salt` sets the random
    numbers of two searches with one seed apart; nothing of `held_out` is drawn."""

    techniques: tuple[str, ...]
    test_limit: int
    seed: int
    label: str
    parallelism: int
    stop_at: float | None = None
    results_log: Path | None = None
    seeds: tuple[Config, ...] = ()
    counts_all: bool = False
    salt: str = ""
    held_out: frozenset[Config] = frozenset()

    def numbered(self, number: int, count: int) -> SearchOptions:
        """These options for one of so many inputs: each writes a log of its own."""
        if self.results_log is None or count == 1:
            return self
        log = self.results_log
        return replace(self, results_log=log.with_name(f"{log.stem}-{number:02d}{log.suffix}"))

    @property
    def is_self_contained(self) -> bool:
        """Whether one technique has each run to itself: no seeds, and its own end."""
        return sole_technique(self.techniques) is not None


@dataclass(frozen=True)
class Searched:
    """A search that has ended: its run's id, how many tests counted, and why it ended."""

    run_id: int
    tests: int
    ended: Ended


def techniques() -> tuple[str, ...]:
    """The names that --technique takes."""
    return tuple(sorted({*offered_techniques(), *own_techniques()}))


def resolve_techniques(names: Sequence[str]) -> tuple[str, ...]:
    """The techniques by their names; `auto` is the default one. Raises UsageError."""
    offered = techniques()
    resolved = tuple(DEFAULT_TECHNIQUE if name == "auto" else name for name in names)
    for name in resolved:
        if name not in offered:
            hint = suggestion(name, [*offered, "auto"], "--list-techniques lists them")
            raise UsageError(f"there is no technique {name}; {hint}")
    return resolved


def make_opentuner_tables(store: Store) -> None:
    """OpenTuner's tables beside ours, with the version row that it looks for."""
    Base.metadata.create_all(store.engine)
    _Meta.add_version(store.session, DB_VERSION)
    store.commit()


def search_input(
    store: Store,
    measurer: Measurer,
    space: Space,
    plan: RunPlan,
    options: SearchOptions,
    seeds: Sequence[Config],
    known: dict[Config, Stored],
    report: Report,
    transfer: TransferData | None = None,
) -> Searched:
    """Search one input until its budget is spent, its space exhausted or its technique done.

    `known` holds what was measured before and need not be again; what is measured joins it.
    Techniques may learn from `transfer`, the measurements of other inputs and devices.
    With an equal plan, a run that was interrupted goes on: the same seed proposes the same
    configurations again, and the database answers for those that were measured.
    """
    begun = store.begin_run(plan, notes(), seeds)
    stream = f"{plan.seed}:{plan.given.json}{options.salt}"
    interface = TuningInterface(
        _opentuner_args(options),
        plan,
        begun.id,
        space,
        measurer,
        store,
        _starts(begun.seeds, options.seeds, space),
        known,
        options.stop_at,
        _free_outcomes(options),
        report,
        random.Random(f"{stream}:draws"),
        transfer,
    )
    earlier = begun.tuning_run_id and store.session.get(TuningRun, begun.tuning_run_id)
    run = DurableRun(interface, interface.args, store.session, earlier)
    _seed_techniques(stream)
    run.init()
    run.search_driver.taken |= options.held_out
    store.tie_run(begun.id, run.tuning_run.id)
    store.commit()
    try:
        run.main()
    except BaseException:
        store.session.rollback()
        store.end_run(begun.id, "interrupted")
        raise
    ended = interface.why_ended()
    store.end_run(begun.id, "interrupted" if ended is Ended.TIME else "complete")
    return Searched(begun.id, interface.tests, ended)


def _seed_techniques(stream: str) -> None:
    """Techniques draw from the two global generators."""
    random.seed(stream)
    np.random.seed(random.getrandbits(32))


def _free_outcomes(options: SearchOptions) -> frozenset[Outcome]:
    """What does not count against the test limit."""
    sole = sole_technique(options.techniques)
    return frozenset() if sole is None or options.counts_all else sole.free_outcomes


def _starts(begun: Sequence[Config], own: Sequence[Config], space: Space) -> list[Config]:
    """The seeds of the run, and a person's own that a continued run did not have."""
    added = map(space.canonical, own)
    return [*begun, *(s for s in added if s not in begun and space.is_legal(s))]


def _opentuner_args(options: SearchOptions) -> argparse.Namespace:
    """OpenTuner's own options; nothing of our command line, since OpenTuner stores them."""
    args: argparse.Namespace = opentuner.default_argparser().parse_args([])
    args.technique = list(options.techniques)
    args.test_limit = options.test_limit
    args.label = options.label
    args.parallelism = options.parallelism
    args.bail_threshold = _BAIL_GENERATIONS
    args.no_dups = args.quiet = True
    args.results_log = str(options.results_log) if options.results_log else None
    return args
