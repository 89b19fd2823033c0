"""Import a database that OpenTuner made without harness: its record as rows of our tables.

Every result is a measurement with its one time, every input its features, every machine an
environment. What OpenTuner does not record stays empty: samples, builds, the reason of a failure,
whether an output was verified. A note of each run says where it comes from. The same record gives
the same uuids, so that it can be merged again after it has grown.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isfinite
from typing import Any

from harness.core.plain_pickle import PlainObject, load_compressed
from harness.core.records import (
    Config,
    Environment,
    Input,
    Measurement,
    Outcome,
    StopReason,
    Timing,
    Value,
    shown,
)
from harness.results import schema
from harness.results.notes import OPENTUNER
from harness.results.reader import Row, referred
from harness.results.writer import measurement_row

_UNKNOWN = "not recorded"
_OBSERVED = ("accuracy", "energy", "size", "confidence")
_NO_SIZE = -1
_MOST_VALUES = 10_000  # of a configuration
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

    def uuid(self, *parts: object) -> str:
        """Return the uuid of a row, the same whenever the record is read."""
        text = " ".join(map(str, (self.tuning_run["uuid"], *parts)))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def row(self, space_id: int) -> Row:
        """Return the row of the run."""
        args = _plain(self.tuning_run["args"])
        options = args.attributes if args else {}
        limit, parallelism = options.get("test_limit"), options.get("parallelism")
        techniques = options.get("technique") or [_UNKNOWN]
        objective = _plain(self.tuning_run["objective"])
        goal = objective.class_name.rpartition(".")[2] if objective else _UNKNOWN
        return {
            "id": self.id,
            "uuid": self.uuid("input", self.input_id, "machine", self.machine_id),
            "tuning_run_id": self.tuning_run["id"],
            "space_id": space_id,
            "environment_id": self.machine_id,
            "input_id": self.input_id,
            "campaign": 1,
            "label": self.tuning_run["name"] or "",
            "technique": ", ".join(map(str, techniques)),
            "seed": 0,
            "test_limit": limit if type(limit) is int and limit > 0 else len(self.results),
            "parallelism": parallelism if type(parallelism) is int and parallelism > 0 else 1,
            "state": _STATES.get(self.tuning_run["state"], "interrupted"),
            "started_at": _iso(self.tuning_run["start_date"]),
            "ended_at": _iso(self.tuning_run["end_date"] or self.results[-1]["collection_date"]),
            "harness_version": OPENTUNER,
            "seeds": [],
            "notes": {"record": OPENTUNER, "objective": goal},
        }


def _plain(data: bytes | None) -> PlainObject | None:
    value = load_compressed(data) if data else None
    return value if isinstance(value, PlainObject) else None


class _Import:
    def __init__(self, tables: Mapping[str, _RowsById]) -> None:
        self._tables = tables
        self._configs = {key: _config_of(row) for key, row in tables["configuration"].items()}
        self._inputs = {
            key: _features_of(row, self._row("input_class", row["input_class_id"]))
            for key, row in tables["input"].items()
        }
        self._requestors: dict[int, str] = {}
        for asked in tables["desired_result"].values():
            if asked["result_id"] is not None:
                self._requestors.setdefault(asked["result_id"], asked["requestor"] or _UNKNOWN)

    def rows(self) -> dict[str, list[Row]]:
        """Return the rows by table; those that OpenTuner has too keep its ids."""
        made: dict[str, list[Row]] = {name: [] for name in schema.metadata.tables}
        for row in self._tables["machine"].values():
            environment = _environment_of(row)
            own = {"id": row["id"], "fingerprint": environment.fingerprint}
            made["environments"].append(own | environment.compared)
        made["inputs"] = list(map(self._input, self._tables["input"].values()))
        made["configurations"] = [
            {"id": row_id, "digest": config.digest, "parameters": dict(config)}
            for row_id, config in self._configs.items()
        ]
        for space_id, (version_id, searches) in enumerate(self._searches(), 1):
            results = [row for search in searches for row in search.results]
            made["spaces"].append({"id": space_id, **self._space(version_id, results)})
            for search in searches:
                made["runs"].append(search.row(space_id))
                for ordinal, row in enumerate(search.results):
                    made["measurements"].append(self._measurement(search, row))
                    made["tests"].append(self._test(search, ordinal, row["id"]))
        return made

    def _row(self, table: str, row_id: int) -> Row:
        return referred(table, self._tables[table], row_id)

    def _config(self, result: Row) -> Config:
        return referred("configuration", self._configs, result["configuration_id"])

    def _searches(self) -> Iterable[tuple[int, list[_RecordedRun]]]:
        """Group the searches by version of a program and the names of its parameters."""
        by_search: dict[tuple[int, int, int], list[Row]] = {}
        for row in self._tables["result"].values():
            key = row["tuning_run_id"], row["input_id"], row["machine_id"]
            by_search.setdefault(key, []).append(row)
        spaces: dict[tuple[int, frozenset[str]], list[_RecordedRun]] = {}
        for number, ((run_id, input_id, machine_id), rows) in enumerate(by_search.items(), 1):
            run, names = self._row("tuning_run", run_id), frozenset(self._config(rows[0]))
            search = _RecordedRun(number, run, input_id, machine_id, rows)
            spaces.setdefault((run["program_version_id"], names), []).append(search)
        return ((version_id, searches) for (version_id, _), searches in spaces.items())

    def _input(self, row: Row) -> Row:
        input_class = self._row("input_class", row["input_class_id"])
        space_name = _name(self._row("program", input_class["program_id"]))
        problem = self._inputs[row["id"]]
        own = {"digest": problem.digest, "features": dict(problem)}
        return {"id": row["id"], "space_name": space_name, **own}

    def _program(self, version_id: int) -> Row:
        return self._row("program", self._row("program_version", version_id)["program_id"])

    def _space(self, version_id: int, results: Iterable[Row]) -> Row:
        version, program = self._row("program_version", version_id), self._program(version_id)
        asked = [(self._config(row), self._requestors.get(row["id"])) for row in results]
        seeds = (config for config, requestor in asked if requestor == "seed")
        default = next(seeds, asked[0][0])
        configs = dict.fromkeys(config for config, _ in asked)
        identity = [program["project"], program["name"], version["version"]]
        return {
            "sha256": _digest_of([*identity, sorted(default)]),
            "program_sha256": _digest_of(identity),
            "name": _name(program),
            "title": f"{_name(program)}, recorded by OpenTuner",
            "parameters": {
                name: _parameter_of([c[name] for c in configs if name in c], value)
                for name, value in default.items()
            },
            "constraints": [],
        }

    def _test(self, search: _RecordedRun, ordinal: int, row_id: int) -> Row:
        requestor = self._requestors.get(row_id, _UNKNOWN)
        ids = {"id": row_id, "result_id": row_id, "measurement_id": row_id, "run_id": search.id}
        return {**ids, "ordinal": ordinal, "requestor": requestor}

    def _measurement(self, search: _RecordedRun, result: Row) -> Row:
        problem = referred("input", self._inputs, search.input_id)
        return {
            "id": result["id"],
            "uuid": search.uuid("result", result["id"]),
            "run_id": search.id,
            "input_id": search.input_id,
            "configuration_id": result["configuration_id"],
            "build_id": None,
            "stage": "search",
            "measured_at": _iso(result["collection_date"]),
            "group_uuid": None,
            **measurement_row(_measurement_of(self._config(result), problem, result)),
        }


def _name(program: Row) -> str:
    return program["name"] or "unnamed"


# ---------------------------------------------------------------------------- the cells of a row


def _environment_of(machine: Row) -> Environment:
    """Return the environment of a machine; OpenTuner records neither driver nor compiler."""
    facts = [machine["name"], machine["cores"] and f"{machine['cores']} cores"]
    if machine["memory_gb"]:
        facts.append(f"{machine['memory_gb']:.0f} GB")
    device = machine["cpu"] or "unknown processor"
    return Environment(
        "opentuner", device, ", ".join(filter(None, facts)) or _UNKNOWN, _UNKNOWN, _UNKNOWN
    )


def _features_of(input_row: Row, input_class: Row) -> Input:
    """Return the features of an input: the size of its class, its path, and what `extra` holds.

    An input without all of these is known by the name of its class.
    """
    found: dict[str, Value] = {}
    if input_class["size"] not in (None, _NO_SIZE):
        found["size"] = input_class["size"]
    if input_row["path"]:
        found |= _features_of_path(input_row["path"])
    extra = load_compressed(input_row["extra"]) if input_row["extra"] else None
    if isinstance(extra, dict):
        found |= {str(name): value for name, value in extra.items() if _is_plain(value)}
    elif extra is not None and _is_plain(extra):
        found["extra"] = extra
    named = {_identifier(name): value for name, value in found.items()}
    return Input(named or {"input": input_class["name"] or "unnamed"})


def _features_of_path(path: str) -> Mapping[str, Value]:
    """Return the features that a path is the JSON of, as harness writes it, or else the path."""
    try:
        features = json.loads(path)
    except (ValueError, RecursionError):
        features = None
    if isinstance(features, dict) and features and all(map(_is_plain, features.values())):
        return features
    return {"path": path}


def _is_plain(value: object) -> bool:
    return type(value) in (bool, int, str) or (type(value) is float and isfinite(value))


def _measurement_of(config: Config, problem: Input, result: Row) -> Measurement:
    """Return a result as a measurement with one sample. A failure has no reason; where the state is
    OK but there is no time, the result counts as a crash."""
    state, time_s = result["state"], result["time"]
    numbers = {name: result[name] for name in _OBSERVED if result[name] is not None}
    observed = {name: float(number) for name, number in numbers.items() if isfinite(number)}
    cost_s = result["collection_cost"]
    wall_s = float(cost_s) if cost_s and isfinite(cost_s) else 0.0
    if state == "OK" and time_s is not None and isfinite(time_s) and time_s > 0:
        timing = Timing((float(time_s),), StopReason.RECORDED)
        return Measurement(config, problem, Outcome.OK, timing, wall_s=wall_s, observed=observed)
    outcome = Outcome.TIMEOUT if state == "TIMEOUT" else Outcome.CRASHED
    message = f"OpenTuner recorded {state or 'no state'}"
    message += f" with the time {time_s}" if state == "OK" else ""
    return Measurement(config, problem, outcome, message=message, wall_s=wall_s, observed=observed)


def _parameter_of(found: Iterable[Value], default: Value) -> dict[str, object]:
    """Describe a parameter by the values that were tried: OpenTuner records no ranges."""
    values = list({(type(value), value): value for value in found}.values())
    words = [value for value in values if type(value) not in (int, float)]
    numbers = sorted(value for value in values if type(value) in (int, float))  # type: ignore[type-var]
    kind = "enum" if words else "ordered"
    if words and all(type(value) is bool for value in values):
        kind = "boolean"
    ordered = [*sorted(words, key=shown), *numbers]
    return {"kind": kind, "role": "source", "default": default, "values": ordered}


def _digest_of(identity: object) -> str:
    """Return the SHA-256 of JSON data, hexadecimal."""
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()


def _iso(date: datetime) -> str:
    """Return a date as harness stores it. OpenTuner's have no time zone, and are taken for UTC."""
    return f"{date.isoformat(timespec='milliseconds')}+00:00"


