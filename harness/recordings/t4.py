"""T4, the autotuning community's format of results (JSON, schema versions 1.0.0 and 1.1.0).

The schema has a place for neither inputs nor messages; what `harness.export` writes has them as
further properties, `input`, `outcome` and `message`, and in the metadata `backend` and `default`,
which other readers pass over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from harness import __version__
from harness.core.errors import RecordingError
from harness.core.records import Environment, Measurement, Outcome, Value
from harness.core.text import printable
from harness.recordings.builder import Builder
from harness.recordings.files import is_list, kind_of, printable_lines
from harness.recordings.kernel_tuner import Ended, ended, plain_value, samples_of
from harness.recordings.recorded import FACTS, Recorded

KIND = "T4 results"
SCHEMA_VERSION = "1.1.0"

UNITS: Mapping[str, float] = {
    "s": 1.0, "seconds": 1.0, "ms": 1e3, "milliseconds": 1e3,
    "us": 1e6, "microseconds": 1e6, "ns": 1e9, "nanoseconds": 1e9,
}  # fmt: skip
"""How many of a unit make a second."""

_INVALIDITY: Mapping[str, Outcome] = {
    "correct": Outcome.OK,
    "constraints": Outcome.LAUNCH_FAILED,  # it was proposed, and cost its search a test
    "compile": Outcome.BUILD_FAILED,
    "runtime": Outcome.LAUNCH_FAILED,
    "correctness": Outcome.WRONG_RESULT,
    "timeout": Outcome.TIMEOUT,
}
_WORDS: Mapping[Outcome, str] = {
    Outcome.OK: "correct",
    Outcome.ILLEGAL: "constraints",
    Outcome.BUILD_FAILED: "compile",
    Outcome.LAUNCH_FAILED: "runtime",
    Outcome.WRONG_RESULT: "correctness",
    Outcome.TIMEOUT: "timeout",
    Outcome.CRASHED: "runtime",
}
"""What is written; the outcome itself stands beside it, for those that share a word."""

_COMPUTE_API = {"cuda": "CUDA", "opencl": "OpenCL"}


def is_t4(data: Any) -> bool:
    """Whether JSON data has T4's shape."""
    return isinstance(data, dict) and "results" in data


# --------------------------------------------------------------------- reading


def read_t4(path: Path, data: Any, sha256: str) -> Recorded:
    """The recording of a T4 file; raises RecordingError with the result that does not fit."""
    metadata = data.get("metadata", {})
    if not isinstance(metadata, dict):
        raise RecordingError(f"{path}: metadata is {kind_of(metadata)}; it must be an object")
    results = data["results"]
    if not is_list(results) or not results:
        what = "an empty list" if is_list(results) else kind_of(results)
        raise RecordingError(f"{path}: results is {what}; it must be a list of results")
    builder: Builder | None = None
    names: list[str] = []
    features: list[str] = []
    for number, result in enumerate(results):
        try:
            config, given = _part(result, "configuration"), _part(result, "input", {})
            if builder is None:
                names, features = list(config), list(given)
                builder = Builder(path, features, names)
            values = [*_values(given, features), *_values(config, names)]
            outcome, samples_s, message = _ended(result, metadata)
        except ValueError as error:
            raise RecordingError(f"{path}: results[{number}]: {error}") from None
        builder.add([(type(v), v) for v in values], outcome, samples_s, message)
    assert builder is not None
    return builder.finish(
        lambda _name, cells: [value for _, value in cells],
        title=str(metadata.get("kernel", "unknown")),
        kind=KIND,
        device=str(metadata.get("device", "unknown")),
        sha256=sha256,
        facts=_facts(metadata),
        default=_default(path, metadata, names),
    )


def _facts(metadata: Mapping[str, Any]) -> dict[str, str]:
    """What is told of where it was measured; the backend of other writers is the interface."""
    told = {name: metadata.get(name) for name in FACTS}
    api = metadata.get("compute_api")
    if told["backend"] is None and isinstance(api, str):
        told["backend"] = api.lower()
    return {name: text for name, text in told.items() if isinstance(text, str)}


def _default(path: Path, metadata: Mapping[str, Any], names: Sequence[str]) -> dict[str, Value]:
    """The default that is told; nothing where none is."""
    try:
        default = _part(metadata, "default", {})
        return dict(zip(names, _values(default, names), strict=True)) if default else {}
    except ValueError as error:
        raise RecordingError(f"{path}: metadata: default: {error}") from None


_NEEDED = object()


