"""Which measurements were made on the data that their input has now.

A host module may read files, and these may change. A measurement has the digest of its data; one
without a digest always counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from harness.core.records import Input
from harness.core.text import counted, first_few
from harness.results.columns import MeasurementRows


def of_present_data(
    rows: MeasurementRows, present: Mapping[Input, str | None] | None = None
) -> tuple[MeasurementRows, Mapping[Input, int]]:
    """Keep the measurements whose data are still those of their input; count the others by input.

    `present` has the digest of each input's present data; an input that it lacks, or whose digest
    is None, keeps all. Without `present`, it is the digest of the input's last measurement.
    """
    if present is None:
        present = _of_last(rows)
    set_aside: dict[Input, int] = {}
    if not present:
        return rows, set_aside
    digests, inputs = rows.columns.data_sha256, rows.columns.inputs
    width = len(digests.values)
    keys = rows.of(inputs.codes).astype(np.int64) * width + rows.of(digests.codes)
    pairs, pair_of, counts = np.unique(keys, return_inverse=True, return_counts=True)
    is_present = np.ones(len(pairs), dtype=np.bool_)
    for index, (pair, count) in enumerate(zip(pairs.tolist(), counts.tolist(), strict=True)):
        problem, digest = inputs.values[pair // width], digests.values[pair % width]
        wanted = present.get(problem)
        if digest is not None and wanted is not None and digest != wanted:
            is_present[index] = False
            set_aside[problem] = set_aside.get(problem, 0) + count
    return rows.where(is_present[pair_of]), set_aside


def digests_of_data(rows: MeasurementRows) -> frozenset[str]:
    """Return the digests that these measurements have."""
    digests = rows.columns.data_sha256
    used = np.unique(rows.of(digests.codes)).tolist()
    return frozenset(digest for code in used if (digest := digests.values[code]) is not None)


def changed_data_lines(set_aside: Mapping[Input, int]) -> Iterator[str]:
    """Say which inputs have other data than when they were measured."""
    if not set_aside:
        return
    count = sum(set_aside.values())
    are, these = ("is", "this was") if count == 1 else ("are", "these were")
    shown = first_few([f"({problem})" for problem in set_aside], ", ")
    yield (
        f"The data of {counted(len(set_aside), 'input')} changed since {these} measured: "
        f"{counted(count, 'measurement')} {are} set aside, of {shown}."
    )


def _of_last(rows: MeasurementRows) -> dict[Input, str | None]:
    """Return the digest of the last measurement of each input that has several digests."""
    columns, digests = rows.columns, rows.columns.data_sha256
    codes, problems = rows.of(digests.codes), rows.of(columns.inputs.codes)
    last = np.zeros(len(columns.inputs.values), dtype=np.int32)
    last[problems] = codes
    several = np.unique(problems[last[problems] != codes]).tolist()
    if several:  # by date: rows of a merged database are in another order
        order = np.argsort(rows.of(columns.measured_at), kind="stable")
        last[problems[order]] = codes[order]
    return {columns.inputs.values[code]: digests.values[last[code]] for code in several}
