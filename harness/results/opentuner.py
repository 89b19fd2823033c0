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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from math import inf, isfinite
from typing import Any

from pydantic import TypeAdapter, ValidationError

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
from harness.results.notes import OPENTUNER, Values
from harness.results.reader import Row
from harness.results.stock import NO_SIZE

_UNKNOWN = "not recorded"
_OBSERVED = ("accuracy", "energy", "size", "confidence")
_NO_INPUT = Input({})  # a row of `result` has it
_FEATURES = TypeAdapter[dict[str, Value]](Values)


def stock_rows(tables: Mapping[str, Mapping[int, Row]]) -> dict[str, list[Row]]:
    """Make the rows of our tables that extend those of OpenTuner's, which are given by table and
    id, and the rows to which these refer.

    A run without a result is not extended, since nothing says what it was run on. Raises
    ValueError, TypeError or LookupError where OpenTuner cannot have written a row.
    """
    made: dict[str, list[Row]] = {table.name: [] for table in schema.OURS}
    for row_id, machine in tables["machine"].items():
        environment = _environment_of(machine)
        row = environment.compared
        row["id"] = row_id
        row["fingerprint"] = environment.fingerprint
        made["environments"].append(row)
    for row_id, problem in tables["input"].items():
        features = _features_of(problem, tables["input_class"][problem["input_class_id"]])
        made["inputs"].append({"id": row_id, "features": features})
    configs: dict[int, Config] = {}
    for row_id, configuration in tables["configuration"].items():
        configs[row_id] = config = _config_of(configuration)
        row = {"id": row_id, "digest": config.digest, "parameters": dict(config)}
        made["configurations"].append(row)

    requestors: dict[int | None, str] = {}  # by result
    for asked in tables["desired_result"].values():
        requestors.setdefault(asked["result_id"], asked["requestor"])
    results_of: dict[int, list[Row]] = {}  # by run
    for result in tables["result"].values():
        results_of.setdefault(result["tuning_run_id"], []).append(result)
    runs_of: dict[tuple[int, frozenset[str]], list[Row]] = {}  # by version and names of parameters
    for run_id, results in results_of.items():
        run = tables["tuning_run"][run_id]
        names = frozenset(configs[results[0]["configuration_id"]])
        runs_of.setdefault((run["program_version_id"], names), []).append(run)

    for space_id, ((version_id, _), runs) in enumerate(runs_of.items(), 1):
        tests: list[Row] = []
        for run in runs:
            results = results_of[run["id"]]
            made["runs"].append(_run_row(run, results, space_id))
            for result in results:
                config = configs[result["configuration_id"]]
                made["measurements"].append(_measurement_row(run, result, config))
            tests += results
        version = tables["program_version"][version_id]
        program = tables["program"][version["program_id"]]
        seeds = [row for row in tests if requestors.get(row["id"]) == "seed"]
        tried = [configs[row["configuration_id"]] for row in chain(seeds, tests)]
        row = _space_row(program, version["version"], tried)
        row["id"] = space_id
        made["spaces"].append(row)
    return made


# --------------------------------------------------------------------------------- rows


def _run_row(run: Row, results: Sequence[Row], space_id: int) -> Row:
    """Return what extends a run."""
    machines = {result["machine_id"] for result in results}
    if len(machines) > 1:
        raise ValueError(
            f"tuning_run {run['id']} has results of {len(machines)} machines, whose times cannot "
            "be compared"
        )
    options = _plain(run["args"]).attributes
    objective = _plain(run["objective"])
    techniques = options.get("technique") or [_UNKNOWN]
    return {
        "id": run["id"],
        "space_id": space_id,
        "environment_id": machines.pop(),
        "input_id": results[0]["input_id"],
        "campaign": 1,
        "technique": ", ".join(map(str, techniques)),
        "seed": 0,
        "test_limit": options.get("test_limit") or len(results),
        "parallelism": options.get("parallelism") or 1,
        "harness_version": OPENTUNER,
        "seeds": [],
        "notes": {
            "record": OPENTUNER,
            "objective": objective.class_name.rpartition(".")[2],
            "continued_at": iso(results[-1]["collection_date"]),
        },
    }


def _plain(data: bytes | None) -> PlainObject:
    if not data:
        return PlainObject(_UNKNOWN)
    read: PlainObject = load_compressed(data)
    return read


