"""Import a database that OpenTuner made without harness: its record as rows of our tables.

Every result is a measurement with its one time, every input its features, every machine an
environment. What OpenTuner does not record stays empty: samples, builds, the reason of a failure,
whether an output was verified. A note of each run says where it comes from. The same record gives
the same uuids, so that it can be merged again after it has grown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from harness.core.plain_pickle import PlainObject, load_compressed
from harness.core.records import Config
from harness.results import schema
from harness.results.keyed_rows import environment_row, measurement_row
from harness.results.notes import LOST, OPENTUNER
from harness.results.opentuner_values import (
    UNKNOWN,
    config_of,
    digest_of,
    environment_of,
    features_of,
    iso,
    measurement_of,
    parameter_of,
)
from harness.results.reader import Row, referred

_EPOCH = datetime(1970, 1, 1)
_STATES = {"COMPLETE": "complete", "RUNNING": "running"}

_RowsById = Mapping[int, Row]


def stock_rows(tables: Mapping[str, _RowsById]) -> dict[str, list[Row]]:
    """Make the rows of our tables from those of OpenTuner's, by table and id.

    Raises ValueError or TypeError where OpenTuner cannot have written a row.
    """
    return _Import(tables).rows()


@dataclass(frozen=True)
class _RecordedRun:
    """The results of one of OpenTuner's runs on one input and one machine."""

    id: int
    tuning_run: Row
    input_id: int
    machine_id: int
    results: Sequence[Row]

    @property
    def began(self) -> datetime:
        """When it began."""
        began: datetime = self.tuning_run["start_date"] or min(self._dates, default=_EPOCH)
        return began

    @property
    def _dates(self) -> list[datetime]:
        return [row["collection_date"] for row in self.results if row["collection_date"]]

    def uuid(self, *parts: object) -> str:
        """Return the uuid of a row, the same whenever the record is read."""
        text = " ".join(map(str, (self.tuning_run["uuid"], *parts)))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def row(self, space_id: int, record: str) -> Row:
        """Return the row of the run."""
        args = _plain(self.tuning_run["args"])
        options = args.attributes if args else {}
        techniques, limit, parallelism = map(options.get, _OPTIONS)
        objective = _plain(self.tuning_run["objective"])
        goal = objective.class_name.rpartition(".")[2] if objective else UNKNOWN
        return {
            "id": self.id,
            "uuid": self.uuid("input", self.input_id, "machine", self.machine_id),
            "tuning_run_id": self.tuning_run["id"],
            "space_id": space_id,
            "environment_id": self.machine_id,
            "input_id": self.input_id,
            "campaign": 1,
            "label": self.tuning_run["name"] or "",
            "technique": ", ".join(map(str, techniques)) if techniques else UNKNOWN,
            "seed": 0,
            "test_limit": limit if type(limit) is int and limit > 0 else len(self.results),
            "parallelism": parallelism if type(parallelism) is int and parallelism > 0 else 1,
            "state": _STATES.get(self.tuning_run["state"], "interrupted"),
            "started_at": iso(self.began),
            "ended_at": iso(self.tuning_run["end_date"] or max(self._dates, default=self.began)),
            "harness_version": OPENTUNER,
            "seeds": [],
            "notes": {"record": record, "objective": goal},
        }


_OPTIONS = ("technique", "test_limit", "parallelism")


def _plain(data: bytes | None) -> PlainObject | None:
    found = load_compressed(data) if data else None
    return found if isinstance(found, PlainObject) else None