def _config_of(row: Row) -> Config:
    """Read the configuration of a row of `configuration`. The elements of a list, such as the order
    of a permutation, become parameters of their own: `order_0`. Names are made identifiers, which
    generated code needs: `unroll-loops` becomes `unroll_loops`.

    Raises ValueError or TypeError for one that is no mapping from names to plain values.
    """
    data = load_compressed(row["data"])
    if not isinstance(data, dict) or not all(type(name) is str for name in data):
        raise ValueError(f"configuration {row['id']} is no mapping from names to values")
    values: dict[str, Value] = {}
    for name, value in _flat("", data):
        if _identifier(name) in values:
            raise ValueError(f"configuration {row['id']} has two values of {_identifier(name)}")
        values[_identifier(name)] = value
        if len(values) > _MOST_VALUES:
            raise ValueError(f"configuration {row['id']} has more than {_MOST_VALUES:,} values")
    try:
        return Config(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"configuration {row['id']}: {error}") from None


def _identifier(name: str) -> str:
    """Turn a name into an _identifier; a flag's dashes become underscores."""
    text = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"_{text}" if text[:1].isdigit() or not text else text


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _flat(f"{name}_{key}" if name else str(key), one)
    elif isinstance(value, (list, tuple)):
        for index, one in enumerate(value):
            yield from _flat(f"{name}_{index}", one)
    else:
        yield name, value
