"""The claims of G-ADAPT (2009) and G-ADAPT+ (2012).

Accuracies, times and counts come from `benchmarks/gadapt.py`, whose JSON lines are in
results/gadapt/. That the programs run as OpenCL and compile as CUDA is tried here.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

from benchmarks.gadapt import SPACES
from benchmarks.papers.claim import RESULTS, Claim, Figure, Paper, Settings, joined, runs
from harness.commands.check import main as check

RECORD = RESULTS / "gadapt" / "programs.jsonl"
COMMAND = "python -m benchmarks.gadapt"
_ARCHITECTURE = "sm_90"


def _each(text: Callable[[dict[str, Any]], str]) -> Callable[[Settings], Figure]:
    """Make a figure with a part for each program."""

    def measure(settings: Settings) -> Figure:
        rows = runs(RECORD, "programs")
        return joined([(f"{row['kernel']} {text(row)}", figure) for row, figure in rows])

    return measure


def _of(kernel: str, text: Callable[[dict[str, Any]], str]) -> Callable[[Settings], Figure]:
    """Make a figure of one program."""

    def measure(settings: Settings) -> Figure:
        rows = runs(RECORD, "programs")
        return joined([(text(row), figure) for row, figure in rows if row["kernel"] == kernel])

    return measure


def _tests(row: dict[str, Any]) -> str:
    part = "" if row["inputs"] == row["inputs_of_space"] else f" on {row['inputs']} inputs"
    return f"{row['tests']}{part}"


def _speedup(row: dict[str, Any]) -> str:
    return "{:.2f}x ({:.2f} to {:.2f})".format(*row["speedup"])


def _gains(row: dict[str, Any]) -> str:
    """Render how much faster than the default the choice is, and the best would be."""
    chosen = row["speedup"][0]
    return f"chosen {chosen:.2f}x, best {chosen / row['fraction']:.2f}x of the default's speed"


def _best(row: dict[str, Any]) -> str:
    counts = [f"{config} on {count}" for config, count in row["best"].items()]
    return f"{', '.join(counts[:4])} of {row['inputs']} inputs"


def _block(row: dict[str, Any]) -> str:
    """Count the inputs on which each block of mvmul is best, whatever its unroll factor."""
    blocks: dict[str, int] = {}
    for config, count in row["best"].items():
        (block,) = (part for part in config.split(", ") if part.startswith("THRD="))
        blocks[block] = blocks.get(block, 0) + count
    return f"{', '.join(f'{b} on {n}' for b, n in blocks.items())} of {row['inputs']} inputs"


def both_languages(settings: Settings) -> Figure:
    """Compile each program's default for CUDA, run it as OpenCL, and count those that do."""
    spaces = sorted(map(str, SPACES.glob("*.yaml")))[: 1 if settings.quick else None]
    cuda = sum(_passes(space, "--arch", _ARCHITECTURE) for space in spaces)
    opencl = sum(_passes(space, "--backend", "opencl", "--run") for space in spaces)
    return Figure(
        f"CUDA: {cuda} of {len(spaces)} compile for {_ARCHITECTURE}; OpenCL: {opencl} of "
        f"{len(spaces)} run and verify on every input",
        "no GPU: nvcc, PoCL",
    )


def _passes(space: str, *options: str) -> bool:
    """Whether `harness.check` finds nothing wrong with a space's default."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return check([space, *options, "--sample", "0"]) == 0


PAPERS = (
    Paper(
        "G-ADAPT (Liu, Zhang, Shen, IPDPS 2009)",
        (
            Claim(
                "gadapt-tests",
                "tests of hill climbing on all inputs of a program",
                "200, 93, 75 (reduction), 54 (transposes)",
                COMMAND,
                _each(_tests),
            ),
            Claim(
                "gadapt-accuracy",
                "best configuration chosen for an input that was left out",
                "convolution 100 %; matmul 100 %; mvmul 93.3 %; reduction 80 %; scalarprod 100 %; "
                "transpose 100 %; transpose_coalesced 100 %",
                COMMAND,
                _each(lambda row: f"{row['accuracy']:.1%}, without ties {row['exact']:.1%}"),
            ),
            Claim(
                "gadapt-speedup",
                "chosen configuration over the original default",
                "1.5x to 2.8x",
                COMMAND,
                _each(_speedup),
            ),
            Claim(
                "gadapt-figures",
                "default, chosen and best configuration (figures 3, 4 and 6)",
                "charts",
                COMMAND,
                _each(_gains),
            ),
            Claim(
                "gadapt-spread",
                "worst configuration over the best one of an input",
                "up to 6.4x",
                COMMAND,
                _each(lambda row: f"{row['spread']:.1f}x"),
            ),
            Claim(
                "gadapt-mvmul",
                "mvmul: best block, where the default is 256",
                "64 on most of 15 inputs",
                f"{COMMAND} --kernel mvmul",
                _of("mvmul", _block),
            ),
            Claim(
                "gadapt-reduction",
                "reduction: best block, where the default is 128",
                "128 on all of 15 inputs but 2^19 and 2^20, where it is 64",
                f"{COMMAND} --kernel reduction",
                _of("reduction", _best),
            ),
        ),
    ),
    Paper(
        "G-ADAPT+ (Shen, Liu, Zhang, Bhamidipati, 2012)",
        (
            Claim(
                "gadapt-languages",
                "the programs are tuned as CUDA and as OpenCL",
                "7 as CUDA, several as OpenCL",
                "python -m benchmarks.published --claim gadapt-languages",
                both_languages,
            ),
        ),
    ),
)
