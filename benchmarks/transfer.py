"""Measure how many tests transfer learning saves on the later inputs of a space.

Inputs of a recording are drawn in a random order and tuned one after another, as a campaign of
harness.tune does: each search starts from the winners of similar inputs, with the results of all
earlier inputs as training data ("with transfer"). The same inputs are also searched independently
("alone"). For both

- tests are distinct configurations, including failures; times are medians of recorded samples;
- no search starts from a default, since a recording has none;
- the technique is `auto`, with the same random numbers.

    python -m benchmarks.transfer stencil_workgroups.csv.gz \\
        --mapping benchmarks/mappings/stencil_workgroups.yaml --where "device == 'Tahiti'"

10 orders of 30 inputs take several minutes on one core. `near` is the number of tests to come
within 5 % of the best, or one more than the budget, its median and its mean, and `after N` the mean
fraction of the optimum; brackets have the 95 % bootstrap interval over orders and their inputs. The
last line is one JSON object.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import math
import random
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.frame import JOBS, RECORDINGS, Figures, benchmark, in_processes, option, show
from benchmarks.peers.landscape import Course
from benchmarks.recordings import RecordingFile, recorded, recording_files
from benchmarks.search_figures import Array, bootstrap, near_after, padded, within
from harness.core.errors import UsageError
from harness.core.records import Input, Outcome
from harness.display.progress import Display
from harness.recordings.files import recording_name
from harness.recordings.recording import Recording
from harness.recordings.replay import ReplayMeasurer, recording_spec
from harness.results import Store, writing
from harness.search import Progress, SearchOptions, resolve_techniques, search_input
from harness.space_file import Spec
from harness.stats import Estimate
from harness.tuning import CampaignPlan
from harness.tuning.searching import prepared
from harness.tuning.state import State

MILESTONES = (1, 3, 5, 10, 25)
STARTS = (1, 2, 4, 10)
"""The first inputs of the groups of inputs: small ones first, where most is learnt."""

ALONE, TRANSFER = "alone", "with transfer"


# --------------------------------------------------------------------------------- the searches


@dataclass(frozen=True)
class DataSet:
    """The inputs of a recording that satisfy a condition over their features."""

    source: RecordingFile
    where: str | None = None

    @property
    def name(self) -> str:
        """Return the file's name with the condition."""
        return recording_name(self.source.path) + ("" if self.where is None else f", {self.where}")

    def read(self) -> tuple[Recording, Spec]:
        """Read the recording, and its spec with the inputs that can be searched.

        Raises UsageError if there are none, and the errors of `read_recording`.
        """
        read = recorded(self.source)
        spec = recording_spec(read)
        chosen = spec if self.where is None else spec.with_inputs_where(self.where)
        tables = {problem: read.tables[problem] for problem in chosen.inputs}
        works = {problem for problem, t in tables.items() if np.isfinite(t.times_s).any()}
        kept = [p for p, table in tables.items() if len(table.legal) > 1 and p in works]
        if not kept:
            raise UsageError(
                f"{self.source.path}: none of its {len(chosen.inputs)} inputs has two "
                "configurations and one that worked; there is nothing to search"
            )
        return read, dataclasses.replace(chosen, inputs=tuple(kept))


@functools.cache
def _read(data: DataSet) -> tuple[Recording, Spec]:
    return data.read()


@dataclass(frozen=True)
class OrderJob:
    """The searches of one order of inputs, drawn by `seed`."""

    data: DataSet
    inputs: int
    seed: int
    budget: int
    search: str


def run(job: OrderJob) -> Array:
    """Return the best slowdown after each test, shape (inputs, budget), inputs in order."""
    recording, spec = _read(job.data)
    count = min(job.inputs, len(spec.inputs))
    drawn = random.Random(job.seed).sample(spec.inputs, count)
    spec = dataclasses.replace(spec, inputs=tuple(drawn))
    options = SearchOptions(resolve_techniques(["auto"]), job.budget, job.seed, "benchmark", 1)
    with writing("sqlite://") as engine, Store(engine) as store:
        measurer = ReplayMeasurer.of(recording)
        number = store.choose_campaign(spec, measurer.environment, fresh=False)
        plan = CampaignPlan(spec, options, number, recording=recording)
        state = State(plan, measurer, store, Display())
        courses = _searched(state, learns=job.search == TRANSFER)
    slowdowns = [_slowdowns(recording, problem, courses[problem]) for problem in spec.inputs]
    return padded(slowdowns, job.budget)


def _slowdowns(recorded: Recording, problem: Input, course: Course) -> list[float]:
    optimum = recorded.optimum(problem)
    assert optimum is not None
    return [best_s / optimum.time_s for best_s in course.best_s]


