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
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import (
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    TypeAdapter,
    ValidationError,
)

from harness import __version__
from harness.core.records import Environment, Measurement, Outcome, Value
from harness.core.text import printable
from harness.recordings.files import printable_lines
from harness.recordings.recording import RecordedOutcome, Recording, RecordingBuilder, typed
from harness.space_file.messages import StrictModel, describe_errors
from harness.space_file.tuned import Scalar

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

T = TypeVar("T")
_Sample = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
_Sizes = Annotated[list[Scalar], Field(min_length=1, max_length=len(_AXES))]

_TIME = TypeAdapter(StrictFloat)
_SAMPLES = TypeAdapter(list[_Sample])
_VALUE = TypeAdapter(Scalar | None)
_Cells = dict[str, StrictBool | StrictInt | StrictFloat | StrictStr | None]
_CELLS = TypeAdapter(_Cells)


class _Part(StrictModel):
    """A part of a file, which may have other keys."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _CacheFile(_Part):
    """The parts of a cache that are read."""

    tune_params: dict[str, list[Any]]
    tune_params_keys: list[StrictStr] | None = None
    problem_size: _Sizes | Scalar | None = None
    cache: dict[str, Any]
    kernel_name: StrictStr | None = None
    device_name: StrictStr | None = None
    objective: Any = "time"


_CACHE = TypeAdapter(_CacheFile)


def _checked(shape: TypeAdapter[T], data: Any, *where: str) -> T:
    """Return data of a shape; raises ValueError that names the part of another shape."""
    try:
        return shape.validate_python(data)
    except ValidationError as error:
        location, _, text = next(describe_errors(error, data))
        raise ValueError(printable(": ".join([*where, *map(str, location), text]))) from None


def read_cache(path: Path, data: Any, sha256: str) -> Recording:
    """Read a cache; raises ValueError with the entry that does not fit."""
    file = _checked(_CACHE, data)
    names = list(file.tune_params) if file.tune_params_keys is None else file.tune_params_keys
    features: dict[str, Value] = {}
    if isinstance(file.problem_size, list):
        for axis, size in zip(_AXES, file.problem_size, strict=False):
            features[f"problem_size_{axis}"] = size
    elif file.problem_size is not None:
        features["problem_size"] = file.problem_size
    builder = _builder(path, list(features), names)
    problem = list(map(typed, features.values()))
    unlike = 0
    for key, entry in file.cache.items():
        try:
            if not isinstance(entry, dict):
                raise ValueError(f"must be an object, but got {printable(str(entry))}")
            missing = [name for name in names if name not in entry]
            if missing:
                raise ValueError(f"has no value of {missing[0]}")
            cells = _checked(_CELLS, {name: entry[name] for name in names})
            ended = _timed_outcome(entry.get("time"), entry.get("times"), _MS_PER_S)
            builder.add([*problem, *map(typed, cells.values())], ended)
        except ValueError as error:
            raise ValueError(f"cache[{printable(key)!r}]: {error}") from None
        if ended.outcome is Outcome.OK and len(ended.samples_s) < len(entry.get("times") or ()):
            unlike += 1
    notes: list[str] = []
    if file.objective != "time":
        objective = printable(str(file.objective))
        notes.append(f"it was tuned for {objective}; harness searches for the least time")
    if unlike:
        notes.append(
            f"`time` is neither mean nor median of `times` in {unlike:,} entries; there it is the "
            "only sample"
        )
    orders: dict[str, list[Value]] = {}
    for name, values in file.tune_params.items():
        orders[name] = [value for value in values if not isinstance(value, (list, dict))]
    return builder.finish(
        title=file.kernel_name or "unknown",
        kind="Kernel Tuner cache",
        device=file.device_name or "unknown",
        sha256=sha256,
        notes=notes,
        orders=orders,
    )


def _builder(path: Path, features: Sequence[str], parameters: Sequence[str]) -> RecordingBuilder:
    """Begin a recording whose cells are `typed` values: each that occurs is checked once."""

    def reader(name: str) -> Callable[[tuple[type, Any]], Value]:
        return lambda cell: _checked(_VALUE, cell[1], name)

    readers = {name: reader(name) for name in (*features, *parameters)}
    return RecordingBuilder(path, features, parameters, readers)


def _timed_outcome(time: Any, times: Any, per_s: float) -> RecordedOutcome:
    """Return the outcome of an entry, from its time or the word in its place, and its samples.

    `per_s` is the number of time units in a second. Raises ValueError for what no version writes.
    """
    if isinstance(time, dict):
        time = time.get("__error__")
    if isinstance(time, str):
        if time not in _FAILURES:
            needed = f"a number, or one of {', '.join(_FAILURES)}"
            raise ValueError(f"time: must be {needed}, but got {printable(time)!r}")
        return RecordedOutcome(_FAILURES[time], message=f"{time}, as recorded")
    time = _checked(_TIME, time, "time")
    if time == _FAILED_TIME or not math.isfinite(time):
        message = f"the recorded time is {time:g}, which marks a failure"
        return RecordedOutcome(Outcome.LAUNCH_FAILED, message=message)
    if time <= 0:
        raise ValueError(f"time: must be above 0, but got {time:g}")
    samples = _samples_of(times)
    summaries = [statistics.fmean(samples), statistics.median(samples)] if samples else []
    if not any(math.isclose(time, summary, rel_tol=_SAME_TIME) for summary in summaries):
        samples = [time]
    return RecordedOutcome(Outcome.OK, [sample / per_s for sample in samples])


def _samples_of(times: Any) -> list[float]:
    """Return the raw samples, if any; raises ValueError where they are not times."""
    if isinstance(times, array):
        times = times.tolist()
    return [] if times is None else _checked(_SAMPLES, times, "times")


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


class _T4(_Part):
    """The parts of a T4 file that are read."""

    metadata: dict[str, Any] = Field(default_factory=dict)
    results: list[Any] = Field(min_length=1)


class _Result(_Part):
    """The parts of a result that are read."""

    configuration: _Cells
    input: _Cells = Field(default_factory=dict)
    invalidity: StrictStr
    correctness: Any = 1
    times: dict[str, Any] = Field(default_factory=dict)
    measurements: list[dict[str, Any]] = Field(default_factory=list)
    outcome: Any = None
    message: Any = None


_T4_FILE = TypeAdapter(_T4)
_T4_RESULT = TypeAdapter(_Result)


def read_t4(path: Path, data: Any, sha256: str) -> Recording:
    """Read a T4 file; raises ValueError with the result that does not fit."""
    file = _checked(_T4_FILE, data)
    first = _checked(_T4_RESULT, file.results[0], "results[0]")
    features = list(first.input)
    names = list(first.configuration)
    unit = file.metadata.get("timeunit") or "milliseconds"
    builder = _builder(path, features, names)
    for number, given in enumerate(file.results):
        try:
            result = _checked(_T4_RESULT, given)
            cells: list[tuple[type, Value]] = []
            for part, wanted in ((result.input, features), (result.configuration, names)):
                if part.keys() != set(wanted):
                    names_there = printable(", ".join(part))
                    raise ValueError(f"has {names_there}, but the first has {', '.join(wanted)}")
                cells += [typed(part[name]) for name in wanted]
            builder.add(cells, _outcome(result, unit))
        except ValueError as error:
            raise ValueError(f"results[{number}]: {error}") from None
    return builder.finish(
        title=str(file.metadata.get("kernel", "unknown")),
        kind="T4 results",
        device=str(file.metadata.get("device", "unknown")),
        sha256=sha256,
    )


def _outcome(result: _Result, unit: Any) -> RecordedOutcome:
    """Return the outcome of a result, with its samples in this unit where it states none."""
    word = result.invalidity
    if word not in _INVALIDITY:
        words = ", ".join(sorted(_INVALIDITY))
        raise ValueError(f"invalidity: must be one of {words}, but got {printable(word)!r}")
    outcome = _INVALIDITY[word]
    if outcome is Outcome.OK and result.correctness == 0:
        outcome = Outcome.WRONG_RESULT
    if outcome is not Outcome.OK:
        message = f"{word}, as recorded"
        if isinstance(result.message, str) and result.message:
            message = printable_lines(result.message)
        # harness writes the outcome as well; it counts where T4's word agrees.
        for written, of_outcome in _WORDS.items():
            if written.value == result.outcome and of_outcome == word:
                outcome = written
        return RecordedOutcome(outcome, message=message)
    time = None
    for measurement in result.measurements:
        if measurement.get("name") == "time":
            time = measurement.get("value")
            unit = measurement.get("unit") or unit
            break
    if not isinstance(unit, str) or unit not in UNITS:
        known = ", ".join(UNITS)
        raise ValueError(f"the unit of time is {printable(str(unit))}; it must be one of {known}")
    if time is not None:
        return _timed_outcome(time, result.times.get("runtimes"), UNITS[unit])
    samples = _samples_of(result.times.get("runtimes"))
    if not samples:
        raise ValueError("is correct, but has neither runtimes nor a measurement named time")
    return RecordedOutcome(Outcome.OK, [sample / UNITS[unit] for sample in samples])


def t4_texts(
    name: str,
    environment: Environment,
    measurements: Iterable[Measurement],
    techniques: Iterable[str] = repeat(""),
) -> Iterator[str]:
    """Yield the text of a file, one result a line as it comes, times in seconds.

    `techniques` are what asked for each measurement.
    """
    names = ("device", "backend", "platform", "driver", "compiler", "cache", "timer", "clock")
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
