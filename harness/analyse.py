"""python -m harness.analyse DATABASE: what a results database says about each input and across."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from harness.analysis import describe_failures, report_input
from harness.command import run_command
from harness.dispatching.study import choosers
from harness.dispatching.telling import print_across
from harness.display import inputs_table, make_console
from harness.results import shown_place
from harness.tables import Results, read_results


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m harness.analyse",
        description="The best configuration of every input, and which configuration for which "
        "input, from what a database holds; nothing is measured.",
    )
    parser.add_argument("database", nargs="+", help="results databases")
    parser.add_argument("--space", metavar="NAME", help="only the space of this name")
    parser.add_argument(
        "--all-campaigns",
        action="store_true",
        help="also those that a later --fresh has replaced",
    )
    return run_command(parser, arguments, _analyse)


def _analyse(args: argparse.Namespace) -> int:
    console = make_console()
    found = read_results(args.database, args.space, args.all_campaigns)
    for results, title in zip(found, _titles(found), strict=True):
        _print(console, results, title)
    return 0


def _titles(found: Sequence[Results]) -> Iterator[str]:
    """What each is of; where two would look alike, with the campaign and program as well."""
    names = [results.title for results in found]
    for name, results in zip(names, found, strict=True):
        key = results.campaign.key
        which = f", campaign {key.campaign} of program {key.program_sha256[:8]}"
        places = ", ".join(map(shown_place, results.places))
        yield f"{name}{which if names.count(name) > 1 else ''}, from {places}"


def _print(console: Console, results: Results, title: str) -> None:
    measured, default = results.measured, results.default
    if not measured:
        console.print(Text(f"{title}: holds no measurements yet"), soft_wrap=True)
        return
    reports = [
        report_input(given, known, results.finals.get(given, ()), default, legal=None)
        for given, known in measured.items()
    ]
    console.print(inputs_table(reports, title, default))
    console.print()
    failures = list(describe_failures(measured))
    for line in [*failures, *([""] if failures else [])]:
        console.print(Text(line), soft_wrap=True)
    print_across(console, results.matrix(), choosers())
    console.print()


if __name__ == "__main__":
    sys.exit(main())
