"""Searches of a recording, compared with the recorded optimum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Group
from rich.table import Table

from harness.analysis.inputs import fastest
from harness.core.records import Input, Measurement, shown
from harness.core.text import format_time
from harness.display.text import as_text, make_table
from harness.measure.measurer import Measurer
from harness.recordings.recording import Recording
from harness.recordings.space import ListedSpace
from harness.results import Store
from harness.search import Progress
from harness.tuning import Campaign, CampaignPlan
from harness.tuning.progress import Display

MILESTONES = (25, 50, 100, 200, 400)
"""The numbers of tests after which the table shows how near the optimum a search was."""


@dataclass
class ReplayCourse:
    """The course of one input's search: its tests, and the best time after each milestone."""

    best: Measurement | None = None
    tests: int = 0
    after: dict[int, float] = field(default_factory=dict)  # tests -> seconds

    def note(self, progress: Progress) -> None:
        """Take in a test that has ended."""
        self.best, self.tests = progress.best, progress.ordinal
        if progress.best is not None and progress.ordinal in MILESTONES:
            self.after[progress.ordinal] = progress.best.time_s


class RecordedCampaign(Campaign):
    """A campaign over the configurations of a recording. Tests of earlier runs do not count."""

    def __init__(
        self,
        recording: Recording,
        plan: CampaignPlan,
        measurer: Measurer,
        store: Store,
        display: Display,
    ) -> None:
        self._recording = recording
        self._courses: dict[Input, ReplayCourse] = {}
        super().__init__(plan, measurer, store, display)

    def _make_space(self, problem: Input) -> ListedSpace:
        """Return the recorded configurations of an input that are not illegal."""
        return ListedSpace(self._recording, problem)

    def note(self, progress: Progress) -> None:
        """Take in a test that has ended."""
        super().note(progress)
        self._courses.setdefault(progress.plan.problem, ReplayCourse()).note(progress)

    @property
    def courses(self) -> Mapping[Input, ReplayCourse]:
        """The course of each input; without milestones where the inputs were sampled."""
        if self.validation is None:
            return self._courses
        return {
            problem: ReplayCourse(fastest(found.values()), len(found))
            for problem, found in self.measured().items()
            if found
        }

    @property
    def result(self) -> Group:
        """The results of the searches, for a console."""
        title = f"{self.spec.name}: {self._recording.title} on {self._recording.device}"
        table = optimum_table(self._recording, self.courses)
        best = "\n".join(best_lines(self._recording, self.courses))
        legend = _LEGEND if any(course.after for course in self.courses.values()) else _SHORT
        return Group(as_text(title, "bold"), table, as_text(best), as_text(legend, "dim"))


def describe_recording(recording: Recording) -> str:
    """Describe a recording in a line."""
    tables = recording.tables.values()
    outcomes = Counter(outcome for table in tables for outcome in table.outcomes)
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.items())
    searched = sum(len(p.values) > 1 for p in recording.parameters)
    return (
        f"{recording.path}: {recording.kind} of {recording.title} on {recording.device}; "
        f"{counts}; {searched} parameters to search"
    )


def optimum_table(recording: Recording, courses: Mapping[Input, ReplayCourse]) -> Table:
    """Render a row for each input: the best configuration found, and the recorded optimum."""
    reached = [n for n in MILESTONES if any(n in course.after for course in courses.values())]
    after = (f"after {tests}" for tests in reached)
    head = ("input", "best", "optimum", "optimum / best", "tests", *after)
    rows = (_cells(recording, problem, course, reached) for problem, course in courses.items())
    return make_table(head, rows, wrap=(0,))


_SHORT = (
    "Times are medians of the recorded samples. The optimum is the fastest recorded configuration. "
    "optimum / best is 1 where the search found it."
)
_LEGEND = f"{_SHORT} after N is optimum / best after N tests."


def _cells(
    recording: Recording, problem: Input, course: ReplayCourse, reached: Sequence[int]
) -> Iterator[str]:
    optimum = recording.optimum(problem)
    yield str(problem)
    yield format_time(course.best.time_s) if course.best else "nothing worked"
    yield format_time(optimum.time_s) if optimum else "-"
    yield _fraction(optimum, course.best.time_s if course.best else None)
    yield f"{course.tests:,} of {len(recording.tables[problem].legal):,}"
    yield from (_fraction(optimum, course.after.get(tests)) for tests in reached)


def best_lines(recording: Recording, courses: Mapping[Input, ReplayCourse]) -> Iterator[str]:
    """Yield the best configuration of each input, without parameters that have one value."""
    names = [p.name for p in recording.parameters if len(p.values) > 1]
    for problem, course in courses.items():
        if course.best is not None:
            values = (f"{name}={shown(course.best.config[name])}" for name in names)
            yield f"best on ({problem}): {', '.join(values)}"


def _fraction(optimum: Measurement | None, best_s: float | None) -> str:
    return "-" if optimum is None or best_s is None else f"{optimum.time_s / best_s:.3f}"
