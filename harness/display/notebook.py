"""Progress in a notebook: one line in the output of the cell, which later ones replace."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console

from harness.core.records import Config
from harness.core.text import escaped
from harness.display.progress import ConsoleListener, ProgressDisplay


def in_notebook() -> bool:
    """Say whether this process is the kernel of a notebook."""
    return Console().is_jupyter


@dataclass
class ReplacedLine:
    """A line of a cell's output; each text takes the place of the one before."""

    _handle: Any = field(default=None, init=False)

    def show(self, text: str) -> None:
        """Show a text in the line."""
        from IPython.display import display  # here: only notebooks have it

        style = "margin: 0; white-space: nowrap; overflow: hidden; text-overflow: ellipsis"
        line = escaped(text)
        data = {"text/plain": line, "text/html": f'<pre style="{style}">{html.escape(line)}</pre>'}
        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)


class NotebookProgress(ProgressDisplay):
    """Progress as one line that is replaced."""

    def __init__(
        self, console: Console, quiet: bool, default: Config | None, show: Callable[[str], None]
    ) -> None:
        super().__init__(console, quiet, default)
        self._period_s = 0.2
        self._show = show

    def _line(self, text: str) -> None:
        if not self._quiet:
            self._show(text)


@dataclass(frozen=True)
class NotebookListener(ConsoleListener):
    """Shows what a campaign says in the cell's output, and its progress in one line."""

    def progress(self, default: Config | None) -> ProgressDisplay:
        """Make the display of the progress."""
        return NotebookProgress(self.console, self.quiet, default, ReplacedLine().show)
