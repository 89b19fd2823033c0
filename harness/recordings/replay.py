"""Recordings of any known format, and recorded measurements in place of a device: the search runs,
nothing is launched."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from harness.core.errors import RecordingError, UsageError
from harness.core.program import Launch
from harness.core.records import (
    Config,
    DeviceLimits,
    Environment,
    Input,
    Measurement,
    Outcome,
    Statistic,
    Value,
)
from harness.core.text import command_line
from harness.recordings.csv_file import read_mapped_csv, read_space_csv
from harness.recordings.files import FileKind, file_kind, parse_json, read_bounded
from harness.recordings.json_file import read_cache, read_t4
from harness.recordings.recording import Recording, replay_environment
from harness.results import SEARCHED, StoredCampaign, campaigns, read_measurements, reading
from harness.results.fitting import of_present_data
from harness.space import PointArray, Points, Space
from harness.space.space import Costs
from harness.space_file import Spec

_SAME_DISTANCE = 1e-9
Legality = Callable[[PointArray], npt.NDArray[np.bool_]]


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
            f"{path}: is a results database; replay it with its space: "
            f"{command_line('replay', str(path))} --spec SPACE; or export it: "
            f"{command_line('export', str(path))}"
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
    data = parse_json(path, content)
    digest = hashlib.sha256(content).hexdigest()
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


# ------------------------------------------------------------------- the space of a recording


def recording_spec(recording: Recording) -> Spec:
    """Make a spec without kernel, host module and constraints: nothing can be built from it."""
    return Spec(
        path=recording.path,
        name=recording.name,
        title=recording.title,
        functions=(recording.title,),
        host=recording.path,
        parameters=recording.parameters,
        features=recording.features,
        inputs=tuple(recording.tables),
        host_text=recording.sha256,  # the program is the file: other content, other measurements
    )


class ListedSpace(Space):
    """The configurations that were recorded for an input and were not illegal there.

    `parameters` are those with several recorded values. The others have their only value in every
    configuration, and are not searched.
    """

    tried_values = 1024  # each is looked up, which is cheap

    def __init__(self, recording: Recording, problem: Input) -> None:
        self._recording = recording
        self._table = recording.tables[problem]
        self._varying = [k for k, p in enumerate(recording.parameters) if len(p.values) > 1]
        super().__init__([recording.parameters[k] for k in self._varying])

    @cached_property
    def solutions(self) -> _Rows:
        """The recorded configurations that were not illegal."""
        legal = self._table.positions[self._table.legal][:, self._varying]
        return _Rows([p.name for p in self.parameters], legal, self._are_recorded)

    # ---------------------------------------------------------------- judging

    def why_illegal(self, config: Mapping[str, Value]) -> str | None:
        """Return why a configuration is not recorded, or recorded as illegal."""
        points = self._recording.points
        table = self._table
        reason = points.why_no_point(config)
        if reason is not None:
            return reason
        (row,) = table.rows_of(points.encode_all([config]))
        if row is None:
            return "it is not in the recording"
        if table.outcomes[row] is Outcome.ILLEGAL:
            return f"the recording has it as illegal: {table.messages[row]}"
        return None

    @property
    def named_points(self) -> Points:
        """The points of all recorded parameters."""
        return self._recording.points

    def _are_recorded(self, points: PointArray) -> npt.NDArray[np.bool_]:
        outcomes = self._table.outcomes
        rows = self._table.rows_of(self._whole(points))
        legal = [row is not None and outcomes[row] is not Outcome.ILLEGAL for row in rows]
        return np.array(legal, dtype=bool)

    # --------------------------------------------------------------- encoding

    def decode(self, positions: Sequence[int]) -> Config:
        """Return the whole configuration with these indices of the varying parameters."""
        whole = self._whole(np.array([positions], np.int32))[0]
        return self._recording.points.decode(whole.tolist())

    def _whole(self, points: PointArray) -> PointArray:
        """Add the parameters that have one value."""
        whole = np.zeros((len(points), len(self._recording.parameters)), np.int32)
        whole[:, self._varying] = points
        return whole

    def launch(self, config: Config, function: str, arguments: Sequence[str]) -> Launch:
        """Raise UsageError: a recording has nothing to launch."""
        raise UsageError(f"{self._recording.path}: a recording cannot be launched")


class _Rows:
    """The recorded rows as the solutions of a space."""

    left_out = ()

    def __init__(self, names: Sequence[str], rows: PointArray, contains: Legality) -> None:
        self._names = names
        self._rows = rows
        self.count = len(rows)
        self.contains = contains

    def points(self, indices: Sequence[int]) -> PointArray:
        return self._rows[np.array(indices, dtype=np.intp)]

    def draw(self, rng: np.random.Generator, count: int) -> PointArray:
        return self._rows[rng.integers(self.count, size=count)]

    def nearest(self, here: Sequence[int], cost: Costs, rng: random.Random) -> Sequence[int] | None:
        """Return one of the nearest rows, at random."""
        if not self.count:
            return None
        away = np.zeros(self.count)
        for name, column in zip(self._names, self._rows.T, strict=True):
            away += cost(name)[column]
        nearest = np.flatnonzero(away <= away.min() + _SAME_DISTANCE)
        return tuple(map(int, self._rows[rng.choice(nearest)]))


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

    def data_sha256(self, problem: Input, stored: Collection[str]) -> str | None:
        """Return None: a recording has no data."""
        return None

    def weak_tests(self, problem: Input) -> Sequence[str]:
        """Return nothing: nothing is verified."""
        return ()

    def recall(self, problem: Input, measured: Iterable[Measurement]) -> None:
        """Do nothing: each configuration has its own measurement."""

    def measure(
        self, space: Space, problem: Input, config: Config, best_s: float | None
    ) -> Measurement:
        """Return the recorded measurement."""
        recorded = self.measurements.get((problem, config))
        if recorded is not None:
            return recorded.by(self.statistic)
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
            "file of its columns; JSON is read without --spec"
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
        stored = read_measurements(connection, campaign.key, stages=SEARCHED)
    rows, _ = of_present_data(stored)
    if not rows:
        raise RecordingError(f"{path} holds no measurement of {spec.name}")
    tuned = set(rows[-1].measurement.config)
    compiler = _compiler(path, tuned, spec)
    measurements: dict[tuple[Input, Config], Measurement] = {}
    for row in rows:
        m = row.measurement
        if set(m.config) == tuned:
            measurements[m.input, m.config] = m
    where = campaign.environment
    digest = _digest(measurements.values())
    environment = replay_environment(where.device, where.platform, digest)
    return ReplayMeasurer(measurements, environment, compiler)


def _campaign(path: Path, stored: Sequence[StoredCampaign], spec: Spec) -> StoredCampaign:
    """Return the last campaign of this program."""
    for campaign in stored:
        if campaign.key.program_sha256 == spec.program_sha256:
            return campaign
    names = ", ".join(sorted({campaign.space_name for campaign in stored})) or "nothing"
    raise RecordingError(
        f"{path} holds measurements of {names}, but none of {spec.name} with the same source, host "
        "module, launch and tolerance"
    )


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
