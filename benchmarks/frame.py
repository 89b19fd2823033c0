"""The frame of all benchmarks: options, the table, the JSON line, and processes with progress.

A benchmark is a function of the parsed options that prints its tables with `show` and returns its
figures. `@benchmark(...)` makes it the `main` of `python -m benchmarks.NAME`, whose help is the
module's docstring and whose last line is one JSON object with the figures.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

from rich.console import Console

from harness.commands.run import guarded, parse
from harness.display.progress import ProgressDisplay
from harness.display.text import make_console, make_table
from harness.measure.process.child import Child
from harness.stats import Estimate

Option = Callable[[argparse.ArgumentParser], object]
Main = Callable[..., int]
Figures = Mapping[str, Any]
Job = TypeVar("Job")
Result = TypeVar("Result")

_LONGEST_S = 3600.0  # for one job
_WIDEST = 1000


def count(text: str) -> int:
    """Parse an integer from 1 to 10^8."""
    if not text.isdigit() or not 1 <= int(text) <= 10**8:
        raise argparse.ArgumentTypeError(f"must be an integer from 1 to 10^8, got {text!r}")
    return int(text)


def option(name: str, default: Any = None, what: str = "", **settings: Any) -> Option:
    """Describe an option or an argument; the default gives the type: False makes a flag, and
    integers are at least 1 unless the default is 0."""
    if default is False:
        settings["action"] = "store_true"
    elif isinstance(default, int | float):
        kind = count if isinstance(default, int) and default else type(default)
        settings = {"type": kind, "metavar": "N", "default": default} | settings
        what = f"{what} ({default})"
    elif default is not None:
        settings = {"default": default} | settings
        if isinstance(default, Path):
            settings = {"type": Path, "metavar": "PATH"} | settings
    return lambda parser: parser.add_argument(name, help=what, **settings)


JOBS = option("--jobs", os.cpu_count() or 1, "processes at a time")
SEED = option("--seed", 0, "of all random numbers")
RECORDINGS = (
    option("file", nargs="+", type=Path, metavar="FILE", what="a recording"),
    option("--mapping", what="of the columns of CSV recordings", type=Path, metavar="FILE"),
)


def output(folder: str) -> Option:
    """Make --output, a folder under results/benchmarks/."""
    return option("--output", Path("results", "benchmarks", folder), "folder for all files")


def benchmark(*options: Option, kept: str = "") -> Callable[[Callable[..., Figures | None]], Main]:
    """Make a function of the parsed options the `main` of its module. It returns the figures, where
    `failed` means that the command fails; `kept` says what an interruption leaves. The file may run
    as a script or with `-m`."""

    def decorate(run: Callable[[argparse.Namespace], Figures | None]) -> Main:
        module = run.__globals__
        path = f"benchmarks.{Path(module['__file__']).stem}"

        def command(args: argparse.Namespace) -> int:
            figures = run(args)
            if figures is not None:
                print(json.dumps(rounded(figures)))
            return 1 if figures and figures.get("failed") else 0

        @wraps(run)
        def main(arguments: Sequence[str] | None = None) -> int:
            if module["__name__"] == "__main__":  # worker processes import functions by name
                imported: Main = importlib.import_module(path).main
                return imported(arguments)
            parser = argparse.ArgumentParser(
                prog=f"python -m {path}",
                description=module["__doc__"],
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )
            for add in options:
                add(parser)
            args = parse(parser, sys.argv[1:] if arguments is None else arguments)
            return guarded(lambda: command(args), when_interrupted=kept)

        return main

    return decorate


def rounded(figure: Any, digits: int = 5) -> Any:
    """Round all numbers of some figures; an estimate becomes [value, low, high]."""
    if isinstance(figure, Estimate):
        return rounded([figure.value, figure.low, figure.high], digits)
    if isinstance(figure, Mapping):
        return {key: rounded(value, digits) for key, value in figure.items()}
    if isinstance(figure, list | tuple):
        return [rounded(value, digits) for value in figure]
    return float(f"{figure:.{digits}g}") if isinstance(figure, float) else figure


def show(head: Sequence[str], rows: Iterable[Iterable[Any]], title: str | None = None) -> None:
    """Print a table as wide as it is; numbers and estimates are rounded."""
    table = make_table(head, (map(_cell, row) for row in rows))
    console = make_console()
    width = console.measure(table, options=console.options.update(width=_WIDEST)).maximum
    if width > console.width:
        console = Console(width=width, highlight=False)
    if title:
        print(f"\n{title}")
    console.print(table)
    sys.stdout.flush()


def share(hits: int, count: int) -> Estimate:
    """Estimate the share of hits, with its exact 95 % interval (Clopper and Pearson)."""
    from scipy.stats import binomtest  # here: it takes time to load

    ends = binomtest(hits, count).proportion_ci()
    return Estimate(hits / count, float(ends.low), float(ends.high))


def _cell(value: Any) -> str:
    if isinstance(value, Estimate):
        return value.text(".4g")
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Let so many processes compute."""
    command = [sys.executable, "-c", "print(flush=True)\nwhile True: pass"]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(count)]
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()  # it has begun
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _run(_worker: object, run: Callable[[Job], Result], job: Job) -> Result:
    return run(job)


def in_processes(
    run: Callable[[Job], Result],
    jobs: Sequence[Job],
    processes: int,
    name: Callable[[Job], str] = str,
    failed: Callable[[Job, Exception], None] | None = None,
) -> Iterator[tuple[Job, Result]]:
    """Run jobs in worker processes, with progress; yield each with its result, in their order.

    numpy uses one thread in each process. A job that fails is given to `failed`, if there is one.
    """
    variables = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    log = make_console(stderr=True)
    children = [Child(object) for _ in range(processes)]

    def run_in_child(job: Job) -> Result:
        child = children.pop()
        try:
            result: Result = child.call(_run, run, job, timeout_s=_LONGEST_S)
            return result
        finally:
            children.append(child)

    with ProgressDisplay(log) as display, contextlib.ExitStack() as stack:
        # They are read when a process loads numpy, and a child starts at its first job.
        stack.enter_context(patch.dict(os.environ, dict.fromkeys(variables, "1")))
        threads = stack.enter_context(ThreadPoolExecutor(processes))
        for child in children:
            stack.callback(child.close)
        stack.callback(threads.shutdown, wait=False, cancel_futures=True)
        display.begin_stage("jobs", len(jobs))
        results = [threads.submit(run_in_child, job) for job in jobs]
        for job, result in zip(jobs, results, strict=True):
            try:
                yield job, result.result()
            except Exception as error:  # a tuner of others may raise anything
                if failed is None:
                    raise
                failed(job, error)
            display.step(name(job))
