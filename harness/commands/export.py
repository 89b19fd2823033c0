"""harness export DATABASE: write the measurements of a campaign for other tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from harness.analysis.coverage import input_reports
from harness.core.errors import UsageError
from harness.core.files import check_output, write_output
from harness.core.text import escaped, printable
from harness.display.inputs import claims_lines
from harness.options.others import ENDINGS, ExportOptions
from harness.recordings.csv_file import csv_lines
from harness.recordings.csv_mapping import mapping_text
from harness.recordings.files import mapping_beside
from harness.recordings.json_file import t4_texts
from harness.results.columns import MeasurementRows
from harness.results.fitting import changed_data_lines
from harness.results.url import sqlite_path, without_password
from harness.results.view import Results, read_results


def run(options: ExportOptions) -> int:
    """Export a campaign's measurements; return the exit code."""
    results, *others = read_results(options.database, options.space)
    latest = [measured.rows.selected for measured in results.measured.values()]
    if not latest:
        database = without_password(options.database)
        raise UsageError(f"{database}: no measurements of {results.title}")
    rows = results.searched.take(np.concatenate(latest))
    notes, campaign = list(_notes(results, others)), results.campaign
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
    return (requestor or "" for requestor in rows.of(rows.columns.requestor))


def _notes(results: Results, others: Sequence[Results]) -> Iterator[str]:
    """Say what may be claimed of the speed-ups, and what an export of one campaign leaves out."""
    for line in claims_lines(input_reports(results)):
        yield f"Times are those of the search. In the final measurement: {line}"
    yield from changed_data_lines(results.fitting.changed)
    names = dict.fromkeys(other.title for other in others if other.title != results.title)
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
