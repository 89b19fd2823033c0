"""The way in which the user called harness, so that printed commands run as printed."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path


def invocation(command: str, script: str | None = None, typed: Sequence[str] = ()) -> list[str]:
    """Return the words that start a command of harness as the user started this one.

    That is `harness COMMAND` after `harness ...`, and `PYTHON -m harness.COMMAND` after
    `PYTHON -m harness...`, with the path of the program where the shell would not find it by its
    name. A script that calls harness gets `python -m harness.COMMAND`.

    `script` and `typed` default to `sys.argv[0]` and `sys.orig_argv`.
    """
    script = sys.argv[0] if script is None else script
    typed = typed or sys.orig_argv
    if Path(script).stem == "harness":
        return [_as_typed(script), command]
    modules = typed[typed.index("-m") + 1 :] if "-m" in typed else ()
    is_ours = bool(modules) and modules[0].partition(".")[0] == "harness"
    python = _as_typed(typed[0]) if is_ours else "python"
    if is_ours and modules[0] == "harness":
        return [python, "-m", "harness", command]
    return [python, "-m", f"harness.{command}"]


def command_line(command: str, *words: str) -> str:
    """Return a command of harness as a line to copy into a shell (see `invocation`)."""
    return shlex.join(command_words(command, *words))


def command_words(command: str, *words: str) -> tuple[str, ...]:
    """Return a command of harness as the words to start (see `invocation`)."""
    return (*invocation(command), *words)


def _as_typed(program: str) -> str:
    """Return the name of a program that the shell finds by it, else its path."""
    name = Path(program).name
    found = shutil.which(name)
    is_found = found is not None and os.path.abspath(found) == os.path.abspath(program)
    return name if is_found else program
