"""Which measurements of a program count for a space: the one rule that all commands follow.

A program has measurements of every version of its space. Of these, the ones count that set the
parameters of one version, to values that it has, and that its constraints allow. Launches and the
device have no part in it: they are the same for all measurements of a campaign.

Nor do measurements count whose data changed: a host module may read files, and these may change. A
measurement has the digest of its data; one without a digest always counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from harness.constraints.expression import Expression
from harness.core.arrays import Flags
from harness.core.records import Input, Value, shown
from harness.core.text import counted, first_few, printable
from harness.results.campaigns import StoredCampaign
from harness.results.columns import MeasurementRows


@dataclass(frozen=True)
class VersionRows:
    """The measurements that count for a version of a space, with the parameters that they set;
    and those of other versions, with the differences in words."""

    names: frozenset[str]
    rows: MeasurementRows
    others: MeasurementRows
    differences: Sequence[str]
    changed: Mapping[Input, int]
    """By input, the number of measurements on data that it no longer has."""

    @property
    def sentence(self) -> str:
        """How many measurements do not count, and why; empty where all do."""
        others, total = len(self.others), len(self.rows) + len(self.others)
        if not others:
            return ""
        verb = "belongs" if others == 1 else "belong"
        return (
            f"{others:,} of {total:,} measurements {verb} to another version of the space: "
            f"{', '.join(self.differences)}."
        )


def fitting(
    rows: MeasurementRows,
    campaign: StoredCampaign,
    limits: Mapping[str, int],
    inputs: Collection[Input] = (),
    names: frozenset[str] | None = None,
    present: Mapping[Input, str | None] = MappingProxyType({}),
) -> VersionRows:
    """Choose the measurements that count for the version of its space that a campaign has.

    `limits` are those of the device, by the names that constraints use. Where `inputs` are given,
    no others take part: another space may share the program. `names` are the parameters that are
    set; by default all of the space, without flags of compilers that were not used. `present`
    are the digests of the inputs' data (see `of_present_data`).
    """
    columns = rows.columns
    if inputs:
        wanted = set(inputs)
        takes_part = np.array([p in wanted for p in columns.inputs.values], dtype=np.bool_)
        rows = rows.where(takes_part[rows.of(columns.inputs.codes)])
    dates = rows.of(rows.columns.measured_at)
    if np.any(dates[1:] < dates[:-1]):  # a merged database has its rows in another order
        rows = rows.take(rows.selected[np.argsort(dates, kind="stable")])
    rows, changed = of_present_data(rows, present)
    names, has_names, differing = _names(rows, campaign, names)
    has_values, gone = _values(rows, campaign)
    has_values &= has_names
    fits = has_values.copy()
    for constraint in _constraints(campaign):
        fits[fits] = _allowed(rows.where(fits), constraint, campaign.default, limits)
    counts = {
        f"with other parameters (they differ in {first_few(differing, ', ')})": ~has_names,
        f"with values that it lacks ({first_few(gone, ', ')})": has_names & ~has_values,
        "that its constraints do not allow": has_values & ~fits,
    }
    differences = [f"{int(are.sum()):,} {why}" for why, are in counts.items() if are.any()]
    return VersionRows(names, rows.where(fits), rows.where(~fits), differences, changed)


def _names(
    rows: MeasurementRows, campaign: StoredCampaign, names: frozenset[str] | None
) -> tuple[frozenset[str], Flags, list[str]]:
    """Return the parameters that configurations set, which rows set exactly these, and in which
    parameters the others differ.

    Rows from before a parameter was added, renamed or removed cannot be compared with later ones.
    """
    table = rows.columns.config_table
    layouts = table.layout[rows.of(rows.columns.configs.codes)]
    space = frozenset(campaign.default)
    set_by = {code: frozenset(table.layouts[code]) for code in np.unique(layouts).tolist()}
    if names is None:
        names = frozenset().union(*(those for those in set_by.values() if those <= space))
    fits = np.zeros(len(table.layouts), dtype=np.bool_)
    differing: set[str] = set()
    for code, those in set_by.items():
        fits[code] = those == names
        if not fits[code]:
            differing |= (those - space) | (names - those)
    return names, fits[layouts], sorted(map(printable, differing))


def _values(rows: MeasurementRows, campaign: StoredCampaign) -> tuple[Flags, list[str]]:
    """Say which rows have only values that their parameters have; name the other settings."""
    table, configs = rows.columns.config_table, rows.of(rows.columns.configs.codes)
    fits = np.ones(len(rows), dtype=np.bool_)
    gone: list[str] = []
    for name, values, codes in zip(table.names, table.values, table.codes.T, strict=True):
        if name not in campaign.parameters:
            continue
        allows = campaign.parameters[name].allows
        has_value = np.array([*map(allows, values), True])  # the last: a row without the parameter
        if has_value.all():
            continue
        codes = codes[configs]
        fits &= has_value[codes]
        lacking = np.unique(codes[~has_value[codes]]).tolist()
        gone += [printable(f"{name}={shown(values[code])}") for code in lacking]
    return fits, gone


def _constraints(campaign: StoredCampaign) -> list[Expression]:
    """Return the constraints, with those of parameters that matter only under a condition."""
    constraints = list(map(Expression, campaign.constraints))
    for parameter in campaign.parameters.values():
        if parameter.when is not None:
            constraints.append(
                Expression.or_equal(parameter.when, parameter.name, parameter.default)
            )
    return constraints


def _allowed(
    rows: MeasurementRows,
    constraint: Expression,
    default: Mapping[str, Value],
    limits: Mapping[str, int],
) -> Flags:
    """Say which rows a constraint allows; one that names anything unknown allows all.

    It is evaluated once for all rows that agree in what it names.
    """
    columns, table = rows.columns, rows.columns.config_table
    names = constraint.names & set(table.names)
    numbers = np.zeros(len(table), dtype=np.int64)  # of configurations that agree
    for name in sorted(names):
        column = table.names.index(name)
        numbers = numbers * (len(table.values[column]) + 1) + table.codes[:, column] + 1
        numbers = np.unique(numbers, return_inverse=True)[1]
    keys = numbers[rows.of(columns.configs.codes)]
    if not constraint.names <= names | limits.keys() | default.keys():
        keys = keys * len(columns.inputs.values) + rows.of(columns.inputs.codes)
    _, first, of_row = np.unique(keys, return_index=True, return_inverse=True)
    allowed: list[bool] = []
    for row in rows.selected[first].tolist():
        values = {**default, **limits, **columns.inputs.at(row), **columns.configs.at(row)}
        is_judged = constraint.names <= values.keys()
        allowed.append(not is_judged or constraint.allows(values))
    flags: Flags = np.array(allowed, dtype=np.bool_)[of_row]
    return flags


# --------------------------------------------------------------------------- present data


def of_present_data(
    rows: MeasurementRows, present: Mapping[Input, str | None] = MappingProxyType({})
) -> tuple[MeasurementRows, Mapping[Input, int]]:
    """Keep the measurements whose data are still those of their input; count the others by input.

    `present` has the digests of inputs' present data, None where they differ each time: then all
    count. That of another input is the digest of its last measurement.
    """
    present = {**_of_last(rows), **present}
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
