"""The shapes of JSON in a database, as types that pydantic checks: above all the notes of a run,
what is known of it besides its plan."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, Field
from typing_extensions import NotRequired, TypedDict

from harness.core.records import DEVICE_UUID, OTHER_PROCESSES, Config, DeviceLimits, Statistic
from harness.results.ablation import Ablation
from harness.space.constrained import launch_constraints
from harness.space_file import Spec

Whole = Annotated[int, Field(strict=True)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Flag = Annotated[bool, Field(strict=True)]
Scalar = Flag | Whole | Number | str | None
Values = dict[str, Scalar]
"""A configuration's values or an input's features."""

Time = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"{text[:60]!r} is not printable")
    return text


Line = Annotated[str, AfterValidator(_printable)]
"""A text that cannot control a terminal."""

Features = dict[Line, Flag | Whole | Number | Line | None]
"""An input that a command names."""


class _Range(TypedDict):
    """The values of a parameter that are a range: its ends and its step."""

    min: Whole
    max: Whole
    step: Whole


class StoredParameter(TypedDict):
    """A parameter of a space; other programs read it."""

    kind: str
    role: str
    default: Scalar
    values: list[Scalar] | _Range
    when: NotRequired[str]  # the condition under which it matters


# ------------------------------------------------------------------------- notes

RERUN = "rerun"
"""The technique of the runs of `harness compare --rerun`, which searches nothing."""

OPENTUNER = "OpenTuner"
"""Who made a run that was imported from OpenTuner's tables."""


class _PassedFile(TypedDict):
    """A file that a value of a flag passes to the compiler: by an option, with its path."""

    option: str
    sha256: str


@dataclass(frozen=True)
class DeviceResults:
    """The campaign of another device, as far as it was `until` then: ISO 8601, by the clock that
    measured, so that it holds in every copy of the database."""

    device: Line
    fingerprint: Line
    campaign: Whole
    until: Line


class Notes(TypedDict, total=False):
    """What is noted of a run; what does not apply is left out."""

    facts: dict[str, str]  # of the machine and the device, by name
    baselines: dict[Line, Values]  # by name, what each sets that differs from the default
    statistic: Statistic  # what makes one time of samples; without it the median does
    confidence: Number  # the probability of every confidence interval
    continued_at: str  # when it was last continued, by its search or by a later stage
    ended: str  # why its search ended by itself, a `harness.search.EndReason`
    data_seed: Whole  # the seed of the data on which an input's finals are measured
    data_sha256: str  # the digest of the input's data, as the last command found them
    legal: Whole  # how many configurations of the input are legal, where that was counted
    limits: dict[Line, Whole]  # the device's, which constraints and launches may name
    same: tuple[Line, ...]  # constraints: values that are the same on all inputs
    launch_limits: dict[Line, Line]  # constraints of a device on launches, each in words
    reduced: Ablation  # the settings that the winner needs
    space_file: str  # the path of the space's file, as the command that tuned it named it
    flag_files: dict[Line, dict[Line, _PassedFile]]  # by flag and value
    record: str  # OPENTUNER
    objective: str  # of a run of OpenTuner's
    warm_start: tuple[DeviceResults, ...]  # the results of other devices that it started from


# ------------------------------------------------------------------------- the device


def devices_of(facts: Iterable[Mapping[str, str]]) -> list[str]:
    """Return the UUIDs of the devices that measured, of the facts of runs and environments."""
    uuids: list[str] = []
    for of_run in facts:
        uuids += of_run.get(DEVICE_UUID, "").split()
    return list(dict.fromkeys(uuids))


def device_facts(*facts: Mapping[str, str]) -> dict[str, str]:
    """Return all devices that these facts name, and others' processes on them; empty where they
    name none."""
    processes: list[str] = []
    for of_run in facts:
        if OTHER_PROCESSES in of_run:
            processes += of_run[OTHER_PROCESSES].split("; ")
    others = "; ".join(dict.fromkeys(processes))
    named = {DEVICE_UUID: " ".join(devices_of(facts)), OTHER_PROCESSES: others}
    return {name: text for name, text in named.items() if text}


def limit_notes(spec: Spec, limits: DeviceLimits) -> Notes:
    """Return the notes on a device's limits that generated code needs."""
    launches = {c.text: limit for c, limit in launch_constraints(spec.launch, limits).items()}
    return {"limits": limits.names(), "launch_limits": launches}


# -------------------------------------------------------------------------- the space


def space_notes(spec: Spec) -> Notes:
    """Return the notes on its space that a report needs."""
    notes: Notes = {
        "space_file": str(spec.path),
        "baselines": {baseline.name: dict(baseline.values) for baseline in spec.baselines},
        "confidence": spec.measure.confidence,
    }
    if spec.measure.statistic is not Statistic.MEDIAN:
        notes["statistic"] = spec.measure.statistic
    files = files_of_flags(spec)
    if files:
        notes["flag_files"] = files
    return notes


def files_of_flags(spec: Spec) -> dict[str, dict[str, _PassedFile]]:
    """Return the files that flags of a space pass to the compiler, by flag and value."""
    passed = dict[str, dict[str, _PassedFile]]()
    for flag in spec.parameters:
        for value, file in flag.files.items():
            words = (flag.option or "").split()
            option = shlex.join(word.replace("{value}", str(file.path)) for word in words)
            noted: _PassedFile = {"option": option, "sha256": file.sha256}
            passed.setdefault(flag.name, {})[value] = noted
    return passed


def noted_files(notes: Iterable[Notes]) -> dict[tuple[str, str], _PassedFile]:
    """Return the files that the notes of runs name, by flag and value, as the last run names it."""
    noted: dict[tuple[str, str], _PassedFile] = {}
    for of_run in notes:
        for flag, files in of_run.get("flag_files", {}).items():
            for value, file in files.items():
                noted[flag, value] = file
    return noted


def file_lines(notes: Iterable[Notes], configs: Iterable[Config]) -> Iterator[str]:
    """Say which option passes each file that these configurations use, and what its content is.

    `notes` are those of the runs that measured them.
    """
    used = {(name, value) for config in configs for name, value in config.items()}
    for (flag, value), file in noted_files(notes).items():
        if (flag, value) in used:
            yield f"{flag}={value} is {file['option']}; the file's SHA-256 is {file['sha256']}."


# -------------------------------------------------------------------------------- text


def last_moment(row: Mapping[Any, Any]) -> str:
    """Return when a run was last begun, continued or ended, from its row; ISO 8601 in UTC."""
    moments = (row["started_at"], row["notes"].get("continued_at"), row["ended_at"])
    return max(str(moment) for moment in moments if moment)
