"""python -m harness.analyse DATABASE: what a results database says about each input and across."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from rich.console import Console
from rich.text import Text
from sqlalchemy import Connection

from harness.analysis import Measured, cross_input_report, describe_failures, report_input
from harness.command import run_command
from harness.display import inputs_table, make_console
from harness.errors import UsageError
from harness.records import Config, Input, Measurement
from harness.results import (
    Campaign,
    Row,
    campaigns,
    last_turn,
    read_measurements,
    reading,
    shown_place,
)


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
    held: set[str] = set()
    printed = 0
    for place in args.database:
        with reading(place) as engine, engine.connect() as connection:
            found = campaigns(connection)
            held |= {campaign.space_name for campaign in found}
            chosen = [c for c in found if args.space in (None, c.space_name)]
            chosen = chosen if args.all_campaigns else _latest(chosen)
            for campaign, title in zip(chosen, _titles(chosen, place), strict=True):
                _print(console, connection, campaign, title)
            printed += len(chosen)
    if not printed:
        raise UsageError(_nothing(args, held))
    return 0


def _nothing(args: argparse.Namespace, held: Collection[str]) -> str:
    places = ", ".join(map(shown_place, args.database))
    if not held:
        return f"{places}: no runs yet; `python -m harness.tune SPACE --database ...` adds some"
    return f"{places}: no results of a space `{args.space}`; there are {', '.join(sorted(held))}"


def _latest(found: Iterable[Campaign]) -> list[Campaign]:
    """The last campaign of each program and environment."""
    latest: dict[tuple[str, str], Campaign] = {}
    for campaign in found:
        latest.setdefault((campaign.key.program_sha256, campaign.key.fingerprint), campaign)
    return list(latest.values())


def _titles(chosen: Sequence[Campaign], place: str) -> Iterator[str]:
    """What each is of; where two would look alike, with the campaign and program as well."""
    names = [f"{c.space_name} on {c.environment}" for c in chosen]
    for name, campaign in zip(names, chosen, strict=True):
        key = campaign.key
        which = f", campaign {key.campaign} of program {key.program_sha256[:8]}"
        yield f"{name}{which if names.count(name) > 1 else ''}, from {shown_place(place)}"


def _print(console: Console, connection: Connection, campaign: Campaign, title: str) -> None:
    measured, finals = _by_input(read_measurements(connection, campaign.key))
    if not measured:
        console.print(Text(f"{title}: holds no measurements yet"), soft_wrap=True)
        return
    default = _tuned(campaign.default, measured)
    reports = [
        report_input(given, known, finals.get(given, ()), default, legal=None)
        for given, known in measured.items()
    ]
    console.print(inputs_table(reports, title, default))
    console.print()
    times = {given: {c: m.time_s for c, m in known.items()} for given, known in measured.items()}
    failures = list(describe_failures(measured))
    for line in [*failures, *([""] if failures else []), *cross_input_report(times, default)]:
        console.print(Text(line), soft_wrap=True)
    console.print()


def _tuned(default: Config, measured: Mapping[Input, Measured]) -> Config:
    """The default without the flags of compilers other than the one that was used."""
    tuned = {name for known in measured.values() for config in known for name in config}
    return Config({name: value for name, value in default.items() if name in tuned})


def _by_input(
    rows: Iterable[Row],
) -> tuple[Mapping[Input, Measured], Mapping[Input, Sequence[Measurement]]]:
    """The searched (and cross-measured) configurations of each input, and its last finals."""
    measured: dict[Input, dict[Config, Measurement]] = {}
    finals: dict[Input, list[Row]] = {}
    for row in rows:
        given = row.measurement.input
        if row.stage == "final":
            finals.setdefault(given, []).append(row)
        else:
            measured.setdefault(given, {})[row.measurement.config] = row.measurement
    return measured, {given: last_turn(found) for given, found in finals.items()}


if __name__ == "__main__":
    sys.exit(main())
