"""What the driver asks of a worker that measures a program, and what it answers.

The worker reads the space itself, from the files of its bundle, so that requests name
configurations and inputs alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from harness.core.records import Config, DeviceLimits, Environment, Input, Measurement, Value
from harness.fleet.messages import WorkerAnswer
from harness.space_file import Notice


@dataclass(frozen=True)
class ProgramSession:
    """How a driver uses a machine: with which files, space and options of measuring.

    `space` is the path of the space in the bundle of this digest, and `sha256` that of what it
    measures. `options` is the JSON object of the space's `measure`. `driver` identifies the
    campaign that asks, and `run` the process: one that runs again takes its machine back at once,
    and finds nothing there of what it did not store.
    """

    driver: str
    run: str
    bundle: str
    space: str
    sha256: str
    options: str


@dataclass(frozen=True)
class DescribePrograms:
    """Ask what measures there: ProgramsHere."""

    kind: Literal["describe"] = "describe"


@dataclass(frozen=True)
class ProgramsHere:
    """What measures programs on a worker. `left` has the values of those flags of which the
    compiler does not know all, and `flag_notices` says so."""

    environment: Environment
    limits: DeviceLimits
    notices: tuple[str, ...]
    left: Mapping[str, tuple[Value, ...]]
    flag_notices: tuple[Notice, ...]


@dataclass(frozen=True)
class ExpectPrograms:
    """Announce what will be measured next: True."""

    configs: tuple[Config, ...]
    kind: Literal["expect"] = "expect"


@dataclass(frozen=True)
class RecallPrograms:
    """Announce earlier measurements: True."""

    problem: Input
    measured: tuple[Measurement, ...]
    kind: Literal["recall"] = "recall"


@dataclass(frozen=True)
class MeasureProgram:
    """Ask for one configuration's Measurement."""

    problem: Input
    config: Config
    best_s: float | None
    kind: Literal["measure"] = "measure"


@dataclass(frozen=True)
class MeasurePrograms:
    """Ask for interleaved Measurements."""

    problem: Input
    configs: tuple[Config, ...]
    rounds: int
    seeds: tuple[int, ...]
    kind: Literal["measure_interleaved"] = "measure_interleaved"


@dataclass(frozen=True)
class ReleasePrograms:
    """Leave the machine to others: True."""

    kind: Literal["release"] = "release"


ProgramCall = (
    DescribePrograms
    | ExpectPrograms
    | RecallPrograms
    | MeasureProgram
    | MeasurePrograms
    | ReleasePrograms
)


@dataclass(frozen=True)
class ProgramRequest:
    """A call of a machine, by a session."""

    session: ProgramSession
    call: ProgramCall


PROGRAM_RESULTS: Mapping[type, Any] = {
    DescribePrograms: WorkerAnswer[ProgramsHere],
    ExpectPrograms: WorkerAnswer[bool],
    RecallPrograms: WorkerAnswer[bool],
    MeasureProgram: WorkerAnswer[Measurement],
    MeasurePrograms: WorkerAnswer[tuple[Measurement, ...]],
    ReleasePrograms: WorkerAnswer[bool],
}
"""The type of the answer to each call."""
