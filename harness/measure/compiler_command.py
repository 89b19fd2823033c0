"""Run a compiler's command line."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path


def run_in_group(command: Sequence[str], folder: Path, timeout_s: float) -> tuple[int | None, str]:
    """Run a command in a folder; return its exit status, None after a timeout, and its output.

    The command has a process group of its own, which is killed as a whole: nvcc's children
    (cicc, ptxas) would otherwise outlive it. Raises OSError where it cannot start.
    """
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder), "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return None, output
    return process.returncode, output
