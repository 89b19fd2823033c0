"""harness export DATABASE: write the measurements of a campaign for other tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from harness.analysis.coverage import input_reports
from harness.commands.options import ENDINGS, ExportOptions
from harness.core.errors import UsageError
from harness.core.files import check_output, write_output
from harness.core.text import escaped, printable
from harness.display.inputs import claims_lines
from harness.recordings.csv_file import csv_lines
from harness.recordings.csv_mapping import mapping_text
from harness.recordings.files import mapping_beside
from harness.recordings.json_file import t4_texts
from harness.results.campaigns import StoredCampaign, campaigns, read_campaign
from harness.results.columns import MeasurementRows
from harness.results.database import reading
from harness.results.fitting import changed_data_lines
from harness.results.provenance import of_version
from harness.results.url import sqlite_path, without_password
from harness.results.view import Results


def run(options: ExportOptions) -> int:
    """Export a campaign's measurements; return the exit code."""
    campaign, rows, notes = _read(options.database, options.space, options.kernel_version)
    path = options.output or _default_output(options, campaign.space_name)
    name, environment = campaign.space_name, campaign.environment
    first = rows[0].measurement
    features, names = list(first.input), list(first.config)
    shared = int(rows.is_shared.sum())
    note = f", {shared:,} of them shared by equal machine code" if shared else ""
    done = f"{path}: {len(rows):,} measurements of {name} on {environment}{note}"
    measured, asked = rows.measurements(), _techniques(rows)
    if options.format == "t4":
        write_output(path, t4_texts(name, environment, measured, asked))
    else:
        mapping = mapping_beside(path)
        for file in (path, mapping):
            check_output(file)  # both or none
        values = {name: rows.values_of(name) for name in names}
        write_output(path, csv_lines(measured, features, values, asked))
        write_output(mapping, mapping_text(name, environment.device, features, values))
        notes = [f"{mapping}: what the columns of {path.name} mean", *notes]
    for line in (done, *notes):
        print(escaped(line))
    return 0


def _techniques(rows: MeasurementRows) -> Iterator[str]:
    """Yield the technique that asked for each measurement, as OpenTuner recorded it; empty where no
    search did."""
    asked = rows.columns.requestors
    return (asked.values[code] or "" for code in rows.of(asked.codes).tolist())


def _read(
    database: str, space: str | None, kernel_version: str
) -> tuple[StoredCampaign, MeasurementRows, list[str]]:
    """Return the campaign that was tuned last, of the named space if there is a name; its
    measurements by the search; what may be claimed of its speed-ups, and what is left out."""
    with reading(database) as engine, engine.connect() as connection:
        stored = campaigns(connection)
        named = [c for c in stored if space in (None, c.space_name)]
        kept = of_version(named, kernel_version)
        last = next(iter(kept), None)
        results = None
        if last is not None:
            results = Results(last, (database,), *read_campaign(connection, last))
    if last is None or results is None or not results.searched:
        held = ", ".join(sorted({c.space_name for c in stored})) or "nothing"
        raise UsageError(
            f"{without_password(database)}: no measurements of {space or 'any space'}; "
            f"it holds {held}"
        )
    latest = [measured.rows.selected for measured in results.measured.values()]
    rows = results.searched.take(np.concatenate(latest))
    claims = claims_lines(input_reports(results))
    notes = [f"Times are those of the search. In the final measurement: {line}" for line in claims]
    return (
        last,
        rows,
        [*notes, *changed_data_lines(results.fitting.changed), *_left_out(last, kept)],
    )


def _left_out(exported: StoredCampaign, stored: Sequence[StoredCampaign]) -> Iterator[str]:
    """Name the spaces and environments that an export of one of them leaves out."""
    names = dict.fromkeys(f"{one.space_name} on {one.environment}" for one in stored)
    names.pop(f"{exported.space_name} on {exported.environment}")
    if names:
        yield f"Left out, since a file has one space and one environment: {'; '.join(names)}"


def _default_output(options: ExportOptions, name: str) -> Path:
    """Name a file next to the database after its space; raises UsageError where that is no name of
    a file, as in a database that somebody made to write elsewhere."""
    if not name.isprintable() or Path(name).name != name:
        raise UsageError(
            f"{without_password(options.database)}: the space `{printable(name)}` gives no file "
            "its name; give --output FILE"
        )
    path = sqlite_path(options.database)
    return (path.parent if path else Path()) / f"{name}{ENDINGS[options.format]}"