class _Import:
    def __init__(self, tables: Mapping[str, _RowsById]) -> None:
        self._tables = tables
        self._configs = {key: config_of(row) for key, row in tables["configuration"].items()}
        self._requestors: dict[int, str] = {}
        for asked in tables["desired_result"].values():
            if asked["result_id"] is not None:
                self._requestors.setdefault(asked["result_id"], asked["requestor"] or UNKNOWN)

    def rows(self) -> dict[str, list[Row]]:
        """Return the rows by table; those that OpenTuner has too keep its ids."""
        made: dict[str, list[Row]] = {name: [] for name in schema.metadata.tables}
        for row in self._tables["machine"].values():
            environment = environment_of(row)
            own = {"id": row["id"], "fingerprint": environment.fingerprint}
            made["environments"].append(own | environment_row(environment))
        made["inputs"] = list(map(self._input, self._tables["input"].values()))
        made["configurations"] = [
            {"id": row_id, "digest": config.digest, "parameters": dict(config)}
            for row_id, config in self._configs.items()
        ]
        searches = self._searches()
        keys = [self._space_key(search) for search in searches]
        space_ids = {key: number for number, key in enumerate(dict.fromkeys(keys), 1)}
        for key, space_id in space_ids.items():
            own_searches = (s for s, own in zip(searches, keys, strict=True) if own == key)
            results = [row for search in own_searches for row in search.results]
            made["spaces"].append({"id": space_id, **self._space(key[0], results)})
        for search, key in zip(searches, keys, strict=True):
            program = self._program(search.tuning_run["program_version_id"])
            record = LOST if program["project"] == "harness" else OPENTUNER
            made["runs"].append(search.row(space_ids[key], record))
            made["measurements"] += (self._measurement(search, row) for row in search.results)
            made["tests"] += (
                {
                    "id": row["id"],
                    "result_id": row["id"],
                    "run_id": search.id,
                    "measurement_id": row["id"],
                    "ordinal": ordinal,
                    "requestor": self._requestors.get(row["id"], UNKNOWN),
                }
                for ordinal, row in enumerate(search.results)
            )
        return made

    def _row(self, table: str, row_id: int) -> Row:
        return referred(table, self._tables[table], row_id)

    def _config(self, result: Row) -> Config:
        return referred("configuration", self._configs, result["configuration_id"])

    def _searches(self) -> list[_RecordedRun]:
        found: dict[tuple[Any, ...], list[Row]] = {}
        for row in self._tables["result"].values():
            key = row["tuning_run_id"], row["input_id"], row["machine_id"]
            found.setdefault(key, []).append(row)
        return [
            _RecordedRun(number, self._row("tuning_run", run_id), input_id, machine_id, results)
            for number, ((run_id, input_id, machine_id), results) in enumerate(found.items(), 1)
        ]

    def _input(self, row: Row) -> Row:
        input_class = self._row("input_class", row["input_class_id"])
        problem = features_of(row, input_class)
        space_name = _name(self._row("program", input_class["program_id"]))
        own = {"id": row["id"], "space_name": space_name}
        return own | {"digest": problem.digest, "features": dict(problem)}

    def _program(self, version_id: int) -> Row:
        return self._row("program", self._row("program_version", version_id)["program_id"])

    def _space_key(self, search: _RecordedRun) -> tuple[int, frozenset[str]]:
        """Return a version of a program, and the names of its parameters."""
        return search.tuning_run["program_version_id"], frozenset(self._config(search.results[0]))

    def _space(self, version_id: int, results: Iterable[Row]) -> Row:
        version, program = self._row("program_version", version_id), self._program(version_id)
        asked = [(self._config(row), self._requestors.get(row["id"])) for row in results]
        seeds = (config for config, requestor in asked if requestor == "seed")
        default = next(seeds, asked[0][0])
        configs = dict.fromkeys(config for config, _ in asked)
        identity = [program["project"], program["name"], version["version"]]
        return {
            "sha256": digest_of([*identity, sorted(default)]),
            "program_sha256": digest_of(identity),
            "name": _name(program),
            "title": f"{_name(program)}, recorded by OpenTuner",
            "parameters": {
                name: parameter_of([c[name] for c in configs if name in c], value)
                for name, value in default.items()
            },
            "constraints": [],
        }

    def _measurement(self, search: _RecordedRun, result: Row) -> Row:
        problem = features_of(
            self._row("input", search.input_id),
            self._row("input_class", self._row("input", search.input_id)["input_class_id"]),
        )
        return {
            "id": result["id"],
            "uuid": search.uuid("result", result["id"]),
            "run_id": search.id,
            "input_id": search.input_id,
            "configuration_id": result["configuration_id"],
            "build_id": None,
            "stage": "search",
            "measured_at": iso(result["collection_date"] or search.began),
            "group_uuid": None,
            **measurement_row(measurement_of(self._config(result), problem, result)),
        }


def _name(program: Row) -> str:
    return program["name"] or "unnamed"
