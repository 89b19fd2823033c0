"""The interface through which a campaign shows its progress; `harness.display` implements it."""

from __future__ import annotations

from typing import Protocol

from harness.search import Progress


class Display(Protocol):
    """Shows progress on a terminal, as plain lines, or not at all."""

    def on(self, device: str) -> Display:
        """Return the display of what one of several devices does."""

    def begin_stage(self, title: str, steps: int, stored: int = 0) -> None:
        """Show that a stage with this many steps begins; the database may answer `stored` of
        them."""

    def step(self, text: str) -> None:
        """Show that one step of a stage has ended."""

    def test(self, progress: Progress) -> None:
        """Show that a test of a search has ended."""

    def note(self, text: str) -> None:
        """Show a fact that may be left out where only results are wanted."""

    def warn(self, text: str) -> None:
        """Show a problem that does not end the campaign."""


class SilentDisplay:
    """A display that shows nothing."""

    def on(self, device: str) -> Display:
        """Return this display."""
        return self

    def begin_stage(self, title: str, steps: int, stored: int = 0) -> None:
        """Show nothing."""

    def step(self, text: str) -> None:
        """Show nothing."""

    def test(self, progress: Progress) -> None:
        """Show nothing."""

    def note(self, text: str) -> None:
        """Show nothing."""

    def warn(self, text: str) -> None:
        """Show nothing."""
