"""The inputs of a recording, tuned one after another as a campaign does, and each alone."""

from __future__ import annotations

import dataclasses
import functools
import math
import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.peers.landscape import Course
from benchmarks.recordings import recorded
from benchmarks.search_figures import padded
from benchmarks.transfer_figures import ALONE, TAUGHT, Array
from harness.core.errors import UsageError
from harness.core.records import Config, Input, Outcome
from harness.models.transfer_prior import TransferData
from harness.recordings.files import recording_name
from harness.recordings.read import RecordingFile
from harness.recordings.recording import Recording
from harness.recordings.replay import ReplayMeasurer
from harness.recordings.space import ListedSpace, recording_spec
from harness.results import Store, writing
from harness.search import (
    Progress,
    SearchOptions,
    make_opentuner_tables,
    resolve_techniques,
)
from harness.search.transfer.sources import TransferSources
from harness.space_file import Spec
from harness.space_file.inputs import select_inputs
from harness.tuning.plan import CampaignPlan
from harness.tuning.progress import SilentDisplay
from harness.tuning.searching import Searching
from harness.tuning.state import State

FEWEST = 2
"""Configurations that an input must have for there to be anything to search."""

_MEMORY = "sqlite://"
_PARALLELISM = 1  # as harness.tune --replay has it, since nothing is built beside


@dataclass(frozen=True)
class DataSet:
    """Those inputs of a recording for which a condition over their features holds."""

    source: RecordingFile
    where: str | None = None
    warm_start: tuple[RecordingFile, ...] = ()

    @property
    def name(self) -> str:
        """The file's, with the condition."""
        return recording_name(self.source.path) + ("" if self.where is None else f", {self.where}")

    def described(self) -> Iterator[str]:
        """Describe the inputs and the warm start; raises UsageError for a useless recording."""
        read, spec = _read(self)
        counts = [len(read.tables[given].legal) for given in spec.inputs]
        yield (
            f"{self.name}: {len(counts):,} inputs of {min(counts):,} to {max(counts):,} "
            f"configurations, in the median {statistics.median(counts):,g}"
        )
        yield from (f"warning: {warning}" for warning in read.warnings)
        given = spec.inputs[0]
        lines = TransferSources(self.recordings).describe(ListedSpace(read, given), given)
        yield from (f"    warm start from {line}" for line in lines)

    def read(self) -> tuple[Recording, Spec]:
        """The recording, and its spec with the inputs in which there is anything to search.

        Raises UsageError where there are none, and what `read_recording` raises.
        """
        read = recorded(self.source)
        spec = recording_spec(read)
        chosen = spec if self.where is None else select_inputs(spec, self.where)
        kept = [given for given in chosen.inputs if _is_searched(read, given)]
        if not kept:
            raise UsageError(
                f"{self.source.path}: none of its {len(chosen.inputs)} inputs has two "
                "configurations and one that worked; there is nothing to search"
            )
        return read, dataclasses.replace(chosen, inputs=tuple(kept))

    @property
    def recordings(self) -> list[Recording]:
        """The recordings of other devices to learn from."""
        return [recorded(source) for source in self.warm_start]


@functools.cache
def _read(data: DataSet) -> tuple[Recording, Spec]:
    return data.read()


def _is_searched(recorded: Recording, given: Input) -> bool:
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
    recording, spec = _read(job.data)
    spec = dataclasses.replace(spec, inputs=drawn(spec.inputs, job.inputs, job.seed))
    options = SearchOptions(
        resolve_techniques(["auto"]), job.budget, job.seed, "benchmark", _PARALLELISM
    )
    spaces = {given: ListedSpace(recording, given) for given in spec.inputs}
    measurer = ReplayMeasurer.of(recording)
    recordings = job.data.recordings if job.is_taught else []
    with writing(_MEMORY) as engine:
        store = Store(engine)
        make_opentuner_tables(store)
        plan = CampaignPlan(spec, options, warm_start=recordings)
        state = State(plan, measurer, store, SilentDisplay(), space=spaces.__getitem__)
        searches = (OneByOne if job.is_taught else Alone)(state)
        searches.run()
        store.sessions.remove()
    courses = [_slowdowns(recording, given, searches.courses[given]) for given in spec.inputs]
    return padded(courses, job.budget)


def drawn(inputs: Sequence[Input], count: int, seed: int) -> tuple[Input, ...]:
    """So many of the inputs, or all of them, in a random order that the seed repeats."""
    return tuple(random.Random(seed).sample(list(inputs), min(count, len(inputs))))


def _slowdowns(recorded: Recording, given: Input, course: Course) -> list[float]:
    optimum = recorded.optimum(given)
    assert optimum is not None
    return [best_s / optimum.time_s for best_s in course.best_s]


class OneByOne(Searching):
    """Searches whose every test is noted, each with all that is known of the inputs before.

    The default of a recording merely stands in for one, so that nobody starts from it.
    """

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self.courses: dict[Input, Course] = {}

    def seeds(self, given: Input, before: Sequence[Input]) -> list[Config]:
        """The winner of the input most like this one."""
        winners = {best.config for best in map(self.state.best, before) if best is not None}
        return [seed for seed in super().seeds(given, before) if seed in winners]

    def note(self, progress: Progress) -> None:
        """A test has ended."""
        measured = progress.measurement
        course = self.courses.setdefault(progress.plan.problem, Course(progress.plan.test_limit))
        is_ok = measured.outcome is Outcome.OK
        course.note(measured.config, measured.time_s if is_ok else math.inf)


class Alone(OneByOne):
    """The same inputs, each searched as if it were the first."""

    def seeds(self, given: Input, before: Sequence[Input]) -> list[Config]:
        """Nothing."""
        return []

    def transfer_data(self, given: Input, before: Sequence[Input]) -> TransferData | None:
        """Nothing."""
        return None
