"""Recordings in JSON: the cache files of Kernel Tuner, of every version (schema/cache, 1.0.0 to
1.2.0), and T4, the autotuning community's format of results (schema versions 1.0.0 and 1.1.0).

A cache's times are in milliseconds. `time` is the tuned quantity. The raw samples `times` count
only if `time` is their mean or median: a user-defined time, such as one with transfers, is neither.

T4's schema has neither inputs nor messages. `harness export` adds the properties `input`,
`outcome`, `message` and `technique` to a result, and the environment to the metadata; other readers
ignore them.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

from harness import __version__
from harness.core.records import Environment, Measurement, Outcome, Value
from harness.core.text import printable
from harness.recordings.files import expect, kind_of, printable_lines
from harness.recordings.recording import RecordedOutcome, Recording, RecordingBuilder, typed

_MS_PER_S = 1e3

_FAILURES: Mapping[str, Outcome] = {
    "InvalidConfig": Outcome.LAUNCH_FAILED,
    "CompilationFailedConfig": Outcome.BUILD_FAILED,
    "RuntimeFailedConfig": Outcome.LAUNCH_FAILED,
}
"""The words that replace a time. The file has no configuration that the restrictions of its search
excluded. An invalid configuration was proposed, asked too much of the device, and cost that search
a test, as any failure does."""

_FAILED_TIME = 1e20
"""The time of a failure in versions before 0.4."""

_SAME_TIME = 1e-6  # relative; a time and the mean of its samples, as written
_AXES = "xyz"


def read_cache(path: Path, data: Any, sha256: str) -> Recording:
    """Read a cache; raises ValueError with the entry that does not fit."""
    listed = expect(data["tune_params"], dict, "tune_params")
    orders = {
        name: list(filter(_is_plain, expect(v, list, f"tune_params[{printable(name)!r}]")))
        for name, v in listed.items()
    }
    names = expect(data.get("tune_params_keys", list(listed)), list, "tune_params_keys")
    for name in names:
        expect(name, str, "a name of tune_params_keys")
    features = _problem(data.get("problem_size"))
    builder = RecordingBuilder(path, list(features), names)
    problem = list(map(typed, features.values()))
    unlike = 0
    for key, entry in expect(data["cache"], dict, "cache").items():
        try:
            missing = [name for name in names if name not in expect(entry, dict, "it")]
            if missing:
                raise ValueError(f"has no value of {missing[0]}")
            cells = [typed(_plain_value(name, entry[name])) for name in names]
            ended = _timed_outcome(entry.get("time"), entry.get("times"), _MS_PER_S)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"cache[{printable(key)!r}]: {error}") from None
        is_ok = ended.outcome is Outcome.OK
        unlike += is_ok and len(ended.samples_s) < len(entry.get("times") or ())
        builder.add([*problem, *cells], ended)
    return builder.finish(
        title=_text(data, "kernel_name"),
        kind="Kernel Tuner cache",
        device=_text(data, "device_name"),
        sha256=sha256,
        notes=list(_notes(data, unlike)),
        orders=orders,
    )


def _notes(data: Mapping[str, Any], unlike: int) -> Iterator[str]:
    """Yield notes; `unlike` counts the entries whose time does not summarise their samples."""
    objective = data.get("objective", "time")
    if objective != "time":
        yield f"it was tuned for {kind_of(objective)}; harness searches for the least time"
    if unlike:
        yield (
            f"`time` is neither mean nor median of `times` in {unlike:,} entries; there it is the "
            "only sample"
        )


def _problem(size: Any) -> dict[str, Value]:
    """Return the problem size as features; empty where the file has none."""
    if size is None:
        return {}
    sizes = size if isinstance(size, list) else [size]
    if not (1 <= len(sizes) <= len(_AXES) and all(map(_is_plain, sizes))):
        needed = "a number, or a list of up to three"
        raise ValueError(f"problem_size is {kind_of(size)}; it must be {needed}")
    axes = [f"_{axis}" for axis in _AXES] if isinstance(size, list) else [""]
    plain = (printable(n) if isinstance(n, str) else n for n in sizes)
    return {f"problem_size{axis}": n for axis, n in zip(axes, plain, strict=False)}


def _is_plain(value: object) -> bool:
    is_finite = not isinstance(value, float) or math.isfinite(value)
    return isinstance(value, (bool, int, float, str)) and is_finite


def _plain_value(name: str, value: Any) -> Value:
    """Return a value that a parameter can have; raises ValueError for any other."""
    if value is not None and not _is_plain(value):
        raise ValueError(
            f"{name} is {kind_of(value)}; values are finite numbers, texts, true and false"
        )
    if isinstance(value, int) and abs(value) > 2**63:
        raise ValueError(f"{name} is {kind_of(value)}, which is too large")
    if isinstance(value, str) and not value.isprintable():
        raise ValueError(f"{name} is {kind_of(value)}; texts must be printable")
    result: Value = value
    return result


def _timed_outcome(time: Any, times: Any, per_s: float) -> RecordedOutcome:
    """Return the outcome of an entry, from its time or the word in its place, and its samples.

    `per_s` is the number of time units in a second. Raises ValueError for what no version writes.
    """
    if isinstance(time, dict) and set(time) == {"__error__"}:
        time = time["__error__"]
    if isinstance(time, str):
        if time not in _FAILURES:
            known = f"{', '.join(_FAILURES)}, or a number"
            raise ValueError(f"time is {kind_of(time)}; it must be one of {known}")
        return RecordedOutcome(_FAILURES[time], message=f"{time}, as recorded")
    if type(time) not in (int, float):
        what = "missing" if time is None else kind_of(time)
        raise ValueError(f"time is {what}; it must be a number or the name of a failure")
    if time == _FAILED_TIME or not math.isfinite(time):
        message = f"the recorded time is {time:g}, which marks a failure"
        return RecordedOutcome(Outcome.LAUNCH_FAILED, message=message)
    if time <= 0:
        raise ValueError(f"time is {time:g}; it must be above 0")
    samples = _samples_of(times)
    if not (samples and _summarises(time, samples)):
        samples = [time]
    return RecordedOutcome(Outcome.OK, [sample / per_s for sample in samples])


def _samples_of(times: Any) -> Sequence[float]:
    """Return the raw samples, if any; raises ValueError where they are not times."""
    samples: Sequence[float] = () if times is None else expect(times, list, "times")
    for sample in samples:
        if type(sample) not in (int, float) or not 0 < sample <= sys.float_info.max:
            raise ValueError(f"a sample is {kind_of(sample)}; it must be a finite number above 0")
    return samples


def _summarises(time: float, samples: Sequence[float]) -> bool:
    """Whether a time is the mean or the median of samples."""
    summaries = (summary(samples) for summary in (statistics.fmean, statistics.median))
    return any(math.isclose(time, summary, rel_tol=_SAME_TIME) for summary in summaries)


def _text(data: Mapping[str, Any], name: str) -> str:
    found = data.get(name)
    return found if isinstance(found, str) and found else "unknown"


# ---------------------------------------------------------------------------- T4

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


def _cells(cells: Any, what: str, names: Sequence[str]) -> list[Hashable]:
    if expect(cells, dict, what).keys() != set(names):
        found_names = printable(", ".join(cells))
        raise ValueError(f"{what} names {found_names}, but the first result {', '.join(names)}")
    return [typed(_plain_value(name, cells[name])) for name in names]


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
        return _timed_outcome(time, times, UNITS[unit])
    samples = _samples_of(times)
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
