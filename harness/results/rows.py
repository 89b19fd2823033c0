"""Turn records into rows of the plain tables; `harness.results.read` does the reverse."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from harness.core.records import ENVIRONMENT_FIELDS, Build, Environment, Measurement
from harness.results.gathering import measurement_cells
from harness.results.read import BUILD_COLUMNS
from harness.space_file import Parameter, Spec

Row = dict[str, object]


def measurement_row(m: Measurement) -> Row:
    """Return the row of a measurement, without what other tables hold."""
    timing = m.timing
    return {
        **measurement_cells(m),
        "median_s": timing.median_s if timing else None,
        "mean_s": timing.mean_s if timing else None,
        "std_s": timing.std_s if timing else None,
        "sample_count": timing.count if timing else None,
    }


def build_row(build: Build) -> Row:
    """Return the row of a build, without its environment and configuration."""
    return {name: getattr(build, name) for name in BUILD_COLUMNS}


def environment_row(environment: Environment) -> Row:
    """Return the row of an environment: the fields that separate measurements."""
    fields = dataclasses.asdict(environment)
    del fields["notes"]
    return fields


def environment_of(row: Mapping[str, Any]) -> Environment:
    """Return the environment of a row."""
    return Environment(**{name: row[name] for name in ENVIRONMENT_FIELDS})


def space_row(spec: Spec) -> Row:
    """Return the row of a space: its parameters and constraints, for other programs to read."""
    parameters = {
        p.name: {"kind": p.kind, "role": p.role, "default": p.default, "values": _values(p)}
        for p in spec.parameters
    }
    return {
        "program_sha256": spec.program_sha256,
        "name": spec.name,
        "title": spec.title,
        "parameters": parameters,
        "constraints": [constraint.expression.text for constraint in spec.constraints],
    }


def _values(parameter: Parameter) -> object:
    """Return a parameter's values as JSON data; a range by its ends and step."""
    values = parameter.values
    if isinstance(values, range):
        return {"min": values[0], "max": values[-1], "step": values.step}
    return list(values)
