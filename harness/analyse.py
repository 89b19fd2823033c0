"""python -m harness.analyse DATABASE: what a results database says about each input and across."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.text import Text
from sqlalchemy import Connection

from harness.analysis import Measured, cross_input_report, report_input
from harness.command import run_command
from harness.display import inputs_table, make_console
from harness.errors import UsageError
from harness.records import Config, Input, Measurement
from harness.results import Campaign, Row, campaigns, read_measurements, reading, shown_place


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
    for place in args.database:
        with reading(place) as engine, engine.connect() as connection:
            for campaign in _chosen(campaigns(connection), place, args):
                _print(console, connection, campaign, place)
    return 0


def _chosen(
    found: Sequence[Campaign], place: str, args: argparse.Namespace
) -> Sequence[Campaign]:
    """The last campaign of each program and environment, or all of them."""
    chosen = [c for c in found if args.space in (None, c.space_name)]
    if not chosen:
        names = ", ".join(sorted({c.space_name for c in found})) or "no runs"
        raise UsageError(f"{shown_place(place)} holds {names}, nothing of that to analyse")
    if args.all_campaigns:
        return chosen
    latest: dict[tuple[str, str], Campaign] = {}
    for campaign in chosen:
        latest.setdefault((campaign.key.program_sha256, campaign.key.fingerprint), campaign)
    return list(latest.values())


def _print(console: Console, connection: Connection, campaign: Campaign, place: str) -> None:
    rows = read_measurements(connection, campaign.key)
    measured, finals = _by_input(rows)
    reports = [
        report_input(given, known, finals.get(given, ()), campaign.default, legal=None)
        for given, known in measured.items()
    ]
    title = f"{campaign.space_name} on {campaign.environment}, from {shown_place(place)}"
    console.print(inputs_table(reports, title, campaign.default))
    console.print()
    times = {given: {c: m.time_s for c, m in known.items()} for given, known in measured.items()}
    for line in cross_input_report(times, campaign.default):
        console.print(Text(line), soft_wrap=True)
    console.print()


def _by_input(
    rows: Iterable[Row],
) -> tuple[Mapping[Input, Measured], Mapping[Input, Sequence[Measurement]]]:
    """The searched (and cross-measured) configurations of each input, and its last finals."""
    measured: dict[Input, dict[Config, Measurement]] = {}
    finals: dict[Input, list[Measurement]] = {}
    for row in rows:
        given = row.measurement.input
        if row.stage == "final":
            finals.setdefault(given, []).append(row.measurement)
        else:
            measured.setdefault(given, {})[row.measurement.config] = row.measurement
    return measured, finals


if __name__ == "__main__":
    sys.exit(main())
