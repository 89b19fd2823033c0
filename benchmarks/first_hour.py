"""Tune the same kernel with harness and with Kernel Tuner, as a new user would, side by side.

The kernel is a sparse matrix-vector product (benchmarks/spmv/spmv.cl, OpenCL on PoCL) with 57 legal
configurations, tuned on 4 inputs. benchmarks/spmv/ has one program for each tuner. Both check every
result and measure every configuration, each with its own defaults otherwise. So harness also
measures the best configurations again, interleaved, and learns which one to use for which input.

    pip install -e '.[bench]'
    python -m benchmarks.first_hour

Each program runs three times in a folder of its own:

    cold     no cache at all: what a new user waits for
    warm     the caches of compiled kernels are kept, no measurement is
    again    the same command again: both find what they measured

The first result is the first time of a configuration on the terminal. CPU seconds are of the
program and its processes; other work on the machine changes them less than wall seconds. Kernel
Tuner's process gets the same cure for PoCL on new processors as harness's own
(harness/measure/opencl/pocl_cpu.py). It takes some five minutes on two idle cores, and half an hour
on busy ones. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.frame import Figures, benchmark, option, show
from harness.core.errors import HarnessError
from harness.measure.opencl.pocl_cpu import name_processor

PROGRAMS = Path(__file__).parent / "spmv"
TUNERS = {"harness": "with_harness.py", "Kernel Tuner": "with_kernel_tuner.py"}
KEPT = {"cold": (), "warm": ("builds",), "again": ("builds", "results")}
"""What of an earlier run each run finds."""

_TIME = re.compile(r"\d ?(ns|us|ms)\b")
"""The time of a configuration on the terminal."""


Seconds = dict[str, float]
"""Those of a run until its first result and in all, and those of the CPU."""


# ------------------------------------------------------------------------- one run


def measure(program: str, folder: Path) -> Seconds:
    """Run a program in a terminal of its own; raises HarnessError where it fails."""
    own, its = pty.openpty()
    environment = os.environ | {
        "POCL_CACHE_DIR": str(folder / "builds" / "pocl"),
        "HARNESS_CACHE_DIR": str(folder / "builds" / "harness"),
        "PYTHONPATH": str(PROGRAMS.parent.parent),
        "COLUMNS": "100",
    }
    (folder / "builds" / "pocl").mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "benchmarks.first_hour", "--program", program]
    before, begin = os.times(), time.perf_counter()
    process = subprocess.Popen(
        command, cwd=folder / "results", env=environment, stdin=its, stdout=its, stderr=its
    )
    os.close(its)
    text, first_s = "", None
    while data := _read(own):
        text += data.decode(errors="replace")
        if first_s is None and _TIME.search(text):
            first_s = time.perf_counter() - begin
    os.close(own)
    status, total_s, after = process.wait(), time.perf_counter() - begin, os.times()
    if status or first_s is None:
        raise HarnessError(f"{program} failed:\n{text[-2000:]}")
    spent_s = (after.children_user + after.children_system) - (
        before.children_user + before.children_system
    )
    return {"first_s": first_s, "total_s": total_s, "cpu_s": spent_s}


def _read(terminal: int) -> bytes:
    """Read what a terminal shows; nothing once its program has ended."""
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # Linux reports an end so
        return b""


def _run_program(program: str) -> None:
    """Run one of the two programs in this process, as `python PROGRAM` would."""
    if program == TUNERS["Kernel Tuner"]:
        _name_processors()
    runpy.run_path(program, run_name="__main__")


def _name_processors() -> None:
    """Let PoCL compile for a processor that is newer than its compiler, as harness does."""
    import pyopencl

    for platform in pyopencl.get_platforms():
        for device in platform.get_devices():
            name_processor(device.version, device.int_ptr)


# -------------------------------------------------------------------- side by side


def _runs(tuner: str, folder: Path) -> dict[str, Seconds]:
    """Run a tuner's program with each set of caches."""
    found = {}
    for state, kept in KEPT.items():
        for part in ("builds", "results"):
            if part not in kept:
                shutil.rmtree(folder / part, ignore_errors=True)
        if "results" not in kept:
            shutil.copytree(PROGRAMS, folder / "results")
        found[state] = measure(TUNERS[tuner], folder)
    return found


@benchmark(
    option("--only", [*TUNERS], "measure these tuners", choices=TUNERS, nargs="+"),
    option("--program", what="used by the benchmark itself"),
)
def main(args: argparse.Namespace) -> Figures | None:
    """Measure both tuners."""
    if args.program:
        _run_program(args.program)
        return None
    figures: dict[str, dict[str, Seconds]] = {}
    rows = []
    for tuner in args.only:
        with tempfile.TemporaryDirectory(prefix="first_hour_") as folder:
            figures[tuner] = runs = _runs(tuner, Path(folder))
        rows += [(tuner, state, *run.values()) for state, run in runs.items()]
    show(("tuner", "caches", "first, s", "total, s", "CPU, s"), rows)
    return figures


if __name__ == "__main__":
    sys.exit(main())
