"""This machine: what notes that are stored with measurements say of it, and its C library."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import shutil
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def notes() -> dict[str, str]:
    """Return host, processor, operating system, Python, revision of the working tree, and load."""
    return {**_fixed_notes(), "load_average": _load()}


@cache
def processor() -> str:
    """Return the processor's name; empty where the system does not have it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


@cache
def _fixed_notes() -> dict[str, str]:
    facts = {
        "host": platform.node(),
        "processor": processor(),
        "cores": str(os.cpu_count()),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
    revision = _revision()
    return facts | ({"revision": revision} if revision else {})


def _load() -> str:
    try:
        return f"{os.getloadavg()[0]:.2f}"
    except OSError:
        return "unknown"


def _revision() -> str | None:
    """Return the Git revision of the current folder, marked `-dirty` where it has changes."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


@cache
def libc() -> ctypes.CDLL:
    """Return the C library of this process."""
    library = ctypes.CDLL(None, use_errno=True)
    library.free.argtypes = (ctypes.c_void_p,)
    library.free.restype = None
    return library


def signal_at_end_of_parent(number: int) -> None:
    """Let Linux send this process a signal when the thread ends that started it."""
    libc().prctl(_PR_SET_PDEATHSIG, number)


def end_with_parent(parent: int) -> None:
    """End this process with the thread that started it, in the process `parent`; at once where that
    has ended already."""
    signal_at_end_of_parent(signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def usable_cores() -> int:
    """Return how many cores this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def spare_cores(limit: Path = Path("/sys/fs/cgroup/cpu.max"), *, devices: int = 1) -> int:
    """Return how many cores may compile while others run the processes that own the devices.

    A container may see all cores of a machine, but get the time of few: its `limit`.
    """
    cores: float = usable_cores()
    with contextlib.suppress(OSError, ValueError):  # there is no limit, or it is "max"
        granted, period = map(int, limit.read_text().split())
        cores = min(cores, granted / period)
    return max(0, int(cores) - devices)


def find_program(name: str, folder: Path, path: str | None = None) -> str | None:
    """Return the path of a program, relative to a folder with a slash in it; None without one."""
    return shutil.which(str(folder.absolute() / name) if "/" in name else name, path=path)
