"""Progress: one live line on a terminal, below the best of each input; else plain lines."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
)
from rich.table import Column

from harness.core.config_diff import difference
from harness.core.records import Config, Input, Measurement, Outcome
from harness.core.text import counted, escaped
from harness.display.formats import format_outcomes, format_timing
from harness.display.text import print_line, print_lines
from harness.display.time_left import TimeLeft

if TYPE_CHECKING:  # it brings OpenTuner, which not every command needs
    from harness.search import Progress as TestProgress

_PLAIN_PERIOD_S = 5.0
_MOST_SO_FAR = 20  # inputs
_MOST_LIVE = 12  # devices with a live line
_NONE = ("none worked yet", "")


class ProgressDisplay:
    """Progress of stages and of a search's tests, also on several devices at once."""

    def __init__(
        self, console: Console, quiet: bool = False, default: Config | None = None
    ) -> None:
        """Show configurations as changes from `default`; without one, whole."""
        self._console = console
        self._quiet = quiet
        self._default = default or Config({})
        self._live = console.is_terminal and not console.is_dumb_terminal and not quiet
        # One line at any width: the last column is cut first.
        status = Column(no_wrap=True, overflow="ellipsis", ratio=1)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
            BarColumn(bar_width=10),
            MofNCompleteColumn(table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[left]}", markup=False, table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[status]}", markup=False, table_column=status),
            console=console,
            expand=True,
            transient=True,
        )
        self._left = TimeLeft()
        self._bests: dict[Input, Measurement] = {}
        self._last_line_s = -math.inf
        self._whole = StageProgress(self, "")
        self._devices: dict[str, StageProgress] = {}
        self.warnings: list[str] = []

    def __enter__(self) -> ProgressDisplay:
        if self._live:
            self._bar.start()
        return self

    def __exit__(self, kind: object = None, *_: object) -> None:
        if self._live:
            self._bar.stop()
        if isinstance(kind, type) and issubclass(kind, KeyboardInterrupt):
            print_lines(self._console, self._so_far())

    def _so_far(self) -> Iterator[str]:
        """Describe the best of each input so far."""
        if not self._bests:
            return
        yield "Best so far, by the times of the search:"
        for problem, best in list(self._bests.items())[:_MOST_SO_FAR]:
            time, config = self.describe(best)
            yield f"    {problem}: {time}{config}"
        more = len(self._bests) - _MOST_SO_FAR
        if more > 0:
            yield f"    and {counted(more, 'input')} more"

    def on(self, device: str) -> StageProgress:
        """Return the display of what one of several devices does."""
        if device not in self._devices:
            self._devices[device] = StageProgress(self, f"{device} ", of_device=True)
        return self._devices[device]

    def begin_stage(self, title: str, steps: int, stored: int = 0) -> None:
        """Begin a stage; one without steps is not shown. The database may answer `stored` steps."""
        self.end_devices()
        self._whole.begin_stage(title, steps, stored)

    def note(self, text: str) -> None:
        """Print a line above the live line."""
        self._line(text)

    def warn(self, text: str) -> None:
        """Print a warning above the live line, even where quiet."""
        self.warnings.append(text)
        print_line(self._console, f"warning: {text}")

    def step(self, text: str) -> None:
        """Count a step that has ended."""
        self._whole.step(text)

    def test(self, progress: TestProgress) -> None:
        """Count a test that has ended; a search's last test closes its line."""
        self._whole.test(progress)

    # ------------------------------------------------------- for the display of each device

    def end_whole(self) -> None:
        """End the stage of all devices together: one of them begins a stage of its own."""
        self._whole.end()

    def end_devices(self) -> None:
        """End the stages of single devices."""
        for device in self._devices.values():
            device.end()

    def begin(self, title: str, steps: int) -> TaskID | None:
        """Note that a stage begins, and show a live line for it."""
        self._left = TimeLeft()
        if not self._live or not steps or len(self._bar.tasks) >= _MOST_LIVE:
            return None
        return self._bar.add_task(escaped(title), total=steps, status="", left=self.time_left())

    def end(self, task: TaskID | None) -> None:
        """Remove a live line."""
        if task is not None:
            self._bar.remove_task(task)

    def advance(self, task: TaskID | None, status: str) -> None:
        """Count a step in a live line."""
        if task is not None:
            left = self.time_left()
            self._bar.update(task, advance=1, status=escaped(status), left=left)

    def worked(self) -> None:
        """Count a step that has ended for the time left."""
        self._left.worked()

    def tested(self, progress: TestProgress) -> None:
        """Count a test for the time left, and keep the best of its input."""
        if not progress.replayed:
            self._left.worked()
        if progress.best is not None:
            self._bests[progress.plan.problem] = progress.best

    def time_left(self) -> str:
        """Describe the time left of the stage; with several devices, also their pace."""
        busy = [device for device in self._devices.values() if device.left]
        steps = self._whole.left + sum(device.left for device in busy)
        return self._left.text(steps, max(1, len(busy)))

    def describe(self, best: Measurement | None) -> tuple[str, str]:
        """Return the best time, and its configuration in parentheses."""
        if best is None or best.timing is None:
            return _NONE
        config = difference(best.config, self._default)
        return f"best {format_timing(best.timing)}", f" ({config})"

    def line_when_due(self, text: str, is_last: bool) -> None:
        """Print a line at the end of a stage, and every few seconds before."""
        if not self._live and (self.is_due or is_last):
            left = self.time_left()
            self.line_now(f"{text}{'; ' if left else ''}{left}")

    def line_when_live(self, text: str) -> None:
        """Print a line above the live lines, where it stays."""
        if self._live:
            self._line(text)

    @property
    def is_due(self) -> bool:
        """Whether the last line was printed some seconds ago, and lines are plain."""
        is_late = time.monotonic() - self._last_line_s > _PLAIN_PERIOD_S
        return is_late and not self._live

    def line_now(self, text: str) -> None:
        """Print a line."""
        self._last_line_s = time.monotonic()
        self._line(text)

    def _line(self, text: str) -> None:
        if not self._quiet:
            print_line(self._console, text)


