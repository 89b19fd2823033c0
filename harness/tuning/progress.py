"""What a campaign needs of whatever tells its progress; `harness.display` has it for people."""

from __future__ import annotations

from typing import Protocol

from harness.search import Progress


class Display(Protocol):
    """Where progress is told; the terminal, plain lines, or nothing."""

    def begin_stage(self, title: str, steps: int) -> None:
        """A stage with this many steps begins."""

    def step(self, text: str) -> None:
        """One step of a stage has ended."""

    def test(self, progress: Progress) -> None:
        """A test of a search has ended."""

    def warn(self, text: str) -> None:
        """Something went wrong that does not end the run."""
