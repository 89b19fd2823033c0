"""Kernel Tuner's cache files, of every version (schema/cache, 1.0.0 to 1.2.0).

Times are in milliseconds. `time` is the tuned quantity. The raw samples `times` count only if
`time` is their mean or median: a user-defined time, such as one with transfers, is neither.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.core.records import Outcome, Value
from harness.core.text import printable
from harness.recordings.files import expect, kind_of
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
            cells = [typed(plain_value(name, entry[name])) for name in names]
            ended = outcome_of(entry.get("time"), entry.get("times"), _MS_PER_S)
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
    samples = samples_of(times)
    if not (samples and _summarises(time, samples)):
        samples = [time]
    return RecordedOutcome(Outcome.OK, [sample / per_s for sample in samples])


def samples_of(times: Any) -> Sequence[float]:
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
