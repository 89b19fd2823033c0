"""Measure the CPU time that nvcc and NVRTC take for a build.

    python -m benchmarks.building
    python -m benchmarks.building spaces/mvmul.yaml --arch sm_120 --configs 10

It compiles the default and some other legal configurations of each space with both compilers, in
turns, and needs no GPU. CPU seconds are those of the compiler and of all processes that it starts;
the wall time of a build depends on what else the machine does. NVRTC is loaded once, as in a
process of harness that builds many configurations. Releases differ: compare those of the last line.
It takes some twenty seconds on an idle machine. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import resource
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from benchmarks.arguments import count, make_parser
from harness.commands.run import run_command
from harness.core.program import Program
from harness.display.text import make_table
from harness.measure.backends.base import Compiler
from harness.measure.backends.cuda_compilers import CUDA_COMPILERS
from harness.space import ConstrainedSpace
from harness.space.launches import make_program
from harness.space_file import load_spec

_SPACES = Path(__file__).parents[1] / "spaces"
_DEFAULT = (_SPACES / "mvmul.yaml", *sorted((_SPACES / "modern").glob("*.yaml")))


@dataclass(frozen=True)
class Builds:
    """The median CPU seconds of a build by compiler."""

    kernel: str
    cpu_s: dict[str, float]
    configs: int

    @property
    def ratio(self) -> float:
        """How many times the CPU time of NVRTC's builds nvcc's take."""
        return self.cpu_s["nvcc"] / self.cpu_s["nvrtc"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Compile, and print the table and the JSON."""
    return run_command(_parser(), arguments, _run)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("building", __doc__)
    parser.add_argument("spaces", nargs="*", type=Path, metavar="SPACE", default=list(_DEFAULT))
    parser.add_argument("--arch", default="sm_90", help="architecture (default sm_90)")
    parser.add_argument(
        "--configs", type=count, default=5, help="configurations of each space (default 5)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample (default 0)")
    return parser


def _run(args: argparse.Namespace) -> int:
    compilers = {name: make(args.arch) for name, make in CUDA_COMPILERS.items()}
    found = [
        _measured(path.stem, list(_programs(path, args.configs, args.seed)), compilers)
        for path in args.spaces
    ]
    _print_table(found)
    print(json.dumps(_figures(found, compilers)))
    return 0


def _programs(path: Path, configs: int, seed: int) -> Iterator[Program]:
    spec = load_spec(path)
    space = ConstrainedSpace.of(spec, spec.inputs[0], None, "nvcc")
    sampled = space.sample(random.Random(seed), configs)
    for config in list(dict.fromkeys([space.default, *sampled]))[:configs]:
        yield make_program(spec, space, config, "cuda")


def _measured(
    kernel: str, programs: Sequence[Program], compilers: Mapping[str, Compiler]
) -> Builds:
    seconds: dict[str, list[float]] = {name: [] for name in compilers}
    for program in programs:
        for name, compiler in compilers.items():
            begin_s = _cpu_s()
            compiler.compile(program)
            seconds[name].append(_cpu_s() - begin_s)
    medians = {name: statistics.median(found) for name, found in seconds.items()}
    return Builds(kernel, medians, len(programs))


def _cpu_s() -> float:
    """Return the CPU seconds of this process and of those that it has waited for."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def _print_table(found: Sequence[Builds]) -> None:
    head = ["kernel", "nvcc", "NVRTC", "ratio"]
    rows = (
        [
            each.kernel,
            f"{each.cpu_s['nvcc']:.3f} s",
            f"{each.cpu_s['nvrtc']:.3f} s",
            f"{each.ratio:.1f}",
        ]
        for each in found
    )
    Console().print(make_table(head, rows, title="CPU seconds of a build (medians)", left=(0,)))


def _figures(found: Sequence[Builds], compilers: Mapping[str, Compiler]) -> dict[str, object]:
    kernels = {
        each.kernel: {
            **{f"{name}_cpu_s": round(value, 4) for name, value in each.cpu_s.items()},
            "configs": each.configs,
        }
        for each in found
    }
    ratio = math.exp(statistics.mean(math.log(each.ratio) for each in found))
    identities = {name: compiler.identity for name, compiler in compilers.items()}
    return {**identities, "kernels": kernels, "ratio": round(ratio, 2)}


if __name__ == "__main__":
    sys.exit(main())
