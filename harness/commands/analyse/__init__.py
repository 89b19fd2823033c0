"""python -m harness.analyse DATABASE: print what a results database says."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from harness.analysis import SLOWDOWN
from harness.commands.analyse.options import AnalyseOptions, TreeOptions
from harness.commands.run import (
    add_json,
    add_kernel_version,
    collecting_rarely,
    options_of,
    run_command,
    whole_number,
)
from harness.core.files import check_writable
from harness.core.invocation import command_line

_AUTO = "auto"
_CHOICES = (_AUTO, "tree", "ensemble", "gadapt")  # as harness.dispatch.study, which loads slowly
_PICTURES = (".png", ".svg", ".pdf")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return run_command(_parser(), arguments, _run)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=command_line("analyse"),
        description="Print what a database holds: the best configuration of every input, the "
        "parameters that times depend on, and which configuration to use for which input. It "
        "measures nothing.",
    )
    parser.add_argument("database", nargs="+", metavar="DATABASE", help="results database")
    parser.add_argument("--space", metavar="NAME", help="only the space of this name")
    parser.add_argument(
        "--all-campaigns",
        action="store_true",
        help="include campaigns that a later --fresh replaced",
    )
    parser.add_argument(
        "--summary",
        action="store_true",
        help="only print programs by devices: failures, and speed-ups over each baseline",
    )
    parser.add_argument(
        "--by-input",
        nargs="?",
        type=_choice,
        const=_AUTO,
        metavar="CHOICE",
        help="print the worst, default and predicted time of each input; predicted by tree, "
        "ensemble or gadapt (G-ADAPT's model), without this input (default: the one that "
        "harness.dispatch writes)",
    )
    add_kernel_version(parser)
    add_json(parser)
    _add_tree_options(parser.add_argument_group("importance and trees (docs/analysis.md)"))
    return parser


def _add_tree_options(trees: argparse._ArgumentGroup) -> None:
    trees.add_argument(
        "--target",
        default=SLOWDOWN,
        metavar="NAME",
        help="predict slowdown (default), time_s, or an observed quantity",
    )
    trees.add_argument(
        "--per",
        action="append",
        default=[],
        metavar="FEATURE",
        help="divide the target by this feature; may be repeated",
    )
    trees.add_argument(
        "--tree",
        dest="depth",
        nargs="?",
        type=whole_number(1, 50, "50"),
        const=4,
        metavar="DEPTH",
        help="print the tree down to this depth (default 4)",
    )
    trees.add_argument(
        "--threshold",
        type=_share,
        metavar="SHARE",
        help="grow trees by the published rule, until no split removes this share of the squared "
        "error, such as 0 or 1e-6 (default: prune them by cross-validation)",
    )
    trees.add_argument(
        "--picture",
        type=_picture,
        metavar="FILE",
        help="draw the tree as PNG, SVG or PDF; several trees get a number in the file name",
    )
    trees.add_argument(
        "--inside",
        metavar="CONDITION",
        help="print the importance in a part of the space, such as 'BLOCK >= 256'",
    )
    trees.add_argument(
        "--below",
        dest="limits",
        action="append",
        default=[],
        type=_limit,
        metavar="TARGET=LIMIT",
        help="list settings with the target below a limit, such as time_s=0.01; may be repeated",
    )
    trees.add_argument(
        "--platforms",
        action="store_true",
        help="grow one tree for all devices, with the platform as a parameter",
    )


def _choice(text: str) -> str:
    if text not in _CHOICES:
        raise argparse.ArgumentTypeError(
            f"must be {', '.join(_CHOICES)}, got {text!r}; databases stand before it"
        )
    return text


def _number(text: str) -> float:
    """Return a number, or NaN."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _share(text: str) -> float:
    number = _number(text)
    if not 0 <= number < 1:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to below 1, got {text!r}")
    return number


def _limit(text: str) -> tuple[str, float]:
    name, _, limit = text.partition("=")
    number = _number(limit)
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"must be TARGET=LIMIT, such as time_s=0.01, got {text!r}")
    return name.strip(), number


def _picture(text: str) -> Path:
    if not text.lower().endswith(_PICTURES):
        raise argparse.ArgumentTypeError(f"must end in {', '.join(_PICTURES)}, got {text!r}")
    return Path(text)


def _run(args: argparse.Namespace) -> int:
    if args.picture is not None:
        check_writable(args.picture, "name another file with --picture")
    from harness.commands.analyse.command import analyse  # here: it takes seconds to load

    with collecting_rarely():
        return analyse(options_of(AnalyseOptions, args), options_of(TreeOptions, args))
