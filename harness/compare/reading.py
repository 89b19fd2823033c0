"""A database, or an exported file, -> what it holds of each kernel on each device."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from harness.analysis.coverage import NOT_MEASURED
from harness.analysis.inputs import report_input
from harness.core.errors import UsageError
from harness.core.records import Config, Environment, Input, Measurement
from harness.recordings.read import read_recording
from harness.recordings.recording import FACTS, Recording
from harness.results import (
    FINAL,
    LEFT_OUT,
    Campaign,
    Command,
    Row,
    campaigns,
    read_commands,
    read_measurements,
    reading,
    shown_place,
    sqlite_path,
)
from harness.results.view import Results
from harness.stats.timing import mean_log

UNKNOWN = "unknown"

Occasions = Mapping[Hashable, float]
"""The mean logarithm of each occasion, by what is the same in every copy of it."""

_TEXT = (b"{", b"[", b"\x1f\x8b")  # JSON, or gzipped


@dataclass(frozen=True)
class Found:
    """What is held of one input.

    `measured` has the `best` and the `default` where they are known: of the finals, measured again
    in turn, or else of the search. Either may have failed; the best has where nothing works.
    `uuids` are theirs, the same in every copy; an export has none. `groups` are the mean logarithms
    of what was measured at several moments and not chosen for its time, a group for each
    configuration; `tried` are the configurations that have a measurement.
    """

    measured: Mapping[str, Measurement]
    is_remeasured: bool
    groups: Sequence[Occasions]
    tried: frozenset[Config]
    uuids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Held:
    """What one place holds of a kernel in one environment, as it was last tuned there. `program`
    is the digest of its sources, None where that is not known. `broken` are the inputs that did not
    work for the last command that asked for them, and why."""

    kernel: str
    environment: Environment
    program: str | None
    inputs: Mapping[Input, Found]
    broken: Mapping[Input, str] = field(default_factory=dict)


def read_held(
    place: str, kernel: str | None = None, programs: Mapping[str, str] | None = None
) -> list[Held]:
    """What a place holds, the last worked on first; of one kernel, where it is named.

    `programs` are the digests of the kernels, by name, whose results are wanted; of others the
    last worked on. Raises UsageError where there is nothing, RecordingError and ResultsError for
    what cannot be read.
    """
    path = sqlite_path(place)
    if path is not None and _is_exported(path):
        return [_of_recorded(path, kernel, programs or {})]
    with reading(place) as engine, engine.connect() as connection:
        there = [c for c in campaigns(connection) if kernel in (None, c.space_name)]
        read = partial(read_measurements, connection)
        versions = _versions(there, programs or {})
        held = [
            dataclasses.replace(
                _of_campaigns(place, read, same),
                broken=_broken(read_commands(connection, same[0].key, same[0].space_name)),
            )
            for same in versions
        ]
    lost = sorted(set(programs or {}) - {one.kernel for one in held})
    if lost:
        raise UsageError(
            f"{shown_place(place)} has no results of {', '.join(lost)} with the sources as they "
            "are now; tune it first: python -m harness.tune SPACE --database ..."
        )
    if not held:
        raise UsageError(f"{shown_place(place)} has no results of {kernel or 'any kernel'}")
    return held


# ----------------------------------------------------------------------- databases


def _versions(there: Iterable[Campaign], programs: Mapping[str, str]) -> Iterator[list[Campaign]]:
    """Of each kernel and environment the campaigns of the version that is wanted, or else of the
    last one, the last worked on first."""
    groups: dict[tuple[str, str], list[Campaign]] = {}
    for campaign in there:
        if programs.get(campaign.space_name) in (None, campaign.key.program_sha256):
            groups.setdefault((campaign.space_name, campaign.key.fingerprint), []).append(campaign)
    for found in groups.values():
        last = found[0].key.program_sha256
        yield [campaign for campaign in found if campaign.key.program_sha256 == last]


def _of_campaigns(place: str, read: Callable[..., list[Row]], same: Sequence[Campaign]) -> Held:
    """The last campaign; what the finals of earlier ones tell is how times scatter."""
    last = same[0]
    results = Results(last, (place,), tuple(read(last.key, space=last.space_name)))
    earlier = (row for c in same[1:] for row in read(c.key, [FINAL], c.space_name))
    is_replayed = last.environment.backend == "replay"
    groups: dict[Input, dict[Config, dict[Hashable, float]]] = {}
    for row in _occasions([*results.rows, *earlier], results.default):
        m = row.measurement
        samples_s = m.timing.samples_s if m.timing else ()
        of_config = groups.setdefault(m.input, {}).setdefault(m.config, {})
        # What a recording serves twice is one occasion.
        of_config[samples_s if is_replayed else row.uuid] = mean_log(samples_s)
    uuids = {id(row.measurement): row.uuid for row in results.rows}
    inputs = {
        given: _found(results, given, list(groups.get(given, {}).values()), uuids)
        for given in results.measured
    }
    return Held(last.space_name, last.environment, last.key.program_sha256, inputs)


def _broken(commands: Iterable[Command]) -> dict[Input, str]:
    """The inputs that the last command that asked for them left out for a reason of their own; one
    whose turn did not come may work as well as ever."""
    reasons = {
        given: command.left_out.get(given, "")
        for command in sorted(commands, key=lambda command: command.started_at)
        for given in command.inputs
    }
    return {
        given: why.removeprefix(LEFT_OUT)
        for given, why in reasons.items()
        if why and not why.startswith(NOT_MEASURED)
    }


def _occasions(rows: Iterable[Row], default: Config) -> Iterator[Row]:
    """Of the finals all; of the search the default alone, since others reach the finals because
    they were fast."""
    for row in rows:
        m = row.measurement
        if m.timing is not None and (row.stage == FINAL or m.config == default):
            yield row


def _found(
    results: Results, given: Input, groups: Sequence[Occasions], uuids: Mapping[int, str]
) -> Found:
    """`uuids` are those of the results' measurements, by their identity."""
    known, finals = results.measured[given], results.finals.get(given, ())
    report = report_input(given, known, finals, results.default, legal=None)
    default = report.baseline or known.get(results.default)
    told = {"best": report.best or next(iter(known.values())), "default": default}
    measured = {of: measurement for of, measurement in told.items() if measurement}
    of_measured = {of: uuids[id(measurement)] for of, measurement in measured.items()}
    # Baselines that the search did not come by have their first measurement in the finals.
    tried = frozenset({*known, *(final.config for final in finals)})
    return Found(measured, not report.note, groups, tried, of_measured)


