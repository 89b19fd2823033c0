"""From production back to tuning: what one more command gains where other inputs come than were
tuned.

Tunes ten wide shapes of spaces/mvmul.yaml and writes a dispatcher. A program then calls the kernel
200 times through it, mostly with tall shapes, and the dispatcher counts them. One command tunes the
inputs that make up 95 % of the calls, and a second dispatcher is written. Both then run the same
workload, interleaved with all configurations that either may choose:

    python -m benchmarks.loop
    python -m benchmarks.loop --calls 1000 --test-limit 10

It needs PyOpenCL, with PoCL or a device, and takes some five minutes. Coverage is the share of the
calls in the tuned range, as the dispatcher itself counted them. A slowdown is over the fastest of
the configurations that were run on the input; its mean is geometric, and weighted by calls.
Intervals are of 95 %. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.frame import SEED, Figures, benchmark, option, share, show
from harness.commands.run import run
from harness.core.errors import HarnessError
from harness.core.records import Config
from harness.core.text import command_line
from harness.dispatch.verdict import Slowdowns
from harness.space_file import load_spec
from harness.space_file.workload import Workload, read_workload
from harness.stats import Estimate

SPACE = Path(__file__).resolve().parents[1] / "spaces" / "mvmul.yaml"
WIDE = [(16 * k, 65536 // (16 * k)) for k in (1, 2, 3, 4, 6, 8, 10, 12, 14, 16)]
TALL = [(n, m) for m, n in WIDE]
TALL_SHARE = 0.8


def draw_calls(calls: int, seed: int) -> list[tuple[int, int]]:
    """Draw the calls of a program: few shapes come often, and most are tall."""
    random_ = random.Random(seed)
    weights = [1 / (1 + rank) for rank in range(len(TALL))]
    return [
        random_.choices(TALL if random_.random() < TALL_SHARE else WIDE, weights)[0]
        for _ in range(calls)
    ]


class Program:
    """A program that calls the kernel through a dispatcher."""

    def __init__(self, folder: Path) -> None:
        import pyopencl as cl

        self.dispatcher = _imported(folder)
        self._context = cl.create_some_context(interactive=False)
        self._queue = cl.CommandQueue(self._context)
        self._kernel = self.dispatcher.load(self._context)
        self._data: dict[tuple[int, int], list[Any]] = {}

    def call(self, shape: tuple[int, int]) -> None:
        """Call the kernel as a program does."""
        m, n = shape
        self._kernel(self._queue, *self._arguments(shape), m=m, n=n).wait()

    def choice(self, shape: tuple[int, int]) -> Config:
        """Return the configuration for an input."""
        m, n = shape
        return Config(self.dispatcher.PORTFOLIO[self._kernel.index(m=m, n=n)])

    def time_s(self, index: int, shape: tuple[int, int]) -> float:
        """Return the seconds of a launch of one configuration."""
        import pyopencl as cl

        m, n = shape
        group, grid = self.dispatcher.launch_size(index, m=m, n=n)
        (kernel,) = self._kernel.kernels(index)
        kernel.set_args(*self._arguments(shape))
        size = tuple(extent * number for extent, number in zip(group, grid, strict=True))
        begin_s = time.perf_counter()
        cl.enqueue_nd_range_kernel(self._queue, kernel, size, group).wait()
        return time.perf_counter() - begin_s

    def _arguments(self, shape: tuple[int, int]) -> list[Any]:
        import pyopencl as cl

        if shape not in self._data:
            m, n = shape
            flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
            arrays = (np.ones((m, n), np.float32), np.ones(n, np.float32))
            buffers = [cl.Buffer(self._context, flags, hostbuf=array) for array in arrays]
            y = cl.Buffer(self._context, cl.mem_flags.WRITE_ONLY, 4 * m)
            self._data[shape] = [*buffers, y, np.int32(m), np.int32(n)]
        return self._data[shape]


def _imported(folder: Path) -> ModuleType:
    """Import a dispatcher under a name of its own."""
    name = f"mvmul_{folder.name}"
    spec = importlib.util.spec_from_file_location(name, folder / "mvmul" / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def run_and_print(name: str, words: Sequence[str]) -> None:
    """Run a command of harness and print it; raises HarnessError where it fails."""
    print(f"$ {command_line(name, *words)}", flush=True)
    code = run(name, list(words))
    if code != 0:
        raise HarnessError(f"{command_line(name)} ended with {code}")


def record(folder: Path, calls: Sequence[tuple[int, int]]) -> tuple[Program, Workload]:
    """Run the calls through the dispatcher of a folder; return what it counted."""
    program, file = Program(folder), folder.parent / f"{folder.name}.csv"
    program.dispatcher.count_calls(file)
    for shape in calls:
        program.call(shape)
    program.dispatcher.count_calls(None)
    spec = load_spec(SPACE)
    return program, read_workload(file, spec.name, spec.features, spec.inputs)


def slowdowns(
    programs: Mapping[str, Program], calls: Mapping[tuple[int, int], int], rounds: int
) -> dict[str, Slowdowns]:
    """Run each input in all configurations that a program may choose, interleaved, and judge the
    choices of each program."""
    where = {
        Config(config): (program, index)
        for program in programs.values()
        for index, config in enumerate(program.dispatcher.PORTFOLIO)
    }
    logs: dict[str, list[float]] = {name: [] for name in programs}
    random_ = random.Random(0)
    for shape in calls:
        times: dict[Config, list[float]] = {config: [] for config in where}
        for round_ in range(rounds + 1):
            for config in random_.sample(list(where), len(where)):
                program, index = where[config]
                time_s = program.time_s(index, shape)
                if round_ > 0:  # the first launch may still compile
                    times[config].append(time_s)
        medians = {config: statistics.median(found) for config, found in times.items()}
        for name, program in programs.items():
            ratio = medians[program.choice(shape)] / min(medians.values())
            logs[name].append(float(np.log(ratio)))
    weights = np.array([*calls.values()], dtype=np.float64)
    inputs, failed = np.arange(len(calls)), np.zeros(len(calls), dtype=bool)
    return {
        name: Slowdowns(name, np.array(of), inputs, failed, weights / weights.mean())
        for name, of in logs.items()
    }


def coverage(program: Program, workload: Workload) -> Estimate:
    """Estimate the share of calls in the range that a program was tuned for."""
    is_tuned = program.dispatcher.is_tuned
    calls = sum(count for one, count in workload.calls.items() if is_tuned(**one))
    return share(calls, workload.total)


def close_the_loop(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Tune, record, tune again, and compare; return the figures."""
    database, ten = str(folder / "mvmul.db"), folder / "ten.csv"
    wide = WIDE[: args.inputs]
    ten.write_text("m,n,calls\n" + "".join(f"{m},{n},1\n" for m, n in wide))
    limits = ["--database", database, "--test-limit", str(args.test_limit), "--no-reduce"]
    limits += ["--repeats", str(args.repeats), "--backend", "opencl", "--finalists", "1"]
    writing = [database, "--spec", str(SPACE), "--choice", "tree", "-o"]
    run_and_print("tune", [str(SPACE), "--inputs-from", str(ten), "--cover", "1", *limits])
    run_and_print("dispatch", [*writing, str(folder / "before")])
    calls = draw_calls(args.calls, args.seed)
    before, recorded = record(folder / "before", calls)
    weights = ["--weights", str(recorded.path)]
    run_and_print("tune", [str(SPACE), "--inputs-from", str(recorded.path), *limits])
    run_and_print("dispatch", [*writing, str(folder / "after"), *weights])
    after, recorded_after = record(folder / "after", calls)
    judged = slowdowns({"before": before, "after": after}, Counter(calls), args.rounds)
    gain = judged["after"].over(judged["before"]).ratio.inverse
    covered = {"before": coverage(before, recorded), "after": coverage(after, recorded_after)}
    rows = [(name, covered[name], one.mean) for name, one in judged.items()]
    show(("", "calls in the tuned range", "weighted slowdown"), rows)
    print(f"After it, the calls are {gain.text('.3f', 'x')} as fast.")
    return {
        "calls": args.calls,
        "inputs": len(set(calls)),
        "coverage": covered,
        "slowdown": {name: one.mean for name, one in judged.items()},
        "speed_up": gain,
    }


@benchmark(
    option("--inputs", 10, "of the first campaign"),
    option("--calls", 200, "of the workload"),
    option("--test-limit", 40, "tests an input"),
    option("--repeats", 10, "timed launches a test"),
    option("--rounds", 20, "of the last comparison"),
    SEED,
)
def main(args: argparse.Namespace) -> Figures:
    """Play the loop."""
    with tempfile.TemporaryDirectory() as folder:
        return close_the_loop(Path(folder), args)


if __name__ == "__main__":
    sys.exit(main())