def _part(result: Any, name: str, default: Any = _NEEDED) -> dict[str, Any]:
    if not isinstance(result, dict):
        raise ValueError(f"is {kind_of(result)}; it must be an object")
    found = result.get(name, default)
    if found is _NEEDED:
        raise ValueError(f"has no {name}")
    if not isinstance(found, dict):
        raise ValueError(f"{name} is {kind_of(found)}; it must be an object")
    return found


def _values(found: Mapping[str, Any], names: Sequence[str]) -> list[Value]:
    if found.keys() != set(names):
        there = printable(", ".join(found))
        raise ValueError(f"names {there}, but the first result {', '.join(names)}")
    return [plain_value(name, found[name]) for name in names]


def _ended(result: Mapping[str, Any], metadata: Mapping[str, Any]) -> Ended:
    invalidity = result.get("invalidity")
    if not isinstance(invalidity, str) or invalidity not in _INVALIDITY:
        what = "missing" if invalidity is None else kind_of(invalidity)
        raise ValueError(f"invalidity is {what}; there are {', '.join(_INVALIDITY)}")
    outcome = _INVALIDITY[invalidity]
    if outcome is Outcome.OK and result.get("correctness", 1) == 0:
        outcome = Outcome.WRONG_RESULT
    if outcome is not Outcome.OK:
        told = result.get("message")
        message = printable_lines(told) if isinstance(told, str) else ""
        message = message or f"{invalidity}, as recorded"
        return _finer(invalidity, outcome, result.get("outcome")), (), message
    times = _part(result, "times").get("runtimes")
    time, unit = _time(result)
    unit = unit or metadata.get("timeunit") or "milliseconds"
    if not isinstance(unit, str) or unit not in UNITS:
        raise ValueError(f"the unit of time is {kind_of(unit)}; there are {', '.join(UNITS)}")
    if time is not None:
        return ended(time, times, UNITS[unit])
    samples = samples_of(times)
    if not samples:
        raise ValueError("is correct, but has neither runtimes nor a measurement named time")
    return Outcome.OK, [sample / UNITS[unit] for sample in samples], ""


def _finer(invalidity: str, outcome: Outcome, told: Any) -> Outcome:
    """Our own word for an outcome, where it is there and goes with T4's."""
    known = (o for o, word in _WORDS.items() if word == invalidity and o.value == told)
    return next(known, outcome)


def _time(result: Mapping[str, Any]) -> tuple[Any, Any]:
    """The value and the unit of the measurement that is named time; None where there is none."""
    measurements = result.get("measurements", [])
    if not is_list(measurements):
        raise ValueError(f"measurements is {kind_of(measurements)}; it must be a list")
    for measurement in measurements:
        if isinstance(measurement, dict) and measurement.get("name") == "time":
            return measurement.get("value"), measurement.get("unit")
    return None, None


# --------------------------------------------------------------------- writing


def write_t4(
    file: TextIO,
    name: str,
    environment: Environment,
    default: Mapping[str, Value],
    measurements: Sequence[Measurement],
) -> None:
    """One result a line, times in seconds. The `default` is empty where it is not known."""
    metadata: dict[str, Any] = {
        "kernel": name,
        "backend": environment.backend,
        "platform": environment.platform,
        "device": environment.device,
        "driver": environment.driver,
        "compiler": environment.compiler,
        "autotuner": "harness",
        "autotuner_version": __version__,
        "timeunit": "seconds",
        "default": dict(default),
    }
    if environment.backend in _COMPUTE_API:
        metadata["compute_api"] = _COMPUTE_API[environment.backend]
    file.write(f'{{"schema_version": "{SCHEMA_VERSION}",\n"metadata": {json.dumps(metadata)},\n')
    file.write('"results": [\n')
    file.write(",\n".join(json.dumps(_result(m), allow_nan=False) for m in measurements))
    file.write("\n]}\n")


def _result(m: Measurement) -> dict[str, Any]:
    times: dict[str, Any] = {"runtimes": list(m.timing.samples_s) if m.timing else []}
    if m.build is not None:
        times["compilation_time"] = m.build.compile_s
    result: dict[str, Any] = {
        "input": dict(m.input),
        "configuration": dict(m.config),
        "objectives": ["time"],
        "times": times,
        "invalidity": _WORDS[m.outcome],
        "correctness": int(m.outcome is Outcome.OK),
        "measurements": list(_told(m)),
    }
    if m.outcome is not Outcome.OK:
        result |= {"outcome": m.outcome.value, "message": m.message}
    return result


def _told(m: Measurement) -> Iterator[dict[str, Any]]:
    if m.timing:
        yield {"name": "time", "value": m.timing.median_s, "unit": "seconds"}
    for name, value in m.observed.items():
        yield {"name": name, "value": value, "unit": ""}
