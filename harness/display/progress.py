"""Progress: one live line on a terminal, below the best of each input; else plain lines."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column

from harness.core.config_diff import difference
from harness.core.records import Config, Input, Measurement
from harness.core.text import counted, escaped
from harness.display.text import format_outcomes, format_timing, print_line, print_lines

if TYPE_CHECKING:  # it brings OpenTuner, which not every command needs
    from harness.search import Progress as TestProgress

_PLAIN_PERIOD_S = 5.0
_MOST_SO_FAR = 20  # inputs
_MOST_LIVE = 12  # devices with a live line
_NONE = ("none worked yet", "")


class Display:
    """Shows the progress of a campaign; this one shows nothing."""

    def on(self, device: str) -> Display:
        """Return the display of what one of several devices does."""
        return self

    def begin_stage(self, title: str, steps: int, stored: int = 0) -> None:
        """Begin a stage; one without steps is not shown. The database may answer `stored` steps."""

    def step(self, text: str) -> None:
        """Count a step that has ended."""

    def test(self, progress: TestProgress) -> None:
        """Count a test of a search that has ended."""

    def note(self, text: str) -> None:
        """Show a fact that may be left out where only results are wanted."""

    def warn(self, text: str) -> None:
        """Show a problem that does not end the campaign."""


class _StageProgress(Display):
    """Progress of one stage at a time: of a whole campaign, or of the device of this name."""

    def __init__(self, screen: ProgressDisplay, device: str = "") -> None:
        self._screen = screen
        self._device = device
        self._task: TaskID | None = None
        self._title, self._steps, self._done = "", 0, 0
        self._best: Measurement | None = None
        self._best_text = _NONE
        screen.stages[device] = self

    def on(self, device: str) -> Display:
        """Return the display of what one of several devices does."""
        return self._screen.stages.get(device) or _StageProgress(self._screen, device)

    def begin_stage(self, title: str, steps: int, stored: int = 0) -> None:
        """Begin a stage; one of a device ends that of the whole campaign, and the other way."""
        screen = self._screen
        for name, other in screen.stages.items():
            if other is self or not name or not self._device:
                other.end()
        self._title, self._steps = f"{self._device} {title}".lstrip(), steps
        if not steps:
            return
        if screen.live and len(screen.bar.tasks) < _MOST_LIVE:
            self._task = screen.bar.add_task(escaped(self._title), total=steps, status="")
        of_these = f", of which the database may answer {stored}" if stored else ""
        screen.line_when_due(f"{self._title}: {steps} to do{of_these}")

    def end(self) -> None:
        """End the stage."""
        if self._task is not None:
            self._screen.bar.remove_task(self._task)
        self._task, self._steps, self._done = None, 0, 0

    def step(self, text: str) -> None:
        """Count a step that has ended."""
        self._done += 1
        self._advance(text, f"{self._done} of {self._steps}, {text}")

    def test(self, progress: TestProgress) -> None:
        """Count a test that has ended; a search's last test closes its line."""
        screen = self._screen
        self._done, self._steps = progress.ordinal, progress.total
        outcomes = format_outcomes(progress.outcomes)
        outcomes += f", {progress.shared} shared" if progress.shared else ""
        if progress.best is not None:
            screen.bests[progress.plan.problem] = progress.best
        if progress.best is not self._best:  # formatting is slow, and few tests are a new best
            self._best, self._best_text = progress.best, screen.describe(progress.best)
        best_time, best_config = self._best_text
        text = f"test {self._done} of {self._steps}, {best_time}{best_config}; {outcomes}"
        # The counts stand before the configuration, so that a cut line still shows them.
        tests = max(1, progress.replayed)
        self._advance(f"{best_time}; {outcomes}{best_config}", text, tests)
        if screen.live and self._done >= self._steps:
            self.note(f"{self._title}: {text}")

    def note(self, text: str) -> None:
        """Print a line above the live line."""
        if not self._screen.quiet:
            self._screen.say(text)

    def warn(self, text: str) -> None:
        """Print a warning above the live line, even where quiet."""
        self._screen.warnings.append(text)
        self._screen.say(f"warning: {text}")

    def _advance(self, status: str, text: str, steps: int = 1) -> None:
        """Show steps in the live line, or as a plain one."""
        if self._task is not None:
            self._screen.bar.update(self._task, advance=steps, status=escaped(status))
        is_last = self._done >= self._steps
        self._screen.line_when_due(f"{self._title}: {text}", is_last)


class ProgressDisplay(_StageProgress):
    """Shows on a console what a campaign says, and the progress of its stages and its devices."""

    def __init__(self, console: Console, quiet: bool = False) -> None:
        self.console = console
        self.quiet = quiet
        self.default = Config({})  # configurations are shown as changes from it
        self.live = console.is_terminal and not console.is_dumb_terminal and not quiet
        # One line at any width: the last column is cut first.
        plain, status = Column(no_wrap=True), Column(no_wrap=True, overflow="ellipsis", ratio=1)
        self.bar = Progress(
            TextColumn("{task.description}", markup=False, table_column=plain),
            BarColumn(bar_width=10),
            MofNCompleteColumn(table_column=plain),
            TimeRemainingColumn(compact=True, table_column=plain),
            TextColumn("{task.fields[status]}", markup=False, table_column=status),
            console=console,
            expand=True,
            transient=True,
        )
        self.bests: dict[Input, Measurement] = {}
        self.warnings: list[str] = []
        self.stages: dict[str, _StageProgress] = {}
        self._last_line_s = -math.inf
        super().__init__(self)

    def say(self, text: str) -> None:
        """Print a line, even where quiet."""
        print_line(self.console, text)

    def line_when_due(self, text: str, is_last: bool = False) -> None:
        """Print a line at the end of a stage, and every few seconds before, where none is live."""
        is_late = time.monotonic() - self._last_line_s > _PLAIN_PERIOD_S
        if not self.live and (is_late or is_last):
            self._last_line_s = time.monotonic()
            self.note(text)

    def describe(self, best: Measurement | None) -> tuple[str, str]:
        """Return the best time, and its configuration in parentheses."""
        if best is None or best.timing is None:
            return _NONE
        return f"best {format_timing(best.timing)}", f" ({difference(best.config, self.default)})"

    def __enter__(self) -> ProgressDisplay:
        if self.live:
            self.bar.start()
        return self

    def __exit__(self, kind: object = None, *_: object) -> None:
        if self.live:
            self.bar.stop()
        if isinstance(kind, type) and issubclass(kind, KeyboardInterrupt):
            print_lines(self.console, self._so_far())

    def _so_far(self) -> Iterator[str]:
        """Describe the best of each input so far."""
        if not self.bests:
            return
        yield "Best so far, by the times of the search:"
        for problem, best in list(self.bests.items())[:_MOST_SO_FAR]:
            yield f"    {problem}: {''.join(self.describe(best))}"
        more = len(self.bests) - _MOST_SO_FAR
        if more > 0:
            yield f"    and {counted(more, 'input')} more"
