"""python -m harness.analyse DATABASE: print what a results database says."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from harness.analysis import SLOWDOWN
from harness.analysis.coverage import input_reports, reservations
from harness.analysis.effects.text import ablation_lines
from harness.analysis.failures import describe_failures
from harness.commands.analyse.options import AnalyseOptions, TreeOptions
from harness.commands.run import run_command
from harness.core.errors import UsageError
from harness.dispatch.candidates import matrix_of
from harness.dispatch.study import learners
from harness.display.across import print_across
from harness.display.formats import make_console
from harness.display.inputs import print_inputs
from harness.display.text import print_lines
from harness.results import without_password
from harness.results.view import Results, read_results

_PICTURES = (".png", ".svg", ".pdf")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return run_command(_parser(), arguments, lambda args: _analyse(_options(args)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harness.analyse",
        description="Print what a database holds: the best configuration of every input, the "
        "parameters that times depend on, and which configuration to use for which input. Nothing "
        "is measured.",
    )
    parser.add_argument("database", nargs="+", help="results databases")
    parser.add_argument("--space", metavar="NAME", help="only the space of this name")
    parser.add_argument(
        "--all-campaigns",
        action="store_true",
        help="include campaigns that a later --fresh has replaced",
    )
    trees = parser.add_argument_group("importance and trees (docs/analysis.md)")
    trees.add_argument(
        "--target",
        default=SLOWDOWN,
        metavar="NAME",
        help="what the tree predicts: slowdown (the default), time_s, or an observed quantity",
    )
    trees.add_argument(
        "--per",
        action="append",
        default=[],
        metavar="FEATURE",
        help="divide the target by this feature; if repeated, by their product",
    )
    trees.add_argument(
        "--tree",
        nargs="?",
        type=_depth,
        const=4,
        metavar="DEPTH",
        help="print the tree down to this depth (default 4)",
    )
    trees.add_argument(
        "--picture",
        type=_picture,
        metavar="FILE",
        help="draw the tree as PNG, SVG or PDF; several trees get a number in the file name",
    )
    trees.add_argument(
        "--inside", metavar="CONDITION", help="importance in a part of the space: 'BLOCK >= 256'"
    )
    trees.add_argument(
        "--below",
        action="append",
        default=[],
        type=_limit,
        metavar="TARGET=LIMIT",
        help="settings with the target below a limit: time_s=0.01; if repeated, below all limits",
    )
    trees.add_argument(
        "--platforms",
        action="store_true",
        help="grow one tree for all devices in the databases, with the platform as a parameter",
    )
    return parser


def _depth(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 50:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to 50, got {text!r}")
    return int(text)


def _limit(text: str) -> tuple[str, float]:
    name, _, limit = text.partition("=")
    try:
        number = float(limit)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"must be TARGET=LIMIT, such as time_s=0.01, got {text!r}")
    return name.strip(), number


def _picture(text: str) -> Path:
    if not text.lower().endswith(_PICTURES):
        raise argparse.ArgumentTypeError(f"must end in {', '.join(_PICTURES)}, got {text!r}")
    if not Path(text).parent.is_dir():
        raise argparse.ArgumentTypeError(f"folder {Path(text).parent} does not exist; create it")
    return Path(text)


def _options(args: argparse.Namespace) -> AnalyseOptions:
    tree = TreeOptions(
        args.target, tuple(args.per), args.tree, args.picture, args.inside, tuple(args.below)
    )
    return AnalyseOptions(
        tuple(args.database), args.space, args.all_campaigns, args.platforms, tree
    )


def _analyse(options: AnalyseOptions) -> int:
    """Print every Results; return 2 if anything that was asked for could not be printed."""
    console = make_console()
    found = read_results(options.databases, options.space, options.all_campaigns)
    if options.platforms and len(found) < 2:
        raise UsageError(f"--platforms compares two or more, but there is only {found[0].title}")
    from harness.commands.analyse import tree  # here: it takes a second to load

    tree.check_options(found, options.tree, options.platforms)
    is_one = len(found) + options.platforms == 1
    complete = [
        _print(console, one, title, options.tree if is_one else options.tree.with_picture_of(name))
        for name, one, title in zip(_ordinals(found), found, _titles(found), strict=True)
    ]
    if options.platforms:
        with console.status("growing one tree for all platforms"):
            pooled = options.tree.with_picture_of("platforms")
            complete.append(tree.print_platforms(console, found, pooled))
    return 0 if all(complete) else 2


def _ordinals(found: Sequence[Results]) -> list[str]:
    return [str(number) for number in range(1, len(found) + 1)]


def _titles(found: Sequence[Results]) -> Iterator[str]:
    """Yield the title of each, with campaign and program where two titles are the same."""
    names = [results.title for results in found]
    for name, results in zip(names, found, strict=True):
        key = results.campaign.key
        which = f", campaign {key.campaign} of program {key.program_sha256[:8]}"
        databases = ", ".join(map(without_password, results.databases))
        yield f"{name}{which if names.count(name) > 1 else ''}, from {databases}"


def _print(console: Console, results: Results, title: str, options: TreeOptions) -> bool:
    """Print a Results; return whether everything that was asked for could be printed."""
    measured, default = results.measured, results.default
    if not measured:
        print_lines(console, [f"{title}: no measurements yet", *reservations(results)])
        return True
    print_inputs(console, input_reports(results), title, default)
    ablations = ablation_lines(results.ablations) if results.ablations else ()
    for part in (reservations(results), describe_failures(measured, default), ablations):
        lines = list(part)
        print_lines(console, [*lines, *([""] if lines else [])])
    from harness.commands.analyse import effects, tree

    with console.status("estimating the effects of parameters"):
        effects.print_effects(console, results)
    with console.status("growing trees"):
        is_complete = tree.print_tree(console, results, options)
    console.print()
    with console.status("judging the choice by input on held-out inputs"):
        print_across(console, matrix_of(results), learners())
    console.print()
    return is_complete
