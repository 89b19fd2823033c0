"""Read a database that OpenTuner made without harness.

OpenTuner's record becomes rows of our tables, in memory: every result a measurement with its one
time, every input its features, every machine an environment. What OpenTuner does not record stays
empty: samples, builds, the reason of a failure, whether an output was verified. A note of each run
says where it comes from. The same record gives the same uuids, so that it can be merged again after
it has grown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from sqlalchemy import Connection, Table

from harness.core.plain_pickle import PlainObject, load_compressed
from harness.core.records import Config, Input
from harness.results import opentuner_tables as opentuner
from harness.results import schema
from harness.results.inserting import insert_missing, insert_returning_ids, insert_rows
from harness.results.notes import LOST, OBJECTIVE, OPENTUNER, RECORD
from harness.results.opentuner_rows import Row, config_of, read_opentuner
from harness.results.reader import referred
from harness.results.rows import environment_row, measurement_row
from harness.results.stock_values import (
    UNKNOWN,
    digest_of,
    environment_of,
    features_of,
    iso,
    measurement_of,
    parameter_of,
)
from harness.results.tables import make_tables

_EPOCH = datetime(1970, 1, 1)
_STATES = {"COMPLETE": "complete", "RUNNING": "running"}
_SpaceKey = tuple[int, frozenset[str]]
"""A version of a program, and the names of its parameters."""


def is_stock(tables: Collection[str]) -> bool:
    """Whether a database with these tables has OpenTuner's and none of ours."""
    return opentuner.metadata.tables.keys() <= set(tables) and not (
        schema.metadata.tables.keys() & set(tables)
    )


def read_stock(source: Connection, target: Connection) -> None:
    """Copy OpenTuner's tables to an empty database, and fill our tables from them.

    Raises ValueError, TypeError or UnsafePickle where OpenTuner cannot have written a row.
    """
    make_tables(target, opentuner.metadata)
    make_tables(target, schema.metadata)
    target.execute(schema.schema_version.insert().values(version=schema.VERSION))
    tables: dict[str, dict[int, Row]] = {}
    for table in opentuner.metadata.sorted_tables:
        rows = list(read_opentuner(source, table))
        insert_rows(target, table, rows)
        tables[table.name] = {row["id"]: row for row in rows}
    _Filling(tables, target).run()


@dataclass
class _Results:
    """The results of one of OpenTuner's runs on one input and one machine."""

    tuning_run: Row
    input_id: int
    machine_id: int
    rows: list[Row] = field(default_factory=list)

    @cached_property
    def arguments(self) -> Mapping[str, Any]:
        """The options of the command that made the run."""
        args = load_compressed(self.tuning_run["args"]) if self.tuning_run["args"] else None
        return args.attributes if isinstance(args, PlainObject) else {}

    @property
    def objective(self) -> str:
        """The name of the objective."""
        stored = self.tuning_run["objective"]
        objective = load_compressed(stored) if stored else None
        if not isinstance(objective, PlainObject):
            return UNKNOWN
        return objective.class_name.rpartition(".")[2]

    @cached_property
    def began(self) -> datetime:
        """When the run began."""
        dates = [row["collection_date"] for row in self.rows if row["collection_date"]]
        began: datetime = self.tuning_run["start_date"] or min(dates, default=_EPOCH)
        return began

    def uuid(self, *parts: object) -> str:
        """Return the uuid of a row, the same whenever the record is read."""
        text = " ".join(map(str, (self.tuning_run["uuid"], *parts)))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def row(self) -> Row:
        """Return the row of the run, without what other tables hold."""
        technique = self.arguments.get("technique")
        dates = [row["collection_date"] for row in self.rows if row["collection_date"]]
        return {
            "uuid": self.uuid("input", self.input_id, "machine", self.machine_id),
            "tuning_run_id": self.tuning_run["id"],
            "campaign": 1,
            "label": self.tuning_run["name"] or "",
            "technique": ", ".join(map(str, technique)) if technique else UNKNOWN,
            "seed": 0,
            "test_limit": self._number("test_limit") or len(self.rows),
            "parallelism": self._number("parallelism") or 1,
            "state": _STATES.get(self.tuning_run["state"], "interrupted"),
            "started_at": iso(self.began),
            "ended_at": iso(self.tuning_run["end_date"] or max(dates, default=self.began)),
            "harness_version": OPENTUNER,
            "seeds": [],
            "notes": {RECORD: OPENTUNER, OBJECTIVE: self.objective},
        }

    def _number(self, name: str) -> int:
        found = self.arguments.get(name)
        return found if type(found) is int and found > 0 else 0


