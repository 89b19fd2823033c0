"""The inputs of a recording, tuned one after another as a campaign does, and each alone."""

from __future__ import annotations

import dataclasses
import functools
import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.peers.landscape import Course
from benchmarks.search_figures import padded
from benchmarks.transfer_figures import ALONE, TAUGHT, Array
from harness.backends.replay import ReplayMeasurer
from harness.errors import UsageError
from harness.inputs import select_inputs
from harness.prior import Taught
from harness.recordings.campaign import RecordedCampaign
from harness.recordings.read import Source, recorded_spec, recording_of
from harness.recordings.recorded import Recorded, name_of
from harness.records import Config, Input, Outcome
from harness.results import Store, writing
from harness.search import (
    Progress,
    SearchOptions,
    make_opentuner_tables,
    resolve_techniques,
)
from harness.space import Space
from harness.spec import Spec

FEWEST = 2
"""Configurations that an input must have for there to be anything to search."""

_MEMORY = "sqlite://"
_PARALLELISM = 1  # as harness.tune --replay has it, since nothing is built beside


@dataclass(frozen=True)
class DataSet:
    """Those inputs of a recording for which a condition over their features holds."""

    source: Source
    where: str | None = None
    taught_by: tuple[Source, ...] = ()

    @property
    def name(self) -> str:
        """The file's, with the condition."""
        return name_of(self.source.path) + ("" if self.where is None else f", {self.where}")

    def described(self) -> str:
        """What there is, in a line."""
        recorded, spec = _read(self)
        counts = [len(recorded.tables[given].legal) for given in spec.inputs]
        return (
            f"{self.name}: {len(counts):,} inputs of {min(counts):,} to {max(counts):,} "
            f"configurations, in the median {statistics.median(counts):,g}"
        )

    def read(self) -> tuple[Recorded, Spec]:
        """The recording, and its spec with the inputs in which there is anything to search.

        Raises UsageError where there are none, and what `read_recorded` raises.
        """
        recorded = _recorded(self.source)
        spec = recorded_spec(recorded)
        chosen = spec if self.where is None else select_inputs(spec, self.where)
        kept = [given for given in chosen.inputs if _is_searched(recorded, given)]
        if not kept:
            raise UsageError(
                f"{self.source.path}: none of its {len(chosen.inputs)} inputs has two "
                "configurations and one that worked; there is nothing to search"
            )
        return recorded, dataclasses.replace(chosen, inputs=tuple(kept))

    @property
    def teachers(self) -> list[Recorded]:
        """Recordings of other devices, from which it may learn."""
        return [_recorded(source) for source in self.taught_by]


@functools.lru_cache(maxsize=2)
def _recorded(source: Source) -> Recorded:
    return source.read()


@functools.lru_cache(maxsize=2)
def _read(data: DataSet) -> tuple[Recorded, Spec]:
    return data.read()


def _is_searched(recorded: Recorded, given: Input) -> bool:
    table = recorded.tables[given]
    return len(table.legal) >= FEWEST and table.best is not None


@dataclass(frozen=True)
class Job:
    """One order of so many inputs, drawn by `seed`, and how they are searched."""

    data: DataSet
    inputs: int
    seed: int
    budget: int
    is_taught: bool

    @property
    def search(self) -> str:
        """How, in a word."""
        return TAUGHT if self.is_taught else ALONE


def run(job: Job) -> Array:
    """The best slowdown after each test, shape (inputs, budget), the inputs in their order."""
    recorded, spec = _read(job.data)
    spec = dataclasses.replace(spec, inputs=drawn(spec.inputs, job.inputs, job.seed))
    options = SearchOptions(
        resolve_techniques(["auto"]), job.budget, job.seed, "benchmark", _PARALLELISM
    )
    measurer = ReplayMeasurer(recording_of(recorded))
    teachers = job.data.teachers if job.is_taught else []
    with writing(_MEMORY) as engine:
        store = Store(engine)
        make_opentuner_tables(store)
        given = (spec, measurer, store, options, _Silent(), False, None, teachers)
        campaign = (InTurn if job.is_taught else Alone)(recorded, *given)
        campaign.search()
        store.sessions.remove()
    courses = [_slowdowns(recorded, given, campaign.found[given]) for given in spec.inputs]
    return padded(courses, job.budget)


def drawn(inputs: Sequence[Input], count: int, seed: int) -> tuple[Input, ...]:
    """So many of the inputs, or all of them, in a random order that the seed repeats."""
    return tuple(random.Random(seed).sample(list(inputs), min(count, len(inputs))))


def _slowdowns(recorded: Recorded, given: Input, course: Course) -> list[float]:
    optimum = recorded.optimum(given)
    assert optimum is not None
    return [best_s / optimum.time_s for best_s in course.best_s]


class InTurn(RecordedCampaign):
    """A campaign that only searches, and notes every test; with all that it knows of the inputs
    before each.

    The default of a recording merely stands in for one, so that nobody starts from it.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.found: dict[Input, Course] = {}

    def search(self) -> None:
        """Search the inputs in their order."""
        self._search_all()

    def _seeds(self, given: Input, space: Space, searched: Sequence[Input]) -> list[Config]:
        winners = {best.config for best in map(self._best, searched) if best is not None}
        return [seed for seed in super()._seeds(given, space, searched) if seed in winners]

    def _count(self, progress: Progress) -> None:
        measured = progress.measurement
        course = self.found.setdefault(progress.plan.given, Course(progress.plan.test_limit))
        is_ok = measured.outcome is Outcome.OK
        course.note(measured.config, measured.time_s if is_ok else math.inf)


class Alone(InTurn):
    """The same inputs, each searched as if it were the first."""

    def _seeds(self, given: Input, space: Space, searched: Sequence[Input]) -> list[Config]:
        return []

    def _taught(self, given: Input, space: Space, searched: Sequence[Input]) -> Taught | None:
        return None


class _Silent:
    """A display of nothing."""

    def begin_stage(self, title: str, steps: int) -> None:
        """Nothing is shown."""

    def step(self, text: str) -> None:
        """Nothing is shown."""

    def test(self, progress: Progress) -> None:
        """Nothing is shown."""

    def warn(self, text: str) -> None:
        """Nothing is shown."""
