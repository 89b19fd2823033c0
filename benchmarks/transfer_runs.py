"""Tune the inputs of a recording one after another as a campaign does, and each alone."""

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
"""The fewest configurations of an input that make a search possible."""

_MEMORY = "sqlite://"
_PARALLELISM = 1  # as in harness.tune --replay, since nothing is built in parallel


@dataclass(frozen=True)
class DataSet:
    """The inputs of a recording that satisfy a condition over their features."""

    source: RecordingFile
    where: str | None = None
    warm_start: tuple[RecordingFile, ...] = ()

    @property
    def name(self) -> str:
        """Return the file's name with the condition."""
        return recording_name(self.source.path) + ("" if self.where is None else f", {self.where}")

    def described(self) -> Iterator[str]:
        """Describe the inputs and the warm start; raise UsageError for a useless recording."""
        read, spec = _read(self)
        counts = [len(read.tables[problem].legal) for problem in spec.inputs]
        yield (
            f"{self.name}: {len(counts):,} inputs of {min(counts):,} to {max(counts):,} "
            f"configurations, in the median {statistics.median(counts):,g}"
        )
        problem = spec.inputs[0]
        lines = TransferSources(self.recordings).describe(ListedSpace(read, problem), problem)
        yield from (f"    warm start from {line}" for line in lines)

    def read(self) -> tuple[Recording, Spec]:
        """Read the recording, and its spec with the inputs that can be searched.

        Raises UsageError if there are none, and the errors of `read_recording`.
        """
        read = recorded(self.source)
        spec = recording_spec(read)
        chosen = spec if self.where is None else select_inputs(spec, self.where)
        kept = [problem for problem in chosen.inputs if _is_searched(read, problem)]
        if not kept:
            raise UsageError(
                f"{self.source.path}: none of its {len(chosen.inputs)} inputs has two "
                "configurations and one that worked; there is nothing to search"
            )
        return read, dataclasses.replace(chosen, inputs=tuple(kept))

    @property
    def recordings(self) -> list[Recording]:
        """Read the recordings of other devices to learn from."""
        return [recorded(source) for source in self.warm_start]


@functools.cache
def _read(data: DataSet) -> tuple[Recording, Spec]:
    return data.read()


def _is_searched(recorded: Recording, problem: Input) -> bool:
    table = recorded.tables[problem]
    return len(table.legal) >= FEWEST and table.best is not None


@dataclass(frozen=True)
class OrderJob:
    """The searches of one order of inputs, drawn by `seed`."""

    data: DataSet
    inputs: int
    seed: int
    budget: int
    transfers: bool

    @property
    def search(self) -> str:
        """Return the kind of the searches."""
        return TAUGHT if self.transfers else ALONE


def run(job: OrderJob) -> Array:
    """Return the best slowdown after each test, shape (inputs, budget), inputs in order."""
    recording, spec = _read(job.data)
    spec = dataclasses.replace(spec, inputs=drawn(spec.inputs, job.inputs, job.seed))
    options = SearchOptions(
        resolve_techniques(["auto"]), job.budget, job.seed, "benchmark", _PARALLELISM
    )
    spaces = {problem: ListedSpace(recording, problem) for problem in spec.inputs}
    measurer = ReplayMeasurer.of(recording)
    recordings = job.data.recordings if job.transfers else []
    with writing(_MEMORY) as engine:
        store = Store(engine)
        make_opentuner_tables(store)
        plan = CampaignPlan(spec, options, warm_start=recordings)
        state = State(plan, measurer, store, SilentDisplay(), space=spaces.__getitem__)
        searches = (Transferring if job.transfers else Alone)(state)
        searches.run()
        store.close()
    courses = [_slowdowns(recording, problem, searches.courses[problem]) for problem in spec.inputs]
    return padded(courses, job.budget)


def drawn(inputs: Sequence[Input], count: int, seed: int) -> tuple[Input, ...]:
    """Draw inputs, or all of them, in a random order that the seed repeats."""
    return tuple(random.Random(seed).sample(list(inputs), min(count, len(inputs))))


def _slowdowns(recorded: Recording, problem: Input, course: Course) -> list[float]:
    optimum = recorded.optimum(problem)
    assert optimum is not None
    return [best_s / optimum.time_s for best_s in course.best_s]


class Transferring(Searching):
    """Searches with transfer from the earlier inputs; notes every test.

    No search starts from the default, since a recording has no real one.
    """

    def __init__(self, state: State) -> None:
        super().__init__(state, self.note)
        self.courses: dict[Input, Course] = {}

    def seeds(self, problem: Input, before: Sequence[Input]) -> list[Config]:
        """Return the winner of the most similar input."""
        winners = {best.config for best in map(self.state.best, before) if best is not None}
        return [seed for seed in super().seeds(problem, before) if seed in winners]

    def note(self, progress: Progress) -> None:
        """Note a test."""
        measured = progress.measurement
        course = self.courses.setdefault(progress.plan.problem, Course(progress.plan.test_limit))
        is_ok = measured.outcome is Outcome.OK
        course.note(measured.config, measured.time_s if is_ok else math.inf)


class Alone(Transferring):
    """Searches of the same inputs without transfer."""

    def seeds(self, problem: Input, before: Sequence[Input]) -> list[Config]:
        """Return no seeds."""
        return []

    def transfer_data(self, problem: Input, before: Sequence[Input]) -> TransferData | None:
        """Return no transfer data."""
        return None
