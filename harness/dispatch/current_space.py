"""Results as the space's file now has them, which may have been edited since they were measured."""

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


def as_now(results: Results, spec: Spec) -> tuple[Results, list[str]]:
    """The results that the space allows as it is, under its own constraints; and what a person
    has to know of the rest, in sentences. The kernel is the one that was measured."""
    parameters = {parameter.name: parameter for parameter in spec.parameters}
    configs = {row.measurement.config for row in results.rows}
    gone = {config: list(_gone(config, parameters)) for config in configs}
    kept = [row for row in results.rows if not gone[row.measurement.config]]
    told = []
    if len(kept) < len(results.rows):
        left_out = counted(len(results.rows) - len(kept), "measurement")
        values = ", ".join(dict.fromkeys(text for texts in gone.values() for text in texts))
        told.append(f"Left out: {left_out} with values that {spec.path} no longer has: {values}.")
    texts = tuple(constraint.expression.text for constraint in spec.constraints)
    if set(texts) == set(results.campaign.constraints):
        return dataclasses.replace(results, all_rows=tuple(kept)), told
    campaign = dataclasses.replace(results.campaign, constraints=texts)
    now = dataclasses.replace(results, campaign=campaign, all_rows=tuple(kept))
    legal = tuple(_legal(now))
    left_out = counted(len(kept) - len(legal), "measurement")
    told.append(
        f"The constraints of {spec.path} were others when it was tuned last: {left_out} that they "
        "do not allow are left out."
    )
    return dataclasses.replace(now, all_rows=legal), told


def _gone(config: Config, parameters: Mapping[str, Parameter]) -> Iterator[str]:
    for name, value in config.items():
        if name in parameters and not parameters[name].allows(value):
            yield f"{name}={shown(value)}"


def _legal(results: Results) -> Iterator[MeasurementRow]:
    applies = applies_where(map(Expression, results.constraints), results.limits)
    for row in results.rows:
        if applies(row.measurement.input, row.measurement.config):
            yield row
