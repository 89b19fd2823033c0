"""Extend the rows of a database that OpenTuner made without harness, so that it can be merged.

Every result is a measurement with its one time, every input its features, every machine an
environment. What OpenTuner does not record stays empty: samples, builds, the reason of a failure,
whether an output was verified. A note of each run says where it comes from. The same record gives
the same uuids, so that it can be merged again after it has grown.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
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
from harness.results.columns import measurement_cells
from harness.results.database import iso
from harness.results.notes import OPENTUNER
from harness.results.reader import Row, referred
from harness.results.stock import NO_SIZE

_UNKNOWN = "not recorded"
_OBSERVED = ("accuracy", "energy", "size", "confidence")
_NO_INPUT = Input({})  # a row of `result` has it

_RowsById = Mapping[int, Row]


def stock_rows(tables: Mapping[str, _RowsById]) -> dict[str, list[Row]]:
    """Make the rows of our tables that extend those of OpenTuner's, which are given by table and
    id, and the rows to which these refer.

    A run without a result is not extended, since nothing says what it was run on. Raises ValueError
    or TypeError where OpenTuner cannot have written a row.
    """
    return _Import(tables).rows()


class _Import:
    def __init__(self, tables: Mapping[str, _RowsById]) -> None:
        self._tables = tables
        self._configs = {key: _config_of(row) for key, row in tables["configuration"].items()}
        self._requestors: dict[int, str] = {}
        for asked in tables["desired_result"].values():
            if asked["result_id"] is not None:
                self._requestors.setdefault(asked["result_id"], asked["requestor"] or _UNKNOWN)
        self._results: dict[int, list[Row]] = {}  # by run
        for result in tables["result"].values():
            self._results.setdefault(result["tuning_run_id"], []).append(result)

    def rows(self) -> dict[str, list[Row]]:
        """Return the rows by table."""
        made: dict[str, list[Row]] = {table.name: [] for table in schema.OURS}
        for row_id, machine in self._tables["machine"].items():
            environment = _environment_of(machine)
            cells = {"fingerprint": environment.fingerprint, **environment.compared}
            made["environments"].append({"id": row_id, **cells})
        for row_id, config in self._configs.items():
            cells = {"digest": config.digest, "parameters": dict(config)}
            made["configurations"].append({"id": row_id, **cells})
        for row_id, row in self._tables["input"].items():
            features = _features_of(row, self._row("input_class", row["input_class_id"]))
            made["inputs"].append({"id": row_id, "features": features})
        for space_id, (version_id, run_ids) in enumerate(self._spaces(), 1):
            results = [row for run_id in run_ids for row in self._results[run_id]]
            made["spaces"].append({"id": space_id, **self._space(version_id, results)})
            made["runs"] += [self._run(run_id, space_id) for run_id in run_ids]
            made["measurements"] += map(self._measurement, results)
        return made

    def _row(self, table: str, row_id: int) -> Row:
        return referred(table, self._tables[table], row_id)

    def _config(self, result: Row) -> Config:
        return referred("configuration", self._configs, result["configuration_id"])

    def _spaces(self) -> Iterable[tuple[int, list[int]]]:
        """Group the runs by version of a program and the names of its parameters."""
        spaces: dict[tuple[int, frozenset[str]], list[int]] = {}
        for run_id, results in self._results.items():
            run, names = self._row("tuning_run", run_id), frozenset(self._config(results[0]))
            spaces.setdefault((run["program_version_id"], names), []).append(run_id)
        return ((version_id, run_ids) for (version_id, _), run_ids in spaces.items())

    def _run(self, run_id: int, space_id: int) -> Row:
        """Return what extends a run."""
        run, results = self._row("tuning_run", run_id), self._results[run_id]
        machines = {result["machine_id"] for result in results}
        if len(machines) > 1:
            raise ValueError(
                f"tuning_run {run_id} has results of {len(machines)} machines, whose times "
                "cannot be compared"
            )
        (machine_id,) = machines
        args = _plain(run["args"])
        options = args.attributes if args else {}
        limit, parallelism = options.get("test_limit"), options.get("parallelism")
        techniques = options.get("technique") or [_UNKNOWN]
        objective = _plain(run["objective"])
        goal = objective.class_name.rpartition(".")[2] if objective else _UNKNOWN
        last_at = iso(results[-1]["collection_date"])
        return {
            "id": run_id,
            "space_id": space_id,
            "environment_id": machine_id,
            "input_id": results[0]["input_id"],
            "campaign": 1,
            "technique": ", ".join(map(str, techniques)),
            "seed": 0,
            "test_limit": limit if type(limit) is int and limit > 0 else len(results),
            "parallelism": parallelism if type(parallelism) is int and parallelism > 0 else 1,
            "harness_version": OPENTUNER,
            "seeds": [],
            "notes": {"record": OPENTUNER, "objective": goal, "continued_at": last_at},
        }

    def _space(self, version_id: int, results: Iterable[Row]) -> Row:
        version = self._row("program_version", version_id)
        program = self._row("program", version["program_id"])
        name = program["name"] or "unnamed"
        asked = [(self._config(row), self._requestors.get(row["id"])) for row in results]
        seeds = (config for config, requestor in asked if requestor == "seed")
        default = next(seeds, asked[0][0])
        configs = dict.fromkeys(config for config, _ in asked)
        identity = [program["project"], program["name"], version["version"]]
        return {
            "sha256": _digest_of([*identity, sorted(default)]),
            "program_sha256": _digest_of(identity),
            "name": name,
            "title": f"{name}, recorded by OpenTuner",
            "parameters": {
                name: _parameter_of([c[name] for c in configs if name in c], value)
                for name, value in default.items()
            },
            "constraints": [],
            "program_parts": {},
        }

    def _measurement(self, result: Row) -> Row:
        """Return what extends a result."""
        run = self._row("tuning_run", result["tuning_run_id"])
        identity = f"{run['uuid']} result {result['id']}"
        return {
            "id": result["id"],
            "uuid": hashlib.sha256(identity.encode()).hexdigest()[:32],
            "build_id": None,
            "stage": "search",
            "group_uuid": None,
            **measurement_cells(_measurement_of(self._config(result), result)),
        }


def _plain(data: bytes | None) -> PlainObject | None:
    value = load_compressed(data) if data else None
    return value if isinstance(value, PlainObject) else None


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


def _features_of(input_row: Row, input_class: Row) -> dict[str, Value]:
    """Return the features of an input: its path where that is a JSON object of them; else the size
    of its class, its path, and what `extra` holds.

    An input without all of these is known by the name of its class.
    """
    features = _json_features(input_row["path"] or "")
    if features:
        return features
    if input_class["size"] not in (None, NO_SIZE):
        features["size"] = input_class["size"]
    if input_row["path"]:
        features["path"] = input_row["path"]
    extra = load_compressed(input_row["extra"]) if input_row["extra"] else None
    if isinstance(extra, dict):
        for name, value in extra.items():
            if _is_plain(value):
                features[_identifier(str(name))] = value
    elif extra is not None and _is_plain(extra):
        features["extra"] = extra
    return features or {"input": input_class["name"] or "unnamed"}


def _json_features(path: str) -> dict[str, Value]:
    """Return the features in a path that is a JSON object of plain values; empty for another."""
    try:
        features = json.loads(path)
    except (ValueError, RecursionError):
        return {}
    is_plain = isinstance(features, dict) and all(
        value is None or _is_plain(value) for value in features.values()
    )
    return {_identifier(name): features[name] for name in (features if is_plain else ())}


def _is_plain(value: object) -> bool:
    return type(value) in (bool, int, str) or (type(value) is float and isfinite(value))


def _measurement_of(config: Config, result: Row) -> Measurement:
    """Return a result as a measurement with one sample. A failure has no reason; where the state is
    OK but there is no time, the result counts as a crash."""
    state, time_s = result["state"], result["time"]
    numbers = {name: result[name] for name in _OBSERVED if result[name] is not None}
    observed = {name: float(number) for name, number in numbers.items() if isfinite(number)}
    if state == "OK" and time_s is not None and isfinite(time_s) and time_s > 0:
        timing = Timing((float(time_s),), StopReason.RECORDED)
        return Measurement(config, _NO_INPUT, Outcome.OK, timing, observed=observed)
    outcome = Outcome.TIMEOUT if state == "TIMEOUT" else Outcome.CRASHED
    message = f"OpenTuner recorded {state or 'no state'}"
    message += f" with the time {time_s}" if state == "OK" else ""
    return Measurement(config, _NO_INPUT, outcome, message=message, observed=observed)


def _parameter_of(found: Iterable[Value], default: Value) -> dict[str, object]:
    """Describe a parameter by the values that were tried: OpenTuner records no ranges."""
    values = list({(type(value), value): value for value in found}.values())
    numbers = [value for value in values if type(value) in (int, float)]
    words = [value for value in values if type(value) not in (int, float)]
    kind = "enum" if words else "ordered"
    if words and all(type(value) is bool for value in values):
        kind = "boolean"
    ordered = [*sorted(words, key=shown), *sorted(numbers)]  # type: ignore[type-var]
    return {"kind": kind, "role": "source", "default": default, "values": ordered}


def _digest_of(identity: object) -> str:
    """Return the SHA-256 of JSON data, hexadecimal."""
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()


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
    try:
        return Config(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"configuration {row['id']}: {error}") from None


def _identifier(name: str) -> str:
    """Turn a name into an identifier; a flag's dashes become underscores."""
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
