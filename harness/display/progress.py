"""Progress: one live line on a terminal, below the best of each input; else plain lines."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
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
    from harness.search import Ahead
    from harness.search import Progress as TestProgress

_PLAIN_PERIOD_S = 5.0
_MOST_SO_FAR = 20  # inputs
_NONE = ("none worked yet", "")


class ProgressDisplay:
    """Progress of stages and of a search's tests."""

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
        self._task: TaskID | None = None
        self._title, self._steps, self._done = "", 0, 0
        self._outcomes: Counter[Outcome] = Counter()
        self._shared = 0
        self._best: Measurement | None = None
        self._best_text = _NONE
        self._left = TimeLeft()
        self._bests: dict[Input, Measurement] = {}
        self._last_line_s = -math.inf
        self._period_s = _PLAIN_PERIOD_S

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
            time, config = self._describe(best)
            yield f"    {problem}: {time}{config}"
        more = len(self._bests) - _MOST_SO_FAR
        if more > 0:
            yield f"    and {counted(more, 'input')} more"

    def begin_stage(
        self, title: str, steps: int, ahead: Ahead | None = None, stored: int = 0
    ) -> None:
        """Begin a stage; one without steps is not shown. The database may answer `stored` steps."""
        self._left.begin_stage(ahead)
        self._title, self._steps, self._done = title, steps, 0
        self._outcomes, self._shared = Counter(), 0
        if self._task is not None:
            self._bar.remove_task(self._task)
            self._task = None
        if self._live and steps:
            left = self._left.text(steps)
            self._task = self._bar.add_task(escaped(title), total=steps, status="", left=left)
        elif steps and self._is_due:
            known = f", of which the database may answer {stored}" if stored else ""
            self._line_now(f"{title}: {steps} to do{known}")

    def warn(self, text: str) -> None:
        """Print a warning above the live line, even where quiet."""
        print_line(self._console, f"warning: {text}")

    def step(self, text: str) -> None:
        """Count a step that has ended."""
        self._done += 1
        self._left.worked()
        self._advance(text)
        self._line_when_due(f"{self._done} of {self._steps}, {text}")

    def test(self, progress: TestProgress) -> None:
        """Count a test that has ended; a search's last test closes its line."""
        self._done, self._steps = progress.ordinal, progress.total
        self._outcomes[progress.measurement.outcome] += 1
        if not progress.replayed:
            self._left.worked()
        self._shared += progress.measurement.shared_with is not None
        outcomes = format_outcomes(self._outcomes)
        outcomes += f", {self._shared} shared" if self._shared else ""
        if progress.best is not None:
            self._bests[progress.plan.problem] = progress.best
        if progress.best is not self._best:  # formatting is slow, and few tests are a new best
            self._best, self._best_text = progress.best, self._describe(progress.best)
        best_time, best_config = self._best_text
        # The counts stand before the configuration, so that a cut line still shows them.
        self._advance(f"{best_time}; {outcomes}{best_config}")
        test = f"test {progress.ordinal} of {progress.total}"
        text = f"{test}, {best_time}{best_config}; {outcomes}"
        if self._live and self._done == self._steps:
            self._line(f"{self._title}: {text}")  # it stays, above the live line
        self._line_when_due(text)

    def _describe(self, best: Measurement | None) -> tuple[str, str]:
        """Return the best time, and its configuration in parentheses."""
        if best is None or best.timing is None:
            return _NONE
        config = difference(best.config, self._default)
        return f"best {format_timing(best.timing)}", f" ({config})"

    def _advance(self, status: str) -> None:
        if self._task is not None:
            left = self._left.text(self._steps - self._done)
            self._bar.update(self._task, advance=1, status=escaped(status), left=left)

    def _line_when_due(self, text: str) -> None:
        """Print a line at the end of a stage, and every few seconds before."""
        if not self._live and (self._is_due or self._done == self._steps):
            left = self._left.text(self._steps - self._done)
            self._line_now(f"{self._title}: {text}{'; ' if left else ''}{left}")

    @property
    def _is_due(self) -> bool:
        """Whether the last line was printed some seconds ago."""
        return time.monotonic() - self._last_line_s > self._period_s

    def _line_now(self, text: str) -> None:
        self._last_line_s = time.monotonic()
        self._line(text)

    def _line(self, text: str) -> None:
        if not self._quiet:
            print_line(self._console, text)


@dataclass(frozen=True)
class ConsoleListener:
    """Shows what a campaign says, and its progress, on a console."""

    console: Console
    quiet: bool = False

    def note(self, text: str) -> None:
        """Print a line unless quiet."""
        if not self.quiet:
            print_line(self.console, text)

    def say(self, text: str) -> None:
        """Print a line."""
        print_line(self.console, text)

    def progress(self, default: Config | None) -> ProgressDisplay:
        """Make the display of the progress."""
        return ProgressDisplay(self.console, self.quiet, default)
