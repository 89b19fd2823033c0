"""python -m harness.compare BASE CANDIDATE: find what became slower or faster.

Exit status: 0 nothing became slower, 1 something did or works no more, 2 they cannot be compared.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from harness.commands.run import add_device, add_json, run_command
from harness.compare.statistics import (
    FEWEST_OCCASIONS,
    LEVEL,
    MOST_OCCASIONS,
    OCCASIONS,
    RUN_NOISE,
    THRESHOLD,
)
from harness.core.invocation import command_line
from harness.measure.devices import BACKENDS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    return run_command(_parser(), arguments, _run)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=command_line("compare"),
        description="Say whether CANDIDATE is slower or faster than BASE, or within noise, for "
        "each kernel and input. Exit code: 0 if nothing became slower; 1 if something did, or "
        "works no more; 2 if no comparison is possible.",
    )
    parser.add_argument("base", metavar="BASE", help="results database")
    parser.add_argument("candidate", metavar="CANDIDATE", help="results database")
    parser.add_argument("--space", metavar="NAME", help="only the kernel of this space")
    parser.add_argument(
        "--spec",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="space file: compare only CANDIDATE's results of its current sources; may be repeated",
    )
    parser.add_argument(
        "--of",
        choices=("both", "best", "default"),
        default="both",
        help="compare the best of each side, the default of each side, or both (default both)",
    )
    parser.add_argument(
        "--across-environments",
        action="store_true",
        help="compare even if device, driver or compiler differ",
    )
    _add_test_options(parser.add_argument_group("test"))
    _add_rerun_options(parser.add_argument_group("rerun: measure both sides again, interleaved"))
    outputs = parser.add_argument_group("output, besides the text")
    add_json(outputs)
    outputs.add_argument(
        "--junit", type=Path, metavar="FILE", help="write JUnit XML, for CI's pages"
    )
    return parser


def _add_test_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--threshold",
        type=_threshold,
        default=THRESHOLD,
        metavar="X",
        help="ignore smaller changes; a ratio or a fraction, such as 1.02x, 2%% or 0.02 "
        f"(default {1 + THRESHOLD:.3f}x)",
    )
    group.add_argument(
        "--level",
        type=_level,
        default=LEVEL,
        metavar="P",
        help="probability of any false `slower` or `faster`, and of any missed slowdown above its "
        f"limit (default {LEVEL})",
    )
    group.add_argument(
        "--run-noise",
        type=_fraction,
        default=RUN_NOISE,
        metavar="P",
        help="noise between runs, as a fraction of the time, if nothing was measured twice "
        f"(default {RUN_NOISE})",
    )


def _add_rerun_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--rerun",
        type=Path,
        nargs="*",
        metavar="SPACE",
        help="measure the best and the default of both sides now, and compare only these "
        "measurements. SPACE: space files of CANDIDATE's sources (default: those of --spec, else "
        "spaces/NAME.yaml of each kernel)",
    )
    group.add_argument(
        "--base-space",
        type=Path,
        action="append",
        default=[],
        metavar="SPACE",
        help="space file of BASE's sources, if they differ from CANDIDATE's; may be repeated",
    )
    group.add_argument(
        "--rerun-database",
        default="results/rerun.db",
        metavar="DATABASE",
        help="database for the new measurements (default results/rerun.db)",
    )
    group.add_argument(
        "--occasions",
        type=_occasions,
        default=OCCASIONS,
        metavar="N",
        help=f"how often both sides are loaded and measured, in random order (default {OCCASIONS})",
    )
    group.add_argument(
        "--backend", choices=BACKENDS, default="auto", help="where kernels run (default auto)"
    )
    add_device(group)


def _occasions(text: str) -> int:
    if not text.isdigit() or not FEWEST_OCCASIONS <= int(text) <= MOST_OCCASIONS:
        raise argparse.ArgumentTypeError(
            f"must be a whole number from {FEWEST_OCCASIONS} to {MOST_OCCASIONS}, but got {text!r}"
        )
    return int(text)


def _threshold(text: str) -> float:
    """Parse a change as a fraction: 0.02 for 1.02x, 2% and 0.02."""
    try:
        if text.endswith("x"):
            return _fraction(str(float(text.removesuffix("x")) - 1))
        return _fraction(text)
    except (ValueError, argparse.ArgumentTypeError):
        message = f"must be a ratio below 2 such as 1.02x, or 2% or 0.02, but got {text!r}"
        raise argparse.ArgumentTypeError(message) from None


def _fraction(text: str) -> float:
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"must be from 0 to 1, or a percentage, but got {text!r}")
    return value


def _level(text: str) -> float:
    value = _fraction(text)
    if not value:
        raise argparse.ArgumentTypeError(f"must be above 0, but got {text!r}")
    return value


def _run(args: argparse.Namespace) -> int:
    from harness.commands.compare.command import run  # here: it takes a second to load

    return run(args)
