"""What one row of OpenTuner's means in harness's words: an environment, an input, a measurement, a
parameter."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from math import isfinite
from typing import Any

from harness.core.plain_pickle import load_compressed
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

Row = Mapping[str, Any]

UNKNOWN = "not recorded"
_OUTCOMES = {"TIMEOUT": Outcome.TIMEOUT, "ERROR": Outcome.CRASHED}
_OBSERVED = ("accuracy", "energy", "size", "confidence")
_NO_SIZE = -1
_MOST_VALUES = 10_000  # of a configuration


def environment_of(machine: Row) -> Environment:
    """Return the environment of a machine; OpenTuner records neither driver nor compiler."""
    facts = [machine["name"], machine["cores"] and f"{machine['cores']} cores"]
    if machine["memory_gb"]:
        facts.append(f"{machine['memory_gb']:.0f} GB")
    device = machine["cpu"] or "unknown processor"
    return Environment(
        "opentuner", device, ", ".join(filter(None, facts)) or UNKNOWN, UNKNOWN, UNKNOWN
    )


def features_of(input_row: Row, input_class: Row) -> Input:
    """Return the features of an input: the size of its class, its path, and what `extra` holds.

    A path that is a JSON object of plain values, as harness writes it, is its features. An input
    without all of these is known by the name of its class.
    """
    found: dict[str, Value] = {}
    if input_class["size"] not in (None, _NO_SIZE):
        found["size"] = input_class["size"]
    path = input_row["path"]
    if path:
        stored = _object(path)
        found |= {"path": path} if stored is None else stored
    extra = load_compressed(input_row["extra"]) if input_row["extra"] else None
    if isinstance(extra, dict):
        found |= {str(name): value for name, value in extra.items() if _is_plain(value)}
    elif extra is not None and _is_plain(extra):
        found["extra"] = extra
    named = {identifier(name): value for name, value in found.items()}
    return Input(named or {"input": input_class["name"] or "unnamed"})


def _object(text: str) -> dict[str, Value] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and all(map(_is_plain, found.values())) else None


def _is_plain(value: object) -> bool:
    return type(value) in (bool, int, str) or (type(value) is float and isfinite(value))


def measurement_of(config: Config, problem: Input, result: Row) -> Measurement:
    """Return a result as a measurement with one sample. A failure has no reason; where the state is
    OK but there is no time, the result counts as a crash."""
    state, time_s = result["state"], result["time"]
    numbers = {name: result[name] for name in _OBSERVED if result[name] is not None}
    observed = {name: float(number) for name, number in numbers.items() if isfinite(number)}
    cost_s = result["collection_cost"] or 0.0
    wall_s = float(cost_s) if isfinite(cost_s) else 0.0
    if state == "OK" and time_s is not None and isfinite(time_s) and time_s > 0:
        timing = Timing((float(time_s),), StopReason.RECORDED)
        return Measurement(config, problem, Outcome.OK, timing, wall_s=wall_s, observed=observed)
    outcome = _OUTCOMES.get(state, Outcome.CRASHED)
    message = f"OpenTuner recorded {state or 'no state'}"
    message += f" with the time {time_s}" if outcome.value != "timeout" and state == "OK" else ""
    return Measurement(config, problem, outcome, message=message, wall_s=wall_s, observed=observed)


def parameter_of(found: Iterable[Value], default: Value) -> dict[str, object]:
    """Describe a parameter by the values that were tried: OpenTuner records no ranges."""
    values = list({(type(value), value): value for value in found}.values())
    words = [value for value in values if type(value) not in (int, float)]
    numbers = sorted(value for value in values if type(value) in (int, float))  # type: ignore[type-var]
    kind = "enum" if words else "ordered"
    if words and all(type(value) is bool for value in values):
        kind = "boolean"
    ordered = [*sorted(words, key=shown), *numbers]
    return {"kind": kind, "role": "source", "default": default, "values": ordered}


def digest_of(identity: object) -> str:
    """Return the SHA-256 of JSON data, hexadecimal."""
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()


def iso(date: datetime) -> str:
    """Return a date as harness stores it. OpenTuner's have no time zone, and are taken for UTC."""
    return f"{date.isoformat(timespec='milliseconds')}+00:00"


def config_of(row: Row) -> Config:
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
        if identifier(name) in values:
            raise ValueError(f"configuration {row['id']} has two values of {identifier(name)}")
        values[identifier(name)] = value
        if len(values) > _MOST_VALUES:
            raise ValueError(f"configuration {row['id']} has more than {_MOST_VALUES:,} values")
    try:
        return Config(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"configuration {row['id']}: {error}") from None


def identifier(name: str) -> str:
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
