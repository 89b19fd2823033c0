"""What a search is given, reports while it runs, and returns."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import opentuner

from harness.core.records import Config, Measurement, Outcome
from harness.models.transfer_prior import TransferData
from harness.results import MeasurementRow, MeasurementRows, RunPlan, Store
from harness.results.ledger import Ledger
from harness.results.notes import Notes
from harness.search.interface import InputInterface
from harness.search.techniques import sole_technique

_BAIL_GENERATIONS = 20


@dataclass(frozen=True)
class SearchOptions:
    """How each input is searched.

    `parallelism` is the number of proposals a generation, which are built side by side; `stop_at`
    a time.monotonic() after which no test begins; `seeds` the user's own configurations to start
    from. `counts_all` counts the outcomes that a self-contained technique does not count. `salt`
    gives two searches with one seed different random numbers. Configurations in `held_out` are
    never drawn. A search ends where the best time is `peak_fraction` of the device's peak.
    """

    techniques: tuple[str, ...]
    test_limit: int
    seed: int
    label: str
    parallelism: int
    stop_at: float | None = None
    seeds: tuple[Config, ...] = ()
    counts_all: bool = False
    salt: str = ""
    held_out: frozenset[Config] = frozenset()
    peak_fraction: float | None = None

    @property
    def is_self_contained(self) -> bool:
        """Whether one technique has each run to itself, with its own start and end."""
        return sole_technique(self.techniques) is not None

    @property
    def free_outcomes(self) -> frozenset[Outcome]:
        """The outcomes that do not count against the test limit."""
        sole = sole_technique(self.techniques)
        if sole is None or self.counts_all:
            return frozenset()
        return sole.free_outcomes

    def for_opentuner(self) -> argparse.Namespace:
        """Return OpenTuner's own arguments and no others, since OpenTuner stores them."""
        args: argparse.Namespace = opentuner.default_argparser().parse_args([])
        args.technique = list(self.techniques)
        args.test_limit = self.test_limit
        args.label = self.label
        args.parallelism = self.parallelism
        args.bail_threshold = _BAIL_GENERATIONS
        args.no_dups = args.quiet = True
        return args


@dataclass(frozen=True)
class Progress:
    """The last test that has ended, and the best measurement so far."""

    plan: RunPlan
    ordinal: int  # 1-based; an outcome that does not count has the ordinal of the test before it
    total: int
    measurement: Measurement
    best: Measurement | None
    replayed: int  # tests that the database has answered since the last progress
    outcomes: Mapping[Outcome, int]  # of the tests so far
    shared: int  # tests so far that have the measurement of another configuration


Report = Callable[[Progress], None]


@dataclass(frozen=True)
class InputSearch:
    """One input to search: how, where it is measured and stored, and the ledger of its campaign.

    The ledger's measurements are not repeated, and new ones are appended to it. The search starts
    from `seeds`, and techniques may learn from `transfer`. A run that begins has the `notes`.
    """

    plan: RunPlan
    options: SearchOptions
    interface: InputInterface
    store: Store
    ledger: Ledger
    report: Report
    seeds: Sequence[Config] = ()
    transfer: TransferData | None = None
    notes: Notes = field(default_factory=Notes)

    @property
    def answers(self) -> Mapping[Config, MeasurementRow]:
        """The measurements that answer tests of this input."""
        return self.ledger.answers(self.plan.problem)


class EndReason(str, Enum):
    """Why a search ended."""

    LIMIT = "limit"
    TIME = "time"
    EXHAUSTED = "exhausted"
    REFUSED = "refused"
    PEAK = "peak"
    TECHNIQUE = "technique"


@dataclass(frozen=True)
class Searched:
    """A search that has ended: its run's id, how many tests counted, and why it ended; one that an
    earlier command brought to its end has the measurements that answered its tests, in order."""

    run_id: int
    tests: int
    ended: EndReason
    answers: MeasurementRows | None = field(default=None, compare=False)
