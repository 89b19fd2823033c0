"""Turn records into rows of the plain tables; `harness.results.read` does the reverse."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

from harness.core.records import ENVIRONMENT_FIELDS, Build, Environment, Measurement
from harness.results.cells import BUILD_COLUMNS
from harness.space_file import Parameter, Spec

Row = dict[str, object]


def measurement_row(m: Measurement) -> Row:
    """Return the row of a measurement, without what other tables hold."""
    timing = m.timing
    return {
        "outcome": m.outcome.value,
        "median_s": timing.median_s if timing else None,
        "mean_s": timing.mean_s if timing else None,
        "std_s": timing.std_s if timing else None,
        "sample_count": timing.count if timing else None,
        "stopped": timing.stopped.value if timing else None,
        "message": m.message,
        "worst_element": _finite(dataclasses.asdict(m.worst)) if m.worst else None,
        "warmup_s": list(m.warmup_s),
        "wall_s": m.wall_s,
        "host_read": None if m.host_read is None else list(m.host_read),
        "shared_with": m.shared_with,
        "occasions": list(timing.occasions) if timing and timing.occasions else None,
    }


def sample_rows(measurement_id: int, m: Measurement) -> Iterator[Row]:
    """Yield the rows of a measurement's samples."""
    for ordinal, time_s in enumerate(m.timing.samples_s if m.timing else ()):
        yield {"measurement_id": measurement_id, "ordinal": ordinal, "time_s": time_s}


def observation_rows(measurement_id: int, m: Measurement) -> Iterator[Row]:
    """Yield the rows of a measurement's observations."""
    for name, value in m.observed.items():
        yield {"measurement_id": measurement_id, "name": name, "value": float(value)}


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


def _finite(values: Mapping[str, Any]) -> dict[str, Any]:
    """Write NaN and infinity as text, since JSON has neither."""
    return {
        name: str(v) if isinstance(v, float) and not math.isfinite(v) else v
        for name, v in values.items()
    }
