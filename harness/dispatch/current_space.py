"""Results under the space as it is now: its file may have changed since they were measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from harness.constraints.expression import Expression
from harness.core.records import Config, shown
from harness.core.text import counted
from harness.dispatch.candidates import applies_where
from harness.results import MeasurementRow
from harness.results.view import Results
from harness.space_file import Parameter, Spec


def in_current_space(results: Results, spec: Spec) -> tuple[Results, list[str]]:
    """Keep the results that the space allows as it is now, under its current constraints; also
    return notices of what is left out. The kernel must be the measured one."""
    parameters = {parameter.name: parameter for parameter in spec.parameters}
    configs = {row.measurement.config for row in results.rows}
    gone = {config: list(_gone(config, parameters)) for config in configs}
    kept = [row for row in results.rows if not gone[row.measurement.config]]
    notices = []
    if len(kept) < len(results.rows):
        left_out = counted(len(results.rows) - len(kept), "measurement")
        values = ", ".join(dict.fromkeys(text for texts in gone.values() for text in texts))
        notices.append(
            f"Left out: {left_out} with values that {spec.path} no longer has: {values}."
        )
    texts = tuple(constraint.expression.text for constraint in spec.constraints)
    if set(texts) == set(results.campaign.constraints):
        return dataclasses.replace(results, all_rows=tuple(kept)), notices
    campaign = dataclasses.replace(results.campaign, constraints=texts)
    now = dataclasses.replace(results, campaign=campaign, all_rows=tuple(kept))
    legal = tuple(_legal(now))
    left_out = counted(len(kept) - len(legal), "measurement")
    notices.append(
        f"The constraints of {spec.path} have changed since it was last tuned: {left_out} that "
        "they no longer allow are left out."
    )
    return dataclasses.replace(now, all_rows=legal), notices


def _gone(config: Config, parameters: Mapping[str, Parameter]) -> Iterator[str]:
    """Name the settings whose values the space no longer has."""
    for name, value in config.items():
        if name in parameters and not parameters[name].allows(value):
            yield f"{name}={shown(value)}"


def _legal(results: Results) -> Iterator[MeasurementRow]:
    applies = applies_where(map(Expression, results.constraints), results.limits)
    for row in results.rows:
        if applies(row.measurement.input, row.measurement.config):
            yield row
