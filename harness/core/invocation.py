"""The way in which the user called harness, so that printed commands run as printed."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path


def command_words(command: str, *words: str) -> tuple[str, ...]:
    """Return the words that start a command of harness as the user started this one."""
    script = Path(sys.argv[0])
    if script.stem == "harness":
        return ("harness" if shutil.which("harness") else sys.argv[0], command, *words)
    room = script.parent.name  # of `python -m`: harness/tune.py, harness/compare/__main__.py
    python = sys.orig_argv[0] if "harness" in (room, script.parent.parent.name) else "python"
    if room == "harness" and script.name == "__main__.py":
        return (python, "-m", "harness", command, *words)
    return (python, "-m", f"harness.{command}", *words)


def command_line(command: str, *words: str) -> str:
    """Return a command of harness as a line to copy into a shell (see `command_words`)."""
    return shlex.join(command_words(command, *words))
