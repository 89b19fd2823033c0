"""Which measurements were made on the data that their input has now.

A host module may read files, and these may change. A measurement has the digest of its data; one
without a digest always counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from harness.core.arrays import Codes, Flags
from harness.core.records import Input
from harness.core.text import counted, first_few
from harness.results.columns import Coded, MeasurementRows

_ANY, _NEW = -1, -2
"""In place of a code: all rows count; none that has a digest does."""


@dataclass(frozen=True)
class OfPresentData:
    """The measurements on present data, and by input the number of the others."""

    rows: MeasurementRows
    set_aside: Mapping[Input, int] = field(default_factory=dict)


def of_present_data(
    rows: MeasurementRows, present: Mapping[Input, str | None] | None = None
) -> OfPresentData:
    """Keep the measurements whose data are still those of their input.

    `present` has the digest of each input's present data; an input that it lacks, or whose digest
    is None, keeps all. Without `present`, it is the digest of the input's last measurement.
    """
    digests, inputs = _digests(rows), rows.columns.inputs
    wanted = _last_codes(rows) if present is None else _codes_of(rows, present)
    codes, problems = rows.of(digests.codes), rows.of(inputs.codes)
    compared = wanted[problems]
    has_digest = codes != digests.code(None)
    has_changed: Flags = has_digest & (compared != _ANY) & (compared != codes)
    if not has_changed.any():
        return OfPresentData(rows)
    counts = np.bincount(problems[has_changed], minlength=len(inputs.values)).tolist()
    set_aside = {problem: n for problem, n in zip(inputs.values, counts, strict=True) if n}
    return OfPresentData(rows.where(~has_changed), set_aside)


def digests_of_data(rows: MeasurementRows) -> frozenset[str]:
    """Return the digests that these measurements have."""
    digests = _digests(rows)
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


def _digests(rows: MeasurementRows) -> Coded[str | None]:
    digests: Coded[str | None] = rows.columns.others["data_sha256"]
    return digests


def _codes_of(rows: MeasurementRows, present: Mapping[Input, str | None]) -> Codes:
    """Return the code of the present digest by the code of the input."""
    digests, inputs = _digests(rows), rows.columns.inputs.values
    codes = np.full(len(inputs), _ANY, dtype=np.int32)
    for index, problem in enumerate(inputs):
        digest = present.get(problem)
        if digest is not None:
            codes[index] = digests.code(digest) if digest in digests.values else _NEW
    return codes


def _last_codes(rows: MeasurementRows) -> Codes:
    """Return the code of the last measurement's digest by the code of the input."""
    columns = rows.columns
    codes, problems = rows.of(_digests(rows).codes), rows.of(columns.inputs.codes)
    last = np.full(len(columns.inputs.values), _ANY, dtype=np.int32)
    last[problems] = codes
    if (last[problems] != codes).any():  # rows of a merged database are in another order
        order = np.argsort(rows.of(columns.measured_at), kind="stable")
        last[problems[order]] = codes[order]
    last[last == _digests(rows).code(None)] = _ANY
    return last
