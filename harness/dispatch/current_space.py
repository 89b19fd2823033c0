"""Results under the space as it is now: its file may have changed since they were measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from harness.constraints.expression import Expression
from harness.core.records import shown
from harness.core.text import counted
from harness.dispatch.candidates import applies_where
from harness.results import MeasurementRows
from harness.results.view import Results
from harness.space_file import Parameter, Spec


def in_current_space(results: Results, spec: Spec) -> tuple[Results, list[str]]:
    """Keep the results that the space allows as it is now, under its current constraints; also
    return notices of what is left out. The kernel must be the measured one."""
    parameters = {parameter.name: parameter for parameter in spec.parameters}
    kept, gone = _allowed(results.rows, parameters)
    notices = []
    if len(kept) < len(results.rows):
        left_out = counted(len(results.rows) - len(kept), "measurement")
        notices.append(
            f"Left out: {left_out} with values that {spec.path} no longer has: {', '.join(gone)}."
        )
    texts = tuple(constraint.expression.text for constraint in spec.constraints)
    if set(texts) == set(results.campaign.constraints):
        return dataclasses.replace(results, all_rows=kept), notices
    campaign = dataclasses.replace(results.campaign, constraints=texts)
    now = dataclasses.replace(results, campaign=campaign, all_rows=kept)
    legal = _legal(now)
    left_out = counted(len(kept) - len(legal), "measurement")
    notices.append(
        f"The constraints of {spec.path} have changed since it was last tuned: {left_out} that "
        "they no longer allow are left out."
    )
    return dataclasses.replace(now, all_rows=legal), notices


def _allowed(
    rows: MeasurementRows, parameters: Mapping[str, Parameter]
) -> tuple[MeasurementRows, list[str]]:
    """Keep the rows whose values the space still has; also name the other settings."""
    table, configs = rows.columns.config_table, rows.of(rows.columns.configs.codes)
    is_gone, names = np.zeros(len(rows), dtype=np.bool_), list[str]()
    for name, values, codes in zip(table.names, table.values, table.codes.T, strict=True):
        if name not in parameters:
            continue
        gone = np.array([*(not parameters[name].allows(value) for value in values), False])
        here = codes[configs]  # -1, no value, is the last
        is_gone |= gone[here]
        names += [f"{name}={shown(values[code])}" for code in np.unique(here[gone[here]]).tolist()]
    return rows.where(~is_gone), names


def _legal(results: Results) -> MeasurementRows:
    """Keep the rows that the constraints allow."""
    applies = applies_where(map(Expression, results.constraints), results.limits)
    columns, rows = results.rows.columns, results.rows.selected.tolist()
    legal = [applies(columns.inputs.at(row), columns.configs.at(row)) for row in rows]
    return results.rows.where(np.array(legal, dtype=np.bool_))
