"""Which measurements of a program count for a space: the one rule that all commands follow.

A program has measurements of every version of its space. Of these, the ones count that set the
parameters of one version, to values that it has, and that its constraints allow. Launches and the
device have no part in it: they are the same for all measurements of a campaign.

Nor do measurements count whose data changed: a host module may read files, and these may change. A
measurement has the digest of its data; one without a digest always counts.
"""

from __future__ import annotations

from collections import Counter
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
from harness.results.measured import by_input


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
    if inputs:
        wanted = set(inputs)
        takes_part = [problem in wanted for problem in rows.columns.inputs]
        input_codes = rows.of(rows.columns.input_codes)
        rows = rows.where(np.array(takes_part, dtype=np.bool_)[input_codes])
    rows, changed = of_present_data(_oldest_first(rows), present)
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
    differences: list[str] = []
    for why, are_left_out in counts.items():
        if are_left_out.any():
            differences.append(f"{int(are_left_out.sum()):,} {why}")
    return VersionRows(names, rows.where(fits), rows.where(~fits), differences, changed)


def _oldest_first(rows: MeasurementRows) -> MeasurementRows:
    """Sort rows by their dates: a merged database has them in another order."""
    dates = rows.of(rows.columns.measured_at)
    if np.all(dates[:-1] <= dates[1:]):
        return rows
    return rows.take(rows.selected[np.argsort(dates, kind="stable")])


def _names(
    rows: MeasurementRows, campaign: StoredCampaign, names: frozenset[str] | None
) -> tuple[frozenset[str], Flags, list[str]]:
    """Return the parameters that configurations set, which rows set exactly these, and in which
    parameters the others differ.

    Rows from before a parameter was added, renamed or removed cannot be compared with later ones.
    """
    configs = rows.columns.configs
    layouts = configs.layout[rows.of(rows.columns.config_codes)]
    space = frozenset(campaign.default)
    set_by = {code: frozenset(configs.layouts[code]) for code in np.unique(layouts).tolist()}
    if names is None:
        names = frozenset()
        for names_of_layout in set_by.values():
            if names_of_layout <= space:
                names |= names_of_layout
    fits = np.zeros(len(configs.layouts), dtype=np.bool_)
    differing: set[str] = set()
    for code, names_of_layout in set_by.items():
        if names_of_layout == names:
            fits[code] = True
        else:
            differing |= names_of_layout - space
            differing |= names - names_of_layout
    return names, fits[layouts], sorted(map(printable, differing))


def _values(rows: MeasurementRows, campaign: StoredCampaign) -> tuple[Flags, list[str]]:
    """Say which rows have only values that their parameters have; name the other settings."""
    fits = np.ones(len(rows), dtype=np.bool_)
    gone: list[str] = []
    settings = rows.columns.configs.settings(rows.of(rows.columns.config_codes))
    for name, (values, codes) in settings.items():
        if name not in campaign.parameters:
            continue
        allows = campaign.parameters[name].allows
        has_value = np.array([*map(allows, values), True])  # the last: a row without the parameter
        fits &= has_value[codes]
        for code in np.unique(codes[~has_value[codes]]).tolist():
            gone.append(printable(f"{name}={shown(values[code])}"))
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
    """Say which rows a constraint allows; one that names an unknown name allows all.

    It is evaluated once for all rows that agree in what it names.
    """
    columns = rows.columns
    settings = columns.configs.settings(rows.of(columns.config_codes))
    names = constraint.names & settings.keys()
    agreeing = np.zeros(len(rows), dtype=np.int64)  # a number that rows share if they agree
    for name in sorted(names):
        values, codes = settings[name]
        numbers = agreeing * (len(values) + 1) + codes + 1
        agreeing = np.unique(numbers, return_inverse=True)[1]
    if not constraint.names <= names | limits.keys() | default.keys():
        agreeing = agreeing * len(columns.inputs) + rows.of(columns.input_codes)
    _, first, of_row = np.unique(agreeing, return_index=True, return_inverse=True)
    allowed: list[bool] = []
    for row in rows.selected[first].tolist():
        names_and_values = {**default, **limits, **columns.input(row), **columns.config(row)}
        is_judged = constraint.names <= names_and_values.keys()
        allowed.append(not is_judged or constraint.allows(names_and_values))
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
    set_aside: Counter[Input] = Counter()
    if not present and len(digests_of_data(rows)) < 2:
        return rows, set_aside
    columns = rows.columns
    wanted = {**_of_last(_oldest_first(rows)), **present}
    is_present = np.ones(len(columns.id), dtype=np.bool_)
    for problem, of_input in by_input(rows).items():
        if wanted.get(problem) is None:
            continue
        digests = of_input.of(columns.data_sha256)
        is_other = digests.astype(np.bool_) & (digests != wanted[problem])
        if is_other.any():
            is_present[of_input.selected[is_other]] = False
            set_aside[problem] = int(is_other.sum())
    return rows.where(rows.of(is_present)), set_aside


def _of_last(rows: MeasurementRows) -> dict[Input, str | None]:
    """Return the digest of the last measurement of each input that has several digests."""
    digests: dict[Input, str | None] = {}
    for problem, of_input in by_input(rows).items():
        of_rows = of_input.of(rows.columns.data_sha256).tolist()
        if len(set(of_rows)) > 1:
            digests[problem] = of_rows[-1]
    return digests


def digests_of_data(rows: MeasurementRows) -> frozenset[str]:
    """Return the digests that these measurements have."""
    return frozenset(filter(None, rows.of(rows.columns.data_sha256).tolist()))


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
