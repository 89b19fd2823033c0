"""T4, the autotuning community's format of results (JSON, schema versions 1.0.0 and 1.1.0).

The schema has neither inputs nor messages. `harness.export` adds the properties `input`, `outcome`,
`message` and `technique` to a result, and the environment to the metadata; other readers ignore
them.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

from harness import __version__
from harness.core.records import Environment, Measurement, Outcome
from harness.core.text import printable
from harness.recordings.files import expect, kind_of, printable_lines
from harness.recordings.kernel_tuner import outcome_of, plain_value, samples_of
from harness.recordings.recording import RecordedOutcome, Recording, RecordingBuilder, typed

_SCHEMA_VERSION = "1.1.0"

UNITS: Mapping[str, float] = {
    "s": 1.0, "seconds": 1.0, "ms": 1e3, "milliseconds": 1e3,
    "us": 1e6, "microseconds": 1e6, "ns": 1e9, "nanoseconds": 1e9,
}  # fmt: skip
"""The number of each unit in a second."""

_WORDS: Mapping[Outcome, str] = {
    Outcome.OK: "correct",
    Outcome.ILLEGAL: "constraints",
    Outcome.BUILD_FAILED: "compile",
    Outcome.LAUNCH_FAILED: "runtime",
    Outcome.OUT_OF_MEMORY: "runtime",
    Outcome.WRONG_RESULT: "correctness",
    Outcome.IMPLAUSIBLE: "correctness",
    Outcome.TIMEOUT: "timeout",
    Outcome.CRASHED: "runtime",
}
"""The word that is written. The outcome is written as well, since some outcomes share a word."""

_INVALIDITY: Mapping[str, Outcome] = {
    **{word: outcome for outcome, word in reversed(list(_WORDS.items()))},  # the first of a word
    "constraints": Outcome.LAUNCH_FAILED,  # a search proposed it, and it cost a test
}
_COMPUTE_API = {"cuda": "CUDA", "opencl": "OpenCL"}


def read_t4(path: Path, data: Any, sha256: str) -> Recording:
    """Read a T4 file; raises ValueError with the result that does not fit."""
    metadata = expect(data.get("metadata", {}), dict, "metadata")
    results = expect(data["results"], list, "results")
    first = expect(results[0] if results else None, dict, "the first of the results")
    names = list(expect(first.get("configuration"), dict, "results[0]: configuration"))
    features = list(expect(first.get("input", {}), dict, "results[0]: input"))
    builder = RecordingBuilder(path, features, names)
    for number, result in enumerate(results):
        try:
            found = expect(result, dict, "it")
            problem = _cells(found.get("input", {}), "input", features)
            config = _cells(found.get("configuration"), "configuration", names)
            builder.add([*problem, *config], _outcome(found, metadata))
        except (ValueError, OverflowError) as error:
            raise ValueError(f"results[{number}]: {error}") from None
    return builder.finish(
        title=str(metadata.get("kernel", "unknown")),
        kind="T4 results",
        device=str(metadata.get("device", "unknown")),
        sha256=sha256,
    )


def _cells(found: Any, what: str, names: Sequence[str]) -> list[Hashable]:
    if expect(found, dict, what).keys() != set(names):
        found_names = printable(", ".join(found))
        raise ValueError(f"{what} names {found_names}, but the first result {', '.join(names)}")
    return [typed(plain_value(name, found[name])) for name in names]


def _outcome(result: Mapping[str, Any], metadata: Mapping[str, Any]) -> RecordedOutcome:
    invalidity = result.get("invalidity")
    if not isinstance(invalidity, str) or invalidity not in _INVALIDITY:
        what = "missing" if invalidity is None else kind_of(invalidity)
        raise ValueError(
            f"invalidity is {what}; it must be one of {', '.join(sorted(_INVALIDITY))}"
        )
    outcome = _INVALIDITY[invalidity]
    if outcome is Outcome.OK and result.get("correctness", 1) == 0:
        outcome = Outcome.WRONG_RESULT
    if outcome is not Outcome.OK:
        text = result.get("message")
        message = printable_lines(text) if isinstance(text, str) else ""
        message = message or f"{invalidity}, as recorded"
        # harness writes the outcome as well; it counts where T4's word agrees.
        own = [o for o in _WORDS if o.value == result.get("outcome") and _WORDS[o] == invalidity]
        return RecordedOutcome(own[0] if own else outcome, message=message)
    return _timed(result, metadata)


def _timed(result: Mapping[str, Any], metadata: Mapping[str, Any]) -> RecordedOutcome:
    """Return the samples of a correct result; raises ValueError where it has none."""
    times = expect(result.get("times"), dict, "times").get("runtimes")
    time, unit = _time(result)
    unit = unit or metadata.get("timeunit") or "milliseconds"
    if not isinstance(unit, str) or unit not in UNITS:
        raise ValueError(
            f"the unit of time is {kind_of(unit)}; it must be one of {', '.join(UNITS)}"
        )
    if time is not None:
        return outcome_of(time, times, UNITS[unit])
    samples = samples_of(times)
    if not samples:
        raise ValueError("is correct, but has neither runtimes nor a measurement named time")
    return RecordedOutcome(Outcome.OK, [sample / UNITS[unit] for sample in samples])


def _time(result: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the value and unit of the measurement named time, or None and None."""
    for measurement in expect(result.get("measurements", []), list, "measurements"):
        if isinstance(measurement, dict) and measurement.get("name") == "time":
            return measurement.get("value"), measurement.get("unit")
    return None, None


def t4_texts(
    name: str,
    environment: Environment,
    measurements: Iterable[Measurement],
    techniques: Iterable[str] = repeat(""),
) -> Iterator[str]:
    """Yield the text of a file, one result a line as it comes, times in seconds.

    `techniques` are what asked for each measurement.
    """
    names = ("device", "backend", "platform", "driver", "compiler", "cache")
    metadata: dict[str, Any] = {
        "kernel": name,
        **{name: getattr(environment, name) for name in names},
        "autotuner": "harness",
        "autotuner_version": __version__,
        "timeunit": "seconds",
    }
    if environment.backend in _COMPUTE_API:
        metadata["compute_api"] = _COMPUTE_API[environment.backend]
    # In one line: `check_output` recognises the file by its first.
    yield f'{{"schema_version": "{_SCHEMA_VERSION}", "metadata": {json.dumps(metadata)},\n'
    yield '"results": [\n'
    for number, (m, technique) in enumerate(zip(measurements, techniques, strict=False)):
        result = _result(m) | ({"technique": technique} if technique else {})
        yield (",\n" if number else "") + json.dumps(result, allow_nan=False)
    yield "\n]}\n"


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
        "measurements": list(_measurements(m)),
    }
    if m.outcome is not Outcome.OK:
        result |= {"outcome": m.outcome.value, "message": m.message}
    return result


def _measurements(m: Measurement) -> Iterator[dict[str, Any]]:
    if m.timing:
        yield {"name": "time", "value": m.timing.time_s, "unit": "seconds"}
    for name, value in m.observed.items():
        yield {"name": name, "value": value, "unit": ""}
