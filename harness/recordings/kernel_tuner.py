"""Kernel Tuner's cache files, of every version (schema/cache, 1.0.0 to 1.2.0).

Times are in milliseconds. `time` is the tuned quantity. The raw samples `times` count only if
`time` is their mean or median: a user-defined time, such as one with transfers, is neither.
"""

from __future__ import annotations

import json
import math
import statistics
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.core.errors import RecordingError
from harness.core.records import Outcome, Value
from harness.core.text import printable
from harness.recordings.files import is_list, kind_of, parse_json, refuse_json
from harness.recordings.recording import RecordedOutcome, Recording, RecordingBuilder, typed

KIND = "Kernel Tuner cache"

MS_PER_S = 1e3

FAILURES: Mapping[str, Outcome] = {
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


def parse_cache(path: Path, text: str) -> tuple[Any, tuple[str, ...]]:
    """Parse JSON, and return it with notes.

    The file of an interrupted run ends after an entry, without the last two brackets. They are
    added, as Kernel Tuner does.
    """
    try:
        return parse_json(path, text), ()
    except json.JSONDecodeError as error:
        whole = error
    try:
        closed = parse_json(path, text.strip().removesuffix(",") + "}\n}")
    except json.JSONDecodeError:
        refuse_json(path, whole)
    return closed, ("it has no closing brackets: its run was interrupted",)


def is_cache(data: Any) -> bool:
    """Whether JSON data is a cache."""
    return isinstance(data, dict) and "cache" in data and "tune_params" in data


def read_cache(path: Path, data: Any, sha256: str, notes: Sequence[str]) -> Recording:
    """Read a cache; raises RecordingError with the entry that does not fit."""
    names, orders = _parameters(path, data)
    features = _problem(path, data)
    builder = RecordingBuilder(path, list(features), names)
    problem = list(map(typed, features.values()))
    unlike = 0
    for label, entry in _entries(path, data):
        try:
            values = [_value(name, entry) for name in names]
            ended = outcome_of(entry.get("time"), entry.get("times"), MS_PER_S)
        except ValueError as error:
            raise RecordingError(f"{path}: {label}: {error}") from None
        is_ok = ended.outcome is Outcome.OK
        unlike += is_ok and len(ended.samples_s) < len(entry.get("times") or ())
        builder.add([*problem, *map(typed, values)], ended)
    return builder.finish(
        title=_text(data, "kernel_name"),
        kind=KIND,
        device=_text(data, "device_name"),
        sha256=sha256,
        notes=[*notes, *_notes(data, unlike)],
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


def _parameters(path: Path, data: Mapping[str, Any]) -> tuple[list[str], dict[str, list[Value]]]:
    """Return the tuned parameters in order, and the listed values of each."""
    listed = data["tune_params"]
    if not isinstance(listed, dict):
        raise RecordingError(f"{path}: tune_params is {kind_of(listed)}; it must be an object")
    names = data.get("tune_params_keys", list(listed))
    if not is_list(names) or not all(isinstance(name, str) for name in names):
        raise RecordingError(f"{path}: tune_params_keys must be a list of names")
    orders: dict[str, list[Value]] = {}
    for name, values in listed.items():
        if not is_list(values):
            what = f"tune_params[{printable(name)!r}]"
            raise RecordingError(f"{path}: {what} is {kind_of(values)}; it must be a list")
        orders[name] = [value for value in values if _is_plain(value)]
    return list(names), orders


def _problem(path: Path, data: Mapping[str, Any]) -> dict[str, Value]:
    """Return the problem size as features; empty where the file has none."""
    size = data.get("problem_size")
    if size is None:
        return {}
    if is_list(size) and 1 <= len(size) <= len(_AXES) and all(map(_is_plain, size)):
        return {f"problem_size_{axis}": _shown(n) for axis, n in zip(_AXES, size, strict=False)}
    if _is_plain(size):
        return {"problem_size": _shown(size)}
    raise RecordingError(
        f"{path}: problem_size is {kind_of(size)}; it must be a number, or a list of up to three"
    )


def _shown(size: Value) -> Value:
    return printable(size) if isinstance(size, str) else size


def _entries(path: Path, data: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each entry with its label for messages."""
    cache = data["cache"]
    if not isinstance(cache, dict):
        raise RecordingError(f"{path}: cache is {kind_of(cache)}; it must be an object")
    for key, entry in cache.items():
        label = f"cache[{printable(key)!r}]"
        if not isinstance(entry, dict):
            raise RecordingError(f"{path}: {label} is {kind_of(entry)}; it must be an object")
        yield label, entry


def _is_plain(value: object) -> bool:
    is_finite = not isinstance(value, float) or math.isfinite(value)
    return isinstance(value, (bool, int, float, str)) and is_finite


def _value(name: str, entry: Mapping[str, Any]) -> Value:
    if name not in entry:
        raise ValueError(f"has no value of {name}")
    return plain_value(name, entry[name])


def plain_value(name: str, value: Any) -> Value:
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


def outcome_of(time: Any, times: Any, per_s: float) -> RecordedOutcome:
    """Return the outcome of an entry, from its time or the word in its place, and its samples.

    `per_s` is the number of time units in a second. Raises ValueError for what no version writes.
    """
    if isinstance(time, dict) and set(time) == {"__error__"}:
        time = time["__error__"]
    if isinstance(time, str):
        if time not in FAILURES:
            known = f"{', '.join(FAILURES)}, or a number"
            raise ValueError(f"time is {kind_of(time)}; it must be one of {known}")
        return RecordedOutcome(FAILURES[time], message=f"{time}, as recorded")
    if not isinstance(time, (int, float)) or isinstance(time, bool):
        what = "missing" if time is None else kind_of(time)
        raise ValueError(f"time is {what}; it must be a number or the name of a failure")
    number = _real(time)
    if number == _FAILED_TIME or not math.isfinite(number):
        message = f"the recorded time is {number:g}, which marks a failure"
        return RecordedOutcome(Outcome.LAUNCH_FAILED, message=message)
    if number <= 0:
        raise ValueError(f"time is {number:g}; it must be above 0")
    samples = samples_of(times)
    if not (samples and _summarises(number, samples)):
        samples = [number]
    return RecordedOutcome(Outcome.OK, [sample / per_s for sample in samples])


def _real(number: int | float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf


def samples_of(times: Any) -> Sequence[float]:
    """Return the raw samples, if any; raises ValueError where they are not times."""
    if times is None:
        return ()
    if not is_list(times):
        raise ValueError(f"its samples are {kind_of(times)}; they must be a list of numbers")
    samples: Sequence[float] = times
    if isinstance(samples, array) and all(0 < sample < math.inf for sample in samples):
        return samples
    for sample in samples:
        is_number = isinstance(sample, (int, float)) and not isinstance(sample, bool)
        if not (is_number and 0 < _real(sample) < math.inf):
            raise ValueError(f"a sample is {kind_of(sample)}; it must be a finite number above 0")
    return samples


def _summarises(time: float, samples: Sequence[float]) -> bool:
    """Whether a time is the mean or the median of samples."""
    summaries = (summary(samples) for summary in (statistics.fmean, statistics.median))
    return any(math.isclose(time, summary, rel_tol=_SAME_TIME) for summary in summaries)


def _text(data: Mapping[str, Any], name: str) -> str:
    found = data.get(name)
    return found if isinstance(found, str) and found else "unknown"