def _searched(state: State, learns: bool) -> dict[Input, Course]:
    """Search the inputs, with transfer from the earlier ones if a search `learns`; return the
    course of each. No search starts from the default, since a recording has no real one."""
    courses: dict[Input, Course] = {}

    def note(progress: Progress) -> None:
        measured = progress.measurement
        course = courses.setdefault(progress.plan.problem, Course(progress.plan.test_limit))
        is_ok = measured.outcome is Outcome.OK
        course.note(measured.config, measured.time_s if is_ok else math.inf)

    for index, problem in enumerate(state.spec.inputs):
        before = state.spec.inputs[:index]
        search = dataclasses.replace(prepared(state, problem, before, state.options), report=note)
        winners = {best.config for best in map(state.best, before) if best is not None}
        seeds = [seed for seed in search.seeds if learns and seed in winners]
        transfer = search.transfer if learns else None
        search = dataclasses.replace(search, seeds=seeds, transfer=transfer)
        state.runs[problem] = search_input(search).run_id
    return courses


# ---------------------------------------------------------------------------------- the figures


def tests_to_near(slowdowns: Array) -> Array:
    """Return the tests to come near the optimum, shape (orders, inputs), from the best slowdowns
    after each test; a search that never did counts as one more than the budget."""
    budget = slowdowns.shape[2]
    flat = near_after(slowdowns.reshape(-1, budget), 1.0)
    near: Array = np.minimum(flat, budget + 1).reshape(slowdowns.shape[:2])
    return near


def ratio(one: Array, other: Array) -> Estimate:
    """Estimate the ratio of two means over the same inputs, each of shape (orders, inputs)."""

    def statistic(pairs: Array, axis: tuple[int, int]) -> Array:
        means = pairs.mean(axis=axis)
        found: Array = means[..., 0] / means[..., 1]
        return found

    return bootstrap(np.stack([one, other], axis=2), statistic=statistic)


def groups(inputs: int) -> Iterator[tuple[str, slice]]:
    """Yield groups of the inputs of an order, each with its name."""
    starts = [start for start in STARTS if start <= inputs]
    for start, end in zip(starts, [*(later - 1 for later in starts[1:]), inputs], strict=True):
        yield str(start) if start == end else f"{start}-{end}", slice(start - 1, end)


def figures(compared: Mapping[str, Array]) -> dict[str, Any]:
    """Return the figures of each group of inputs and search, and the tests of a search with
    transfer over those of one alone."""
    found: dict[str, Any] = {}
    for name, part in groups(compared[ALONE].shape[1]):
        near = {search: tests_to_near(orders[:, part]) for search, orders in compared.items()}
        for search, orders in compared.items():
            found[f"{name} {search}"] = {
                "near, median": bootstrap(near[search], statistic=np.median),
                "near, mean": bootstrap(near[search]),
                **{
                    f"after {tests}": bootstrap(1 / orders[:, part, tests - 1])
                    for tests in within(MILESTONES, orders.shape[2])
                },
            }
        found[f"{name} {TRANSFER} over {ALONE}"] = ratio(near[TRANSFER], near[ALONE])
    return found


@benchmark(
    *RECORDINGS,
    option("--where", [None], "a data set of the inputs for which this holds", nargs="+"),
    option("--inputs", 30, "inputs of an order"),
    option("--seeds", 10, "random orders"),
    option("--budget", 25, "tests of each input"),
    JOBS,
)
def main(args: argparse.Namespace) -> Figures:
    """Run all searches and print tables."""
    files = recording_files(args.file, args.mapping)
    sets = [DataSet(source, where) for source in files for where in args.where]
    for data in sets:
        print(f"{data.name}: {len(data.read()[1].inputs):,} inputs", flush=True)
    jobs = [
        OrderJob(data, args.inputs, seed, args.budget, search)
        for data in sets
        for seed in range(args.seeds)
        for search in (ALONE, TRANSFER)
    ]
    courses: dict[str, dict[str, list[Array]]] = {}
    for job, order in in_processes(run, jobs, args.jobs, lambda job: f"{job.search} {job.seed}"):
        courses.setdefault(job.data.name, {}).setdefault(job.search, []).append(order)
    found = {
        name: figures({search: np.stack(orders) for search, orders in compared.items()})
        for name, compared in courses.items()
    }
    for name, by_group in found.items():
        rows = {group: one for group, one in by_group.items() if isinstance(one, dict)}
        head = ("inputs", *next(iter(rows.values())))
        show(head, [(group, *one.values()) for group, one in rows.items()], name)
        over = {group: one for group, one in by_group.items() if group not in rows}
        show(("inputs, tests", "ratio"), over.items())
    return found


if __name__ == "__main__":
    sys.exit(main())