def _space_row(program: Row, version: str, tried: Sequence[Config]) -> Row:
    """Describe a space by what was tried: OpenTuner records no ranges. The first configuration is
    the default."""
    name = program["name"] or "unnamed"
    default = tried[0]
    identity = [program["project"], program["name"], version]
    configs = dict.fromkeys(tried)
    parameters: dict[str, dict[str, object]] = {}
    for parameter, value in default.items():
        values = [config[parameter] for config in configs if parameter in config]
        parameters[parameter] = _parameter_of(values, value)
    return {
        "sha256": _digest_of([*identity, sorted(default)]),
        "program_sha256": _digest_of(identity),
        "name": name,
        "title": f"{name}, recorded by OpenTuner",
        "parameters": parameters,
        "constraints": [],
        "program_parts": {},
    }


def _parameter_of(tried: Iterable[Value], default: Value) -> dict[str, object]:
    distinct = {(type(value), value): value for value in tried}.values()
    numbers: list[float] = []
    words: list[Value] = []
    for value in distinct:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            numbers.append(value)
        else:
            words.append(value)
    kind = "enum" if words else "ordered"
    if words and all(isinstance(value, bool) for value in distinct):
        kind = "boolean"
    values = sorted(words, key=shown) + sorted(numbers)
    return {"kind": kind, "role": "source", "default": default, "values": values}


def _digest_of(identity: object) -> str:
    """Return the SHA-256 of JSON data, hexadecimal."""
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()


def _measurement_row(run: Row, result: Row, config: Config) -> Row:
    """Return what extends a result: a measurement with one sample. A failure has no reason; where
    the state is OK but there is no time, the result counts as a crash."""
    state = result["state"]
    time_s = result["time"]
    timing = None
    outcome = Outcome.CRASHED
    message = f"OpenTuner recorded {state or 'no state'}"
    if state == "TIMEOUT":
        outcome = Outcome.TIMEOUT
    elif state == "OK" and 0 < (time_s or 0) < inf:
        outcome = Outcome.OK
        timing = Timing((float(time_s),), StopReason.RECORDED)
        message = ""
    elif state == "OK":
        message += f" with the time {time_s}"
    observed: dict[str, float] = {}
    for name in _OBSERVED:
        if result[name] is not None and isfinite(result[name]):
            observed[name] = float(result[name])
    row = measurement_cells(
        Measurement(config, _NO_INPUT, outcome, timing, message=message, observed=observed)
    )
    identity = f"{run['uuid']} result {result['id']}"
    row["id"] = result["id"]
    row["uuid"] = hashlib.sha256(identity.encode()).hexdigest()[:32]
    row["stage"] = "search"
    return row


# ---------------------------------------------------------------------------- the cells of a row


def _environment_of(machine: Row) -> Environment:
    """Return the environment of a machine; OpenTuner records neither driver nor compiler."""
    facts = [machine["name"] or _UNKNOWN]
    if machine["cores"]:
        facts.append(f"{machine['cores']} cores")
    if machine["memory_gb"]:
        facts.append(f"{machine['memory_gb']:.0f} GB")
    device = machine["cpu"] or "unknown processor"
    return Environment("opentuner", device, ", ".join(facts), _UNKNOWN, _UNKNOWN)


def _features_of(input_row: Row, input_class: Row) -> dict[str, Value]:
    """Return the features of an input: its path where that is a JSON object of them; else the size
    of its class, its path, and what `extra` holds.

    An input without all of these is known by the name of its class.
    """
    path = input_row["path"]
    features: dict[str, Value] = {}
    with suppress(ValidationError):
        features = _FEATURES.validate_json(path or "")
    if not features:
        if input_class["size"] not in (None, NO_SIZE):
            features["size"] = input_class["size"]
        if path:
            features["path"] = path
        extra = load_compressed(input_row["extra"]) if input_row["extra"] else None
        if not isinstance(extra, dict):
            extra = {"extra": extra}
        for name, value in extra.items():
            if type(value) in (bool, int, str) or (type(value) is float and isfinite(value)):
                features[str(name)] = value
    if not features:
        features["input"] = input_class["name"] or "unnamed"
    return {_identifier(name): value for name, value in features.items()}


def _config_of(row: Row) -> Config:
    """Read the configuration of a row of `configuration`. The elements of a list, such as the order
    of a permutation, become parameters of their own: `order_0`. Names are made identifiers, which
    generated code needs: `unroll-loops` becomes `unroll_loops`.

    Raises ValueError for one that is no mapping from names to plain values.
    """
    data = load_compressed(row["data"])
    if not isinstance(data, dict):
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
    if isinstance(value, (list, tuple)):
        value = dict(enumerate(value))
    if not isinstance(value, dict):
        yield name, value
        return
    for key, inner in value.items():
        yield from _flat(f"{name}_{key}" if name else str(key), inner)
