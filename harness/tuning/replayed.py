"""Tuning a recording: what each input's search found, and when, against the recorded optimum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from harness.analysis.inputs import fastest
from harness.core.records import Input, Measurement, Outcome, shown
from harness.display import format_time
from harness.measure.measurer import Measurer
from harness.recordings.recording import Recording
from harness.recordings.space import ListedSpace
from harness.results import Store
from harness.search import Progress
from harness.tuning import Campaign, CampaignPlan
from harness.tuning.progress import Display
from harness.tuning.searching import Searching
from harness.tuning.state import State

MILESTONES = (25, 50, 100, 200, 400)
"""Numbers of tests after which it is told how far a search had come."""


@dataclass
class Course:
    """One input's search: how many tests counted, and the best of the first so many."""

    best: Measurement | None = None
    tests: int = 0
    after: dict[int, float] = field(default_factory=dict)  # tests -> seconds

    def note(self, progress: Progress) -> None:
        """A test has ended."""
        self.best, self.tests = progress.best, progress.ordinal
        if progress.best is not None and progress.ordinal in MILESTONES:
            self.after[progress.ordinal] = progress.best.time_s


class _Noted(Searching):
    """Searches whose courses are kept."""

    def __init__(self, state: State, courses: dict[Input, Course]) -> None:
        super().__init__(state)
        self._courses = courses

    def note(self, progress: Progress) -> None:
        """A test has ended."""
        super().note(progress)
        self._courses.setdefault(progress.plan.problem, Course()).note(progress)


class RecordedCampaign(Campaign):
    """A campaign over exactly what a recording holds; tests are counted by this run alone."""

    def __init__(
        self,
        recorded: Recording,
        plan: CampaignPlan,
        measurer: Measurer,
        store: Store,
        display: Display,
    ) -> None:
        self._recorded = recorded
        self._spaces: dict[Input, ListedSpace] = {}
        self._courses: dict[Input, Course] = {}
        super().__init__(plan, measurer, store, display)

    def space(self, given: Input) -> ListedSpace:
        """The recorded configurations of an input that are not illegal."""
        if given not in self._spaces:
            self._spaces[given] = ListedSpace(self._recorded, given)
        return self._spaces[given]

    def searching(self, state: State) -> Searching:
        """Searches whose courses are told."""
        return _Noted(state, self._courses)

    @property
    def courses(self) -> Mapping[Input, Course]:
        """Of each input how its search went; of one that was sampled only where it ended."""
        if self.validation is None:
            return self._courses
        known = {given: found for given, found in self.measured().items() if found}
        return {
            given: Course(fastest(found.values()), len(found)) for given, found in known.items()
        }

    @property
    def result(self) -> Group:
        """What the searches came to, for a console."""
        title = f"{self.spec.name}: {self._recorded.title} on {self._recorded.device}"
        table = optimum_table(self._recorded, self.courses)
        best = "\n".join(best_lines(self._recorded, self.courses))
        legend = _LEGEND if any(course.after for course in self.courses.values()) else _SHORT
        return Group(Text(title, style="bold"), table, Text(best), Text(legend, style="dim"))


def describe_recording(recorded: Recording) -> str:
    """What was read, in a line."""
    outcomes: dict[Outcome, int] = {}
    for table in recorded.tables.values():
        for outcome in table.outcomes:
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
    told = ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.items())
    searched = sum(len(p.values) > 1 for p in recorded.parameters)
    return (
        f"{recorded.path}: {recorded.kind} of {recorded.title} on {recorded.device}; {told}; "
        f"{searched} parameters to search"
    )


def optimum_table(recorded: Recording, courses: Mapping[Input, Course]) -> Table:
    """One row an input: how far from the recorded optimum its search came, in how many tests."""
    reached = [n for n in MILESTONES if any(n in course.after for course in courses.values())]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("input", min_width=20)
    for heading in ("best", "optimum", "optimum / best", "tests"):
        table.add_column(heading, justify="right", no_wrap=True)
    for tests in reached:
        table.add_column(f"after {tests}", justify="right", no_wrap=True)
    for given, course in courses.items():
        table.add_row(*map(Text, _cells(recorded, given, course, reached)))
    return table


_SHORT = (
    "times: medians of the recorded samples; optimum: the fastest recorded configuration; "
    "optimum / best: 1 is the optimum itself"
)
_LEGEND = f"{_SHORT}; after N: the same after N tests"


def _cells(recorded: Recording, given: Input, course: Course, reached: list[int]) -> Iterator[str]:
    optimum = recorded.optimum(given)
    yield str(given)
    yield format_time(course.best.time_s) if course.best else "nothing worked"
    yield format_time(optimum.time_s) if optimum else "-"
    yield _fraction(optimum, course.best.time_s if course.best else None)
    yield f"{course.tests:,} of {len(recorded.tables[given].legal):,}"
    yield from (_fraction(optimum, course.after.get(tests)) for tests in reached)


def best_lines(recorded: Recording, courses: Mapping[Input, Course]) -> Iterator[str]:
    """The best configuration of each input, by those parameters that have several values."""
    names = [p.name for p in recorded.parameters if len(p.values) > 1]
    for given, course in courses.items():
        if course.best is not None:
            values = (f"{name}={shown(course.best.config[name])}" for name in names)
            yield f"best on ({given}): {', '.join(values)}"


def _fraction(optimum: Measurement | None, best_s: float | None) -> str:
    return "-" if optimum is None or best_s is None else f"{optimum.time_s / best_s:.3f}"
