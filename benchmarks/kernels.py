"""Measure the kernels of a folder of spaces, with a row of figures for each."""

from __future__ import annotations

import argparse
import datetime
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.frame import Option, option
from harness.measure.choose import measuring_as
from harness.measure.devices import Backend, choose_one
from harness.measure.kernels.measurer import KernelMeasurer
from harness.space_file import Spec, load_spec

SPACES = Path(__file__).resolve().parents[1] / "spaces"

Row = Callable[[Spec, Backend, KernelMeasurer, argparse.Namespace], dict[str, Any]]
"""The figures of a kernel, whose name is the first one, with the options of the benchmark."""


def kernels(folder: str) -> tuple[Option, ...]:
    """Make --backend and --kernel, which names space files of a folder of spaces/."""
    paths = {path.stem: path for path in sorted((SPACES / folder).glob("*.yaml"))}
    return (
        option("--backend", "auto", "auto, cuda or opencl"),
        option("--kernel", [], "only this; may be repeated", action="append", choices=paths),
        lambda parser: parser.set_defaults(paths=paths),
    )


def measured(
    row: Row, args: argparse.Namespace, changes: Mapping[str, object]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Measure with other options of `measure`. Return the device, the date, and the load averages
    before and after; and the rows."""
    backend = choose_one(args.backend)
    load = [os.getloadavg()[0]]
    device = ""
    rows = []
    for name in args.kernel or args.paths:
        print(name, file=sys.stderr, flush=True)
        spec = load_spec(args.paths[name]).with_measure(changes)
        with closing(KernelMeasurer(spec, measuring_as(spec, backend))) as measurer:
            device = str(measurer.environment)
            rows.append(row(spec, backend, measurer, args))
    load.append(os.getloadavg()[0])
    return {"device": device, "date": f"{datetime.date.today()}", "load": load}, rows