class _Filling:
    """Fills our tables from OpenTuner's rows, by table and id."""

    def __init__(self, tables: Mapping[str, Mapping[int, Row]], target: Connection) -> None:
        self._tables, self._target = tables, target
        self._configs = {key: config_of(row) for key, row in tables["configuration"].items()}
        self._requestors: dict[int, str] = {}
        for asked in tables["desired_result"].values():
            if asked["result_id"] is not None:
                self._requestors.setdefault(asked["result_id"], asked["requestor"] or UNKNOWN)
        self._found: dict[tuple[Any, ...], _Results] = {}
        for row in tables["result"].values():
            key = row["tuning_run_id"], row["input_id"], row["machine_id"]
            own = self._found.setdefault(key, _Results(self._row("tuning_run", key[0]), *key[1:]))
            own.rows.append(row)

    def run(self) -> None:
        """Add spaces, then each run with its results."""
        spaces = self._spaces()
        for found in self._found.values():
            self._add_run(found, spaces[self._space_key(found)])

    def _row(self, table: str, row_id: int) -> Row:
        return referred(opentuner.metadata.tables[table], self._tables[table], row_id)

    def _config(self, result: Row) -> Config:
        return referred(opentuner.configuration, self._configs, result["configuration_id"])

    # ---------------------------------------------------------------- spaces

    def _spaces(self) -> dict[_SpaceKey, int]:
        """Add a space for each set of parameters of each version of a program."""
        of_space: dict[_SpaceKey, list[Row]] = {}
        for found in self._found.values():
            of_space.setdefault(self._space_key(found), []).extend(found.rows)
        rows = [self._space_row(key, results) for key, results in of_space.items()]
        return dict(
            zip(of_space, insert_returning_ids(self._target, schema.spaces, rows), strict=True)
        )

    def _space_key(self, found: _Results) -> _SpaceKey:
        return found.tuning_run["program_version_id"], frozenset(self._config(found.rows[0]))

    def _space_row(self, key: _SpaceKey, results: Sequence[Row]) -> Row:
        version = self._row("program_version", key[0])
        program = self._row("program", version["program_id"])
        seeds = (self._config(r) for r in results if self._requestors.get(r["id"]) == "seed")
        default = next(seeds, self._config(results[0]))
        configs = dict.fromkeys(map(self._config, results))
        identity = [program["project"], program["name"], version["version"]]
        return {
            "sha256": digest_of([*identity, sorted(default)]),
            "program_sha256": digest_of(identity),
            "name": _program_name(program),
            "title": f"{_program_name(program)}, recorded by OpenTuner",
            "parameters": {
                name: parameter_of([c[name] for c in configs if name in c], value)
                for name, value in default.items()
            },
            "constraints": [],
        }

    # ------------------------------------------------------------------ runs

    def _add_run(self, found: _Results, space_id: int) -> None:
        input_row = self._row("input", found.input_id)
        input_class = self._row("input_class", input_row["input_class_id"])
        problem = features_of(input_row, input_class)
        program = self._row("program", input_class["program_id"])
        environment = environment_of(self._row("machine", found.machine_id))
        machine = {"fingerprint": environment.fingerprint, **environment_row(environment)}
        features = {"digest": problem.digest, "features": dict(problem)}
        ids = {
            "space_id": space_id,
            "environment_id": self._keyed(schema.environments, machine),
            "input_id": self._keyed(
                schema.inputs, {"space_name": _program_name(program), **features}
            ),
        }
        row = found.row()
        if program["project"] == "harness":
            row["notes"][RECORD] = LOST
        (run_id,) = insert_returning_ids(self._target, schema.runs, [{**ids, **row}])
        self._add_results(found, problem, {"run_id": run_id, "input_id": ids["input_id"]})

    def _add_results(self, found: _Results, problem: Input, ids: Mapping[str, int]) -> None:
        made = [measurement_of(self._config(row), problem, row) for row in found.rows]
        configurations = self._configuration_ids([m.config for m in made])
        rows = [
            {
                **ids,
                "uuid": found.uuid("result", row["id"]),
                "configuration_id": configurations[m.config],
                "stage": "search",
                "measured_at": iso(row["collection_date"] or found.began),
                **measurement_row(m),
            }
            for row, m in zip(found.rows, made, strict=True)
        ]
        added = insert_returning_ids(self._target, schema.measurements, rows)
        pairs = enumerate(zip(found.rows, added, strict=True))
        tests = [
            {
                "result_id": row["id"],
                "run_id": ids["run_id"],
                "measurement_id": measurement_id,
                "ordinal": ordinal,
                "requestor": self._requestors.get(row["id"], UNKNOWN),
            }
            for ordinal, (row, measurement_id) in pairs
        ]
        insert_rows(self._target, schema.tests, tests)

    def _configuration_ids(self, configs: Sequence[Config]) -> dict[Config, int]:
        distinct = list(dict.fromkeys(configs))
        rows = [{"digest": config.digest, "parameters": dict(config)} for config in distinct]
        ids = insert_missing(self._target, schema.configurations, rows)
        return dict(zip(distinct, ids, strict=True))

    def _keyed(self, table: Table, row: Row) -> int:
        (row_id,) = insert_missing(self._target, table, [row])
        return row_id


def _program_name(program: Row) -> str:
    return program["name"] or "unnamed"
