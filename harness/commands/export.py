"""python -m harness.export DATABASE: what was measured, as T4 results or as CSV for other tools."""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from harness.commands.run import run_command
from harness.core.errors import UsageError
from harness.core.files import write_file
from harness.core.records import Measurement, Value
from harness.recordings.csv_reader import mapping_beside
from harness.recordings.csv_writer import write_csv, write_mapping
from harness.recordings.t4 import write_t4
from harness.results import (
    SEARCHED,
    Campaign,
    campaigns,
    read_measurements,
    reading,
    shown_place,
    sqlite_path,
)

ENDINGS = {"t4": ".t4.json", "csv": ".csv"}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m harness.export",
        description="Write what a database holds, every sample and every failure, as T4 results "
        "or as CSV with its mapping. Of several campaigns the last worked on is written.",
    )
    parser.add_argument("database", metavar="DATABASE", help="SQLite file or SQLAlchemy URL")
    parser.add_argument("--format", choices=tuple(ENDINGS), default="t4", help="default t4")
    parser.add_argument("--space", metavar="NAME", help="only of the space of this name")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="where to (default: the space's name, beside the database)",
    )
    return run_command(parser, arguments, _export)


def _export(args: argparse.Namespace) -> int:
    campaign, measurements = _read(args.database, args.space)
    place = args.output or _default_output(args.database, campaign.space_name, args.format)
    if place == sqlite_path(args.database):
        raise UsageError(f"{place} is the database itself; give another --output")
    name, where = campaign.space_name, campaign.environment
    default = _default(campaign, measurements)
    if args.format == "t4":
        _write(place, lambda file: write_t4(file, name, where, default, measurements))
    else:
        mapping = mapping_beside(place)
        if mapping == place:
            raise UsageError(f"{place}: its mapping would be written there as well; end it in .csv")
        _write(place, lambda file: write_csv(file, measurements))
        _write(mapping, lambda file: write_mapping(file, name, where, default, measurements))
    shared = sum(m.shared_with is not None for m in measurements)
    told = f", {shared:,} of them shared by equal machine code" if shared else ""
    print(f"{place}: {len(measurements):,} measurements of {name} on {where}{told}")
    return 0


def _read(database: str, space: str | None) -> tuple[Campaign, list[Measurement]]:
    """The campaign that was worked on last, and the search's measurements of it."""
    with reading(database) as engine, engine.connect() as connection:
        found = campaigns(connection)
        chosen = next((c for c in found if space in (None, c.space_name)), None)
        rows = (
            read_measurements(connection, chosen.key, SEARCHED, chosen.space_name) if chosen else []
        )
    if chosen is None or not rows:
        there = ", ".join(sorted({c.space_name for c in found})) or "nothing"
        raise UsageError(
            f"{shown_place(database)}: no measurements of {space or 'any space'}; it holds {there}"
        )
    latest = {(row.measurement.input, row.measurement.config): row.measurement for row in rows}
    names = {tuple(sorted(config)) for _, config in latest}
    if len(names) > 1:
        last = sorted(rows[-1].measurement.config)
        latest = {key: m for key, m in latest.items() if sorted(key[1]) == last}
    return chosen, list(latest.values())


def _default(campaign: Campaign, measurements: Sequence[Measurement]) -> Mapping[str, Value]:
    """The space's default, without the flags of other compilers; nothing where parameters were
    measured that the space no longer has."""
    names, default = list(measurements[0].config), campaign.default
    return {name: default[name] for name in names} if set(names) <= set(default) else {}


def _default_output(database: str, name: str, format_: str) -> Path:
    path = sqlite_path(database)
    return (path.parent if path else Path()) / f"{name}{ENDINGS[format_]}"


def _write(place: Path, write: Callable[[TextIO], None]) -> None:
    text = io.StringIO()
    write(text)
    write_file(place, text.getvalue())
