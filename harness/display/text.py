"""Print lines of text."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text


def print_line(console: Console, text: str, style: str = "") -> None:
    """Print text as it is: brackets are no markup, and the terminal wraps long lines."""
    console.print(Text(text, style=style), soft_wrap=True)


def print_lines(console: Console, lines: Iterable[str]) -> None:
    """Print each text on its own line."""
    for line in lines:
        print_line(console, line)
