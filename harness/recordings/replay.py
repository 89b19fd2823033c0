"""Recordings of any known format, and recorded measurements in place of a device: the search runs,
nothing is launched."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from harness.core.errors import RecordingError, UsageError
from harness.core.records import (
    Config,
    DeviceLimits,
    Environment,
    Input,
    Measurement,
    Outcome,
    Statistic,
)
from harness.core.text import command_line
from harness.recordings.csv_file import read_mapped_csv, read_space_csv
from harness.recordings.files import FileKind, file_kind, parse_json, read_bounded
from harness.recordings.json_file import read_cache, read_t4
from harness.recordings.recording import Recording, replay_environment
from harness.results import SEARCHED, StoredCampaign, campaigns, read_measurements, reading
from harness.space import Space
from harness.space_file import Spec


def read_recordings(paths: Sequence[Path], mapping: Path | None) -> list[Recording]:
    """Read recordings; the mapping is that of the CSV files among them. Raises what
    `read_recording` raises."""
    tables = {path for path in paths if _readable_kind(path) is FileKind.CSV} or set(paths)
    return [read_recording(path.resolve(), mapping if path in tables else None) for path in paths]


def _readable_kind(path: Path) -> FileKind:
    """Return JSON or CSV; raises RecordingError for every other kind of file."""
    kind = file_kind(path)
    if kind is FileKind.DATABASE:
        raise RecordingError(
            f"{path}: is a results database; replay it with its space: {command_line('tune')} "
            f"SPACE --replay {path}; or export it: {command_line('export', str(path))}"
        )
    if kind is FileKind.YAML:
        raise RecordingError(
            f"{path}: is YAML, not a recording. To tune a space: "
            f"{command_line('tune', str(path))}; name a mapping with --mapping"
        )
    return kind


def read_recording(path: Path, mapping: Path | None = None) -> Recording:
    """Read a recording, whose first bytes show its format.

    Raises RecordingError, UsageError for a mapping that is missing or not needed, and SpecError
    for faults of a mapping.
    """
    if _readable_kind(path) is FileKind.CSV:
        return read_mapped_csv(path, mapping)
    if mapping is not None:
        raise UsageError(f"--mapping is for CSV files, and {path} is JSON; leave it out")
    content = read_bounded(path)
    data, digest = parse_json(path, content), hashlib.sha256(content).hexdigest()
    names = data if isinstance(data, dict) else {}
    try:
        if "cache" in names and "tune_params" in names:
            return read_cache(path, data, digest)
        if "results" in names:
            return read_t4(path, data, digest)
    except ValueError as error:
        raise RecordingError(f"{path}: {error}") from None
    raise RecordingError(
        f"{path}: is JSON, but neither a Kernel Tuner cache (`tune_params` and `cache`) nor T4 "
        "results (`results`)"
    )


# ------------------------------------------------------------------------- replays


@dataclass(eq=False)
class ReplayMeasurer:
    """Serves recorded measurements. What is not recorded fails to launch, and the message says so.

    `compiler` is the compiler whose flags the recorded configurations have, None without flags:
    the search must tune exactly those. `limits` are None, since recordings do not state them.
    """

    limits: ClassVar[DeviceLimits | None] = None
    is_replay: ClassVar[bool] = True
    notices: ClassVar[tuple[str, ...]] = ()

    measurements: Mapping[tuple[Input, Config], Measurement]
    environment: Environment
    compiler: str | None = None
    statistic: Statistic = Statistic.MEDIAN

    @classmethod
    def of(cls, recording: Recording) -> ReplayMeasurer:
        """Serve the measurements of a recording."""
        return cls(recording.measurements, recording.environment, recording.compiler)

    def expect(self, space: Space, configs: Iterable[Config]) -> None:
        """Do nothing: nothing is compiled."""

    def recall(self, problem: Input, measured: Iterable[Measurement]) -> None:
        """Do nothing: each configuration has its own measurement."""

    def measure(
        self, space: Space, problem: Input, config: Config, best_s: float | None
    ) -> Measurement:
        """Return the recorded measurement."""
        found = self.measurements.get((problem, config))
        if found is not None:
            return found.by(self.statistic)
        message = f"the recording has no measurement of ({config}) on the input ({problem})"
        return Measurement(config, problem, Outcome.LAUNCH_FAILED, message=message)

    def measure_interleaved(
        self,
        space: Space,
        problem: Input,
        configs: Sequence[Config],
        rounds: int,
        seeds: Sequence[int] = (),
    ) -> list[Measurement]:
        """Return the recorded measurements: there are no others."""
        return [self.measure(space, problem, config, None) for config in configs]

    def close(self) -> None:
        """Do nothing: nothing is open."""


def open_replay(path: Path, spec: Spec) -> ReplayMeasurer:
    """Replay measurements of a space: a results database, or a CSV file of the space's own columns.

    Raises RecordingError that says where the file does not fit the space, ResultsError for a
    database that cannot be read.
    """
    kind = file_kind(path)
    if kind not in (FileKind.DATABASE, FileKind.CSV):
        raise RecordingError(
            f"{path} is {kind.value}; {spec.path} is replayed from a results database or a CSV "
            "file of its columns. Without a space, --replay reads JSON too"
        )
    if kind is FileKind.CSV:
        replay = ReplayMeasurer.of(read_space_csv(path, spec))
    else:
        replay = _replay_database(path, spec)
    replay.statistic = spec.measure.statistic
    return replay


def _replay_database(path: Path, spec: Spec) -> ReplayMeasurer:
    """Replay the last campaign of this program."""
    with reading(str(path)) as engine, engine.connect() as connection:
        campaign = _campaign(path, campaigns(connection), spec)
        rows = read_measurements(connection, campaign.key, stages=SEARCHED)
    if not rows:
        raise RecordingError(f"{path} holds no measurement of {spec.name}")
    compiler = _compiler(path, set(rows[-1].measurement.config), spec)
    tuned = {parameter.name for parameter in spec.tuned_for(compiler)}
    found = [row.measurement for row in rows if set(row.measurement.config) == tuned]
    measurements = {(m.input, m.config): m for m in found}
    where, digest = campaign.environment, _digest(measurements.values())
    environment = replay_environment(where.device, where.platform, digest)
    return ReplayMeasurer(measurements, environment, compiler)


def _campaign(path: Path, held: Sequence[StoredCampaign], spec: Spec) -> StoredCampaign:
    found = next((c for c in held if c.key.program_sha256 == spec.program_sha256), None)
    if found is None:
        names = ", ".join(sorted({c.space_name for c in held})) or "nothing"
        raise RecordingError(
            f"{path} holds measurements of {names}, but none of {spec.name} with the same "
            "source, host module, launch and tolerance"
        )
    return found


def _compiler(path: Path, names: Collection[str], spec: Spec) -> str | None:
    """Return the compiler whose flags, with the other parameters, are the recorded parameters."""
    compilers = [None, *sorted({p.compiler for p in spec.parameters if p.compiler is not None})]
    for compiler in compilers:
        if names == {parameter.name for parameter in spec.tuned_for(compiler)}:
            return compiler
    raise RecordingError(
        f"{path} holds configurations of {', '.join(sorted(names))}, but {spec.path} has "
        f"{', '.join(parameter.name for parameter in spec.parameters)}"
    )


def _digest(measurements: Iterable[Measurement]) -> str:
    """Hash the measurements themselves: a database's file changes without them."""
    digest = hashlib.sha256()
    for m in measurements:
        samples = m.timing.samples_s if m.timing else ()
        digest.update(f"{m.input.json} {m.config.json} {m.outcome} {samples}\n".encode())
    return digest.hexdigest()
