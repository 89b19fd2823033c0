"""Recorded measurements in place of a device: the search runs for real, nothing is launched.

A recording is a results database of ours, or a CSV file (see `harness.recordings.replay_csv`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import RecordingError
from harness.core.records import Config, DeviceLimits, Environment, Input, Measurement, Outcome
from harness.recordings.files import Kind, kind_of_file
from harness.recordings.replay_csv import read_csv
from harness.results import SEARCHED, Campaign, campaigns, read_measurements, reading
from harness.space import Space
from harness.space_file import Spec

Recorded = Mapping[tuple[Input, Config], Measurement]


@dataclass(frozen=True)
class Recording:
    """Measurements by input and configuration, and where they come from.

    `compiler` is the one whose flags the recorded configurations have, None without flags:
    the search has to tune just those. `warnings` say what may be wrong with them.
    """

    environment: Environment
    measurements: Recorded
    compiler: str | None = None
    warnings: tuple[str, ...] = ()


class ReplayMeasurer:
    """Serves a recording; what it does not hold fails to launch, with a message that says so."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    @property
    def environment(self) -> Environment:
        """The recording's, marked as a replay: its numbers never mix with measured ones."""
        return self._recording.environment

    @property
    def compiler(self) -> str | None:
        """The compiler whose flags were tuned when it was recorded."""
        return self._recording.compiler

    @property
    def limits(self) -> DeviceLimits | None:
        """Not recorded: the recording itself tells what could run."""
        return None

    @property
    def is_replay(self) -> bool:
        """It is."""
        return True

    def expect(self, space: Space, configs: Iterable[Config]) -> None:
        """Nothing is compiled."""

    def recall(self, given: Input, measured: Iterable[Measurement]) -> None:
        """Nothing is shared: each configuration has its own in the recording."""

    def measure(
        self, space: Space, given: Input, config: Config, best_s: float | None
    ) -> Measurement:
        """The recorded measurement."""
        found = self._recording.measurements.get((given, config))
        if found is not None:
            return found
        message = f"the recording holds nothing of ({config}) on the input ({given})"
        return Measurement(config, given, Outcome.LAUNCH_FAILED, message=message)

    def measure_interleaved(
        self, space: Space, given: Input, configs: Sequence[Config], rounds: int
    ) -> list[Measurement]:
        """The recorded measurements: there are no others."""
        return [self.measure(space, given, config, None) for config in configs]

    def close(self) -> None:
        """Nothing is open."""


def read_recording(path: Path, spec: Spec) -> Recording:
    """Read a recording of a space.

    Raises RecordingError that says where it does not fit, ResultsError for a database that
    cannot be read.
    """
    kind = kind_of_file(path)
    if kind in (Kind.JSON, Kind.YAML):
        raise RecordingError(
            f"{path}: is {kind.value}; --recording takes a results database or a CSV file of the "
            "space's own columns, and --replay what other tuners recorded"
        )
    return _from_database(path, spec) if kind is Kind.DATABASE else _from_csv(path, spec)


def _from_csv(path: Path, spec: Spec) -> Recording:
    found = read_csv(path, spec)
    told = _replayed(path.name, "CSV", found.measurements)
    return Recording(told, found.measurements, found.compiler, found.warnings)


def _from_database(path: Path, spec: Spec) -> Recording:
    """The campaign of this program that was begun last."""
    with reading(str(path)) as engine, engine.connect() as connection:
        found = _campaign(path, campaigns(connection), spec)
        rows = read_measurements(connection, found.key, stages=SEARCHED)
    recorded = [row.measurement for row in rows]
    compiler = _compiler(path, recorded, spec)
    tuned = {parameter.name for parameter in spec.tuned_for(compiler)}
    measured = {(m.input, m.config): m for m in recorded if set(m.config) == tuned}
    told = found.environment
    return Recording(_replayed(told.device, told.platform, measured), measured, compiler)


def _campaign(path: Path, there: Sequence[Campaign], spec: Spec) -> Campaign:
    found = next((c for c in there if c.key.program_sha256 == spec.program_sha256), None)
    if found is None:
        names = ", ".join(sorted({c.space_name for c in there})) or "nothing"
        raise RecordingError(
            f"{path} holds measurements of {names}, none of {spec.name} with this very "
            "source, host module, launch and tolerance"
        )
    return found


def _compiler(path: Path, recorded: Sequence[Measurement], spec: Spec) -> str | None:
    """The compiler whose flags, beside the other parameters, are those that were tuned last."""
    if not recorded:
        raise RecordingError(f"{path} holds no measurement of {spec.name}")
    names = set(recorded[-1].config)
    compilers = [None, *sorted({p.compiler for p in spec.parameters if p.compiler is not None})]
    for compiler in compilers:
        if names == {parameter.name for parameter in spec.tuned_for(compiler)}:
            return compiler
    raise RecordingError(
        f"{path} holds configurations of {', '.join(sorted(names))}, but {spec.path} has "
        f"{', '.join(parameter.name for parameter in spec.parameters)}"
    )


def _replayed(device: str, platform: str, measurements: Recorded) -> Environment:
    """Recordings of other content are other environments: stored results of one must not
    answer for another."""
    digest = hashlib.sha256()
    for (given, config), m in measurements.items():
        samples = m.timing.samples_s if m.timing else ()
        digest.update(f"{given.json} {config.json} {m.outcome} {samples}\n".encode())
    driver = f"recording {digest.hexdigest()[:12]}"
    return Environment("replay", device, platform, driver, compiler="recorded")