class StageProgress:
    """Progress of one stage at a time: of a whole campaign, or of one of its devices."""

    def __init__(self, display: ProgressDisplay, name: str, of_device: bool = False) -> None:
        """`name` begins each line."""
        self._display = display
        self._name = name
        self._is_of_device = of_device
        self._task: TaskID | None = None
        self._title, self._steps, self._done = "", 0, 0
        self._outcomes: Counter[Outcome] = Counter()
        self._shared = 0
        self._best: Measurement | None = None
        self._best_text = _NONE

    @property
    def left(self) -> int:
        """The steps that are left."""
        return self._steps - self._done

    def on(self, device: str) -> StageProgress:
        """Return the display of what one of several devices does."""
        return self._display.on(device)

    def begin_stage(self, title: str, steps: int, stored: int = 0) -> None:
        """Begin a stage; one without steps is not shown. The database may answer `stored` steps."""
        self.end()
        if self._is_of_device:
            self._display.end_whole()
        self._title, self._steps = f"{self._name}{title}", steps
        self._task = self._display.begin(self._title, steps)
        if steps and self._display.is_due:
            known = f", of which the database may answer {stored}" if stored else ""
            self._display.line_now(f"{self._title}: {steps} to do{known}")

    def end(self) -> None:
        """End the stage."""
        self._display.end(self._task)
        self._task, self._steps, self._done = None, 0, 0
        self._outcomes, self._shared = Counter(), 0

    def note(self, text: str) -> None:
        """Print a line."""
        self._display.note(text)

    def warn(self, text: str) -> None:
        """Print a warning."""
        self._display.warn(text)

    def step(self, text: str) -> None:
        """Count a step that has ended."""
        self._done += 1
        self._display.worked()
        self._display.advance(self._task, text)
        self._line_when_due(f"{self._done} of {self._steps}, {text}")

    def test(self, progress: TestProgress) -> None:
        """Count a test that has ended; a search's last test closes its line."""
        self._done, self._steps = progress.ordinal, progress.total
        self._outcomes[progress.measurement.outcome] += 1
        self._shared += progress.measurement.shared_with is not None
        outcomes = format_outcomes(self._outcomes)
        outcomes += f", {self._shared} shared" if self._shared else ""
        self._display.tested(progress)
        if progress.best is not self._best:  # formatting is slow, and few tests are a new best
            self._best, self._best_text = progress.best, self._display.describe(progress.best)
        best_time, best_config = self._best_text
        # The counts stand before the configuration, so that a cut line still shows them.
        self._display.advance(self._task, f"{best_time}; {outcomes}{best_config}")
        test = f"test {progress.ordinal} of {progress.total}"
        text = f"{test}, {best_time}{best_config}; {outcomes}"
        if not self.left:
            self._display.line_when_live(f"{self._title}: {text}")
        self._line_when_due(text)

    def _line_when_due(self, text: str) -> None:
        self._display.line_when_due(f"{self._title}: {text}", is_last=not self.left)


@dataclass(frozen=True)
class ConsoleListener:
    """Shows what a campaign says, and its progress, on a console; keeps the warnings."""

    console: Console
    quiet: bool = False
    warnings: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Print a line unless quiet."""
        if not self.quiet:
            print_line(self.console, text)

    def say(self, text: str) -> None:
        """Print a line."""
        print_line(self.console, text)

    def warn(self, text: str) -> None:
        """Print a warning."""
        self.warnings.append(text)
        print_line(self.console, f"warning: {text}")

    def progress(self, default: Config | None) -> ProgressDisplay:
        """Make the display of the progress."""
        display = ProgressDisplay(self.console, self.quiet, default)
        display.warnings = self.warnings
        return display
