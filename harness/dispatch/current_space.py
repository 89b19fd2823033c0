"""Results under the space as it is now: its file may have changed since they were measured."""

from __future__ import annotations

import dataclasses

import numpy as np

from harness.constraints.expression import Expression
from harness.core.text import counted
from harness.dispatch.candidates import applies_where
from harness.results import MeasurementRows
from harness.results.compatible import with_known_values
from harness.results.view import Results
from harness.space_file import Spec


def in_current_space(results: Results, spec: Spec) -> tuple[Results, list[str]]:
    """Keep the results that the space allows as it is now, under its current constraints; also
    return notices of what is left out. The kernel must be the measured one."""
    kept, gone = with_known_values(results.rows, {p.name: p.allows for p in spec.parameters})
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
    if len(legal) < len(kept):
        left_out = counted(len(kept) - len(legal), "measurement")
        notices.append(
            f"The constraints of {spec.path} have changed since it was last tuned: {left_out} "
            "that they no longer allow are left out."
        )
    return dataclasses.replace(now, all_rows=legal), notices


def _legal(results: Results) -> MeasurementRows:
    """Keep the rows that the constraints allow."""
    applies = applies_where(map(Expression, results.constraints), results.limits)
    columns, rows = results.rows.columns, results.rows.selected.tolist()
    legal = [applies(columns.inputs.at(row), columns.configs.at(row)) for row in rows]
    return results.rows.where(np.array(legal, dtype=np.bool_))
