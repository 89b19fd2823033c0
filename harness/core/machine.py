"""Describe this machine: notes that are kept beside measurements and compare nothing."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from pathlib import Path


def notes() -> dict[str, str]:
    """Host, processor, operating system, Python, revision of the working tree, and load."""
    return {**_fixed_notes(), "load_average": _load()}


@cache
def processor() -> str:
    """The processor's name; empty where the system does not tell it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


@cache
def _fixed_notes() -> dict[str, str]:
    told = {
        "host": platform.node(),
        "processor": processor(),
        "cores": str(os.cpu_count()),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
    revision = _revision()
    return told | ({"revision": revision} if revision else {})


def _load() -> str:
    try:
        return f"{os.getloadavg()[0]:.2f}"
    except OSError:
        return "unknown"


def _revision() -> str | None:
    """The Git revision of the current folder, marked where it has changes."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
