"""Print lines of text."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text


def print_line(console: Console, text: str) -> None:
    console.print(Text(text), soft_wrap=True)
