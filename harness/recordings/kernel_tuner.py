"""Kernel Tuner's cache files, of every version that it writes (schema/cache, 1.0.0 to 1.2.0).

Times are milliseconds there. `time` is what was tuned; `times` are the raw samples, which count
where `time` is their mean or median: a user-defined time, such as one with transfers, is not.
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
from harness.recordings.builder import Builder
from harness.recordings.files import is_list, kind_of, parse_json, refuse_json
from harness.recordings.recorded import Recorded

KIND = "Kernel Tuner cache"

MS_PER_S = 1e3

FAILURES: Mapping[str, Outcome] = {
    "InvalidConfig": Outcome.LAUNCH_FAILED,
    "CompilationFailedConfig": Outcome.BUILD_FAILED,
    "RuntimeFailedConfig": Outcome.LAUNCH_FAILED,
}
"""The words that stand in place of a time. What the restrictions of the recorded search excluded is
not in the file; an invalid configuration was proposed, found to ask too much of the device, and so
cost that search a test as any failure does."""

_FAILED_TIME = 1e20
"""What versions before 0.4 wrote in place of a time."""

_ROUNDING = 1e-6
_AXES = "xyz"

Ended = tuple[Outcome, Sequence[float], str]
"""An outcome, samples in seconds, and a message."""


def parse_cache(path: Path, text: str) -> tuple[Any, tuple[str, ...]]:
    """The data of a JSON text, closed as Kernel Tuner closes it where a run was interrupted:
    it ends after an entry then, without the last two brackets. Also, what is to be told of it.
    """
    try:
        return parse_json(path, text), ()
    except json.JSONDecodeError as error:
        whole = error
    try:
        closed = parse_json(path, text.strip().removesuffix(",") + "}\n}")
    except json.JSONDecodeError:
        refuse_json(path, whole)
    return closed, ("it ends without closing brackets, as of a run that was interrupted",)


def is_cache(data: Any) -> bool:
    """Whether JSON data is a cache."""
    return isinstance(data, dict) and "cache" in data and "tune_params" in data


def read_cache(path: Path, data: Any, sha256: str, notes: Sequence[str]) -> Recorded:
    """The recording of a cache; raises RecordingError with the entry that does not fit."""
    names, orders = _parameters(path, data)
    features = _problem(path, data)
    builder = Builder(path, list(features), names)
    given = [(type(value), value) for value in features.values()]
    other = 0
    for place, entry in _entries(path, data):
        try:
            values = [_value(name, entry) for name in names]
            outcome, samples_s, message = ended(entry.get("time"), entry.get("times"), MS_PER_S)
        except ValueError as error:
            raise RecordingError(f"{path}: {place}: {error}") from None
        other += outcome is Outcome.OK and len(samples_s) < len(entry.get("times") or ())
        cells = [*given, *((type(value), value) for value in values)]
        builder.add(cells, outcome, samples_s, message)
    return builder.finish(
        lambda _name, cells: [value for _, value in cells],
        title=_text(data, "kernel_name"),
        kind=KIND,
        device=_text(data, "device_name"),
        sha256=sha256,
        notes=[*notes, *_told(data, other)],
        orders=orders,
    )


def _told(data: Mapping[str, Any], other: int) -> Iterator[str]:
    objective = data.get("objective", "time")
    if objective != "time":
        yield f"it was tuned for {kind_of(objective)}; here the time counts"
    if other:
        yield (
            f"`time` is neither mean nor median of `times` in {other:,} entries; there it counts "
            "as the only sample"
        )


def _parameters(path: Path, data: Mapping[str, Any]) -> tuple[list[str], dict[str, list[Value]]]:
    """The tuned parameters in order, and the values that were listed for each."""
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
    """The problem size as features; nothing where none is told."""
    size = data.get("problem_size")
    if size is None:
        return {}
    if is_list(size) and 1 <= len(size) <= len(_AXES) and all(map(_is_plain, size)):
        return {f"problem_size_{axis}": n for axis, n in zip(_AXES, size, strict=False)}
    if _is_plain(size):
        return {"problem_size": printable(size) if isinstance(size, str) else size}
    raise RecordingError(
        f"{path}: problem_size is {kind_of(size)}; it must be a number, or a list of up to three"
    )


def _entries(path: Path, data: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each entry with its place in words."""
    cache = data["cache"]
    if not isinstance(cache, dict):
        raise RecordingError(f"{path}: cache is {kind_of(cache)}; it must be an object")
    for key, entry in cache.items():
        place = f"cache[{printable(key)!r}]"
        if not isinstance(entry, dict):
            raise RecordingError(f"{path}: {place} is {kind_of(entry)}; it must be an object")
        yield place, entry


def _is_plain(value: object) -> bool:
    is_finite = not isinstance(value, float) or math.isfinite(value)
    return isinstance(value, (bool, int, float, str)) and is_finite


def _value(name: str, entry: Mapping[str, Any]) -> Value:
    if name not in entry:
        raise ValueError(f"has no value of {name}")
    return plain_value(name, entry[name])


def plain_value(name: str, value: Any) -> Value:
    """A value that a parameter can have; ValueError for lists, objects and endless numbers."""
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


def ended(time: Any, times: Any, per_s: float) -> Ended:
    """How an entry ended, from its time or what stands there, and its samples if it has any.

    `per_s` is how many of the unit make a second. ValueError for what no version writes.
    """
    if isinstance(time, dict) and set(time) == {"__error__"}:
        time = time["__error__"]
    if isinstance(time, str):
        if time not in FAILURES:
            told = f"{', '.join(FAILURES)}, or a number"
            raise ValueError(f"time is {kind_of(time)}; it must be one of {told}")
        return FAILURES[time], (), f"{time}, as recorded"
    if not isinstance(time, (int, float)) or isinstance(time, bool):
        what = "missing" if time is None else kind_of(time)
        raise ValueError(f"time is {what}; it must be a number or the name of a failure")
    number = _real(time)
    if number == _FAILED_TIME or not math.isfinite(number):
        return Outcome.LAUNCH_FAILED, (), f"the recorded time is {number:g}, which marks a failure"
    if number <= 0:
        raise ValueError(f"time is {number:g}; it must be above 0")
    samples = samples_of(times)
    if samples and _sums_up(number, samples):
        return Outcome.OK, [sample / per_s for sample in samples], ""
    return Outcome.OK, [number / per_s], ""


def _real(number: int | float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf


def samples_of(times: Any) -> Sequence[float]:
    """Raw samples, where there are any; ValueError where they are no times."""
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


def _sums_up(time: float, samples: Sequence[float]) -> bool:
    """Whether a time is the mean or the median of samples."""
    summaries = (summary(samples) for summary in (statistics.fmean, statistics.median))
    return any(math.isclose(time, summary, rel_tol=_ROUNDING) for summary in summaries)


def _text(data: Mapping[str, Any], name: str) -> str:
    found = data.get(name)
    return found if isinstance(found, str) and found else "unknown"
