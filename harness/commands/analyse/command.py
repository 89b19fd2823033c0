"""python -m harness.analyse DATABASE: what a results database says about each input and across."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from harness.analysis.coverage import input_reports, reservations
from harness.analysis.effects.text import ablation_lines
from harness.analysis.failures import describe_failures
from harness.commands.run import run_command
from harness.core.errors import UsageError
from harness.dispatch.candidates import matrix_of
from harness.dispatch.study import learners
from harness.display import make_console, print_inputs
from harness.display.across import print_across
from harness.display.text import print_line, print_lines
from harness.results import without_password
from harness.results.view import Results, read_results

SLOWDOWN = "slowdown"  # as harness.analysis.explain has it, which takes a second to load
_PICTURES = (".png", ".svg", ".pdf")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return run_command(_parser(), arguments, _analyse)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harness.analyse",
        description="The best configuration of every input, which parameters the times depend on, "
        "and which configuration for which input, from what a database holds; nothing is measured.",
    )
    parser.add_argument("database", nargs="+", help="results databases")
    parser.add_argument("--space", metavar="NAME", help="only the space of this name")
    parser.add_argument(
        "--all-campaigns",
        action="store_true",
        help="also those that a later --fresh has replaced",
    )
    trees = parser.add_argument_group("what the times depend on (docs/analysis.md)")
    trees.add_argument(
        "--target",
        default=SLOWDOWN,
        metavar="NAME",
        help="what the tree predicts: slowdown (the default), time_s, or what was observed",
    )
    trees.add_argument(
        "--per",
        action="append",
        default=[],
        metavar="FEATURE",
        help="divide the target by this feature; given again, by their product",
    )
    trees.add_argument(
        "--tree",
        nargs="?",
        type=_depth,
        const=4,
        metavar="DEPTH",
        help="print the tree down to so many splits (default 4)",
    )
    trees.add_argument(
        "--picture",
        type=_picture,
        metavar="FILE",
        help="draw it, as PNG, SVG or PDF; of several trees each has a number in its name",
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
        help="which settings stay below this; given again, below all: time_s=0.01 slowdown=1.2",
    )
    trees.add_argument(
        "--platforms",
        action="store_true",
        help="one tree for all devices in the databases, with the platform as a parameter",
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
        raise argparse.ArgumentTypeError(f"there is no folder {Path(text).parent}: make it first")
    return Path(text)


def _analyse(args: argparse.Namespace) -> int:
    console = make_console()
    found = read_results(args.database, args.space, args.all_campaigns)
    if args.platforms and len(found) < 2:
        raise UsageError(f"--platforms compares two or more, but there is only {found[0].title}")
    from harness.commands.analyse import explained  # here: it takes a second to load

    explained.check_asked(found, args)
    numbers = [str(number + 1) for number in range(len(found))]
    pictures = explained.pictures(args.picture, numbers + ["platforms"] * args.platforms)
    told = [
        _print(console, results, title, args, picture)
        for results, title, picture in zip(found, _titles(found), pictures, strict=False)
    ]
    if args.platforms:
        with console.status("one tree for all platforms"):
            told.append(explained.print_platforms(console, found, args, pictures[-1]))
    return 0 if all(told) else 2


def _titles(found: Sequence[Results]) -> Iterator[str]:
    """What each is of; where two would look alike, with the campaign and program as well."""
    names = [results.title for results in found]
    for name, results in zip(names, found, strict=True):
        key = results.campaign.key
        which = f", campaign {key.campaign} of program {key.program_sha256[:8]}"
        places = ", ".join(map(without_password, results.databases))
        yield f"{name}{which if names.count(name) > 1 else ''}, from {places}"


def _print(
    console: Console,
    results: Results,
    title: str,
    args: argparse.Namespace,
    picture: Path | None,
) -> bool:
    """Whether all that was asked for could be told; where not, its place has the reason."""
    measured, default = results.measured, results.default
    if not measured:
        print_lines(console, (f"{title}: holds no measurements yet", *reservations(results)))
        return True
    print_inputs(console, input_reports(results), title, default)
    for lines in (list(reservations(results)), list(describe_failures(measured, default))):
        print_lines(console, [*lines, *([""] if lines else [])])
    from harness.commands.analyse import explained

    if results.ablations:
        lines = [*ablation_lines(results.ablations), ""]
        print_line(console, "\n".join(lines))
    with console.status("what each parameter does to the time"):
        explained.print_effects(console, results)
    with console.status("what the times depend on"):
        is_told = explained.print_explained(console, results, args, picture)
    console.print()
    with console.status("which configuration for which input, judged on inputs held out"):
        print_across(console, matrix_of(results), learners())
    console.print()
    return is_told
