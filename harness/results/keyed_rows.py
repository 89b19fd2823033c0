"""Turn records into rows; those to which many others refer are added once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, Table

from harness.core.records import Build, Config, Environment, Input, Measurement
from harness.results import schema
from harness.results.gathering import measurement_cells
from harness.results.inserting import NATURAL_KEYS, NaturalKey, insert_missing
from harness.results.read import BUILD_COLUMNS
from harness.space_file import Parameter, Spec


class KeyedRows:
    """The ids of rows by natural key, looked up once and then remembered."""

    def __init__(self, connection: Callable[[], Connection]) -> None:
        self._connection = connection
        self._ids: dict[tuple[str, NaturalKey], int] = {}

    def forget(self) -> None:
        """Forget all ids, after a rollback may have removed rows."""
        self._ids.clear()

    def input_id(self, space_name: str, problem: Input) -> int:
        """Return the id of an input's row."""
        key = (space_name, problem.digest)
        return self._row(schema.inputs, key, lambda: {"features": dict(problem)})

    def space_id(self, spec: Spec) -> int:
        """Return the id of the current space's row."""
        return self._row(schema.spaces, (spec.name, spec.space_sha256), lambda: space_row(spec))

    def environment_id(self, environment: Environment) -> int:
        """Return the id of an environment's row."""
        key = (environment.fingerprint,)
        return self._row(schema.environments, key, lambda: environment_row(environment))

    def configuration_ids(self, configs: Sequence[Config]) -> list[int]:
        """Return the ids of the configurations' rows, in order."""
        keys = [(config.digest,) for config in configs]
        return self._rows(
            schema.configurations, keys, lambda index: {"parameters": dict(configs[index])}
        )

    def build_id(self, build: Build, environment: Environment, configuration_id: int) -> int:
        """Return the id of a build's row."""
        key = (self.environment_id(environment), build.key)
        others = {"configuration_id": configuration_id}
        return self._row(schema.builds, key, lambda: others | _build_row(build))

    def _row(self, table: Table, key: NaturalKey, others: Callable[[], dict[str, object]]) -> int:
        """Return the id of the row with this key; add it with the other values if it is missing."""
        (row_id,) = self._rows(table, [key], lambda _: others())
        return row_id

    def _rows(
        self,
        table: Table,
        keys: Sequence[NaturalKey],
        others: Callable[[int], dict[str, object]],
    ) -> list[int]:
        """Return the ids of the rows with these keys; `others` gives a new row's other values by
        the index of its key."""
        names, known = NATURAL_KEYS[table], self._ids
        new = {key: index for index, key in enumerate(keys) if (table.name, key) not in known}
        rows = [dict(zip(names, key, strict=True)) | others(index) for key, index in new.items()]
        ids = insert_missing(self._connection(), table, rows)
        known |= {(table.name, key): row_id for key, row_id in zip(new, ids, strict=True)}
        return [known[table.name, key] for key in keys]


def measurement_row(m: Measurement) -> dict[str, Any]:
    """Return the row of a measurement, without what other tables hold."""
    timing = m.timing
    return {
        **measurement_cells(m),
        "median_s": timing.median_s if timing else None,
        "mean_s": timing.mean_s if timing else None,
        "std_s": timing.std_s if timing else None,
        "sample_count": timing.count if timing else None,
    }


def _build_row(build: Build) -> dict[str, Any]:
    """Return the row of a build, without its environment and configuration."""
    return {name: getattr(build, name) for name in BUILD_COLUMNS}


def environment_row(environment: Environment) -> dict[str, Any]:
    """Return the row of an environment: the fields that separate measurements."""
    fields = dataclasses.asdict(environment)
    del fields["notes"]
    return fields


def space_row(spec: Spec) -> dict[str, Any]:
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