# ------------------------------------------------------------------------- exports


def _is_exported(path: Path) -> bool:
    if path.suffix == ".csv":
        return True
    try:
        with path.open("rb") as file:
            return file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(_TEXT)
    except OSError:
        return False  # the database's reader tells what is wrong


def _of_recorded(path: Path, kernel: str | None, programs: Mapping[str, str]) -> Held:
    if programs:
        raise UsageError(
            f"{path}: exported results do not tell of which sources they are, so that they cannot "
            f"be those of {', '.join(programs)} as they are now; give the database, or leave out "
            "--spec"
        )
    recorded = read_recording(path)
    if kernel not in (None, recorded.title):
        raise UsageError(f"{path}: holds {recorded.title}, nothing of {kernel}")
    inputs = {_named(recorded, given): _read(recorded, given) for given in recorded.tables}
    return Held(recorded.title, _environment(recorded), None, inputs)


def _named(recorded: Recording, given: Input) -> Input:
    """The input; that of a file that tells nothing of inputs has the kernel's name, not the
    file's, which the other file has not."""
    return Input({"recording": recorded.title}) if list(given) == ["recording"] else given


def _read(recorded: Recording, given: Input) -> Found:
    table = recorded.tables[given]
    measured = {"best": recorded.optimum(given) or recorded.measurement(given, 0)}
    tried = frozenset(recorded.config(table, row) for row in range(len(table)))
    if recorded.default in tried:
        default = recorded.measurements[given, recorded.default]
        is_best = default.config == measured["best"].config
        measured["default"] = measured["best"] if is_best else default
    return Found(measured, False, (), tried)


def _environment(recorded: Recording) -> Environment:
    """As far as the file tells; what we write tells all of it."""
    backend, platform, driver, compiler = (recorded.facts.get(name, UNKNOWN) for name in FACTS)
    return Environment(backend, recorded.device, platform, driver, compiler)
