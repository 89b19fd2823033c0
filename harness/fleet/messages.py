"""What the driver asks of workers, and what they answer.

Every message is plain data; `harness.fleet.wire` checks it against these types on arrival. A worker
reads the space of a program itself, from the files of its bundle, so that these requests name
configurations and inputs alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from harness.core.errors import (
    BackendUnavailable,
    BuildFailed,
    DataDoesNotFit,
    DeviceBusy,
    HarnessError,
    HostModuleError,
    HostTooSlow,
    LaunchFailed,
    OutOfDeviceMemory,
    UsageError,
)
from harness.core.program import Program
from harness.core.records import Config, DeviceLimits, Environment, Input, Measurement, Value
from harness.measure.backends.choose import Backend
from harness.measure.kernel_job import KernelJob
from harness.measure.occasions import Block
from harness.measure.processes import ProcessLost
from harness.space_file import Notice

T = TypeVar("T")


@dataclass(frozen=True)
class OfferedDevice:
    """A device of a worker; `uuid` identifies it in the whole fleet.

    Without a backend it is the machine itself, which runs programs.
    """

    uuid: str
    name: str
    backend: Backend | None


@dataclass(frozen=True)
class Offer:
    """What a worker has: its devices, how many builds it runs at once, and why it has no others."""

    harness_version: str
    host_name: str
    devices: tuple[OfferedDevice, ...]
    builders: int
    unavailable: tuple[str, ...] = ()


@dataclass(frozen=True)
class DeviceSession:
    """How a driver uses a device: with which caches, compiler and files.

    `host` is the path of the host module in the bundle of this digest. `driver` identifies the
    campaign that asks, and `run` its process: one that was ended and runs again takes its devices
    back at once.
    """

    driver: str
    run: str
    uuid: str
    cache: str
    arch_specific: bool
    cuda_compiler: str
    bundle: str
    host: str


@dataclass(frozen=True)
class Describe:
    """Ask for a device's facts: DeviceFacts."""

    kind: Literal["describe"] = "describe"


@dataclass(frozen=True)
class TryEmptyKernel:
    """Ask whether an empty kernel runs: True, or the failure."""

    kind: Literal["try_empty_kernel"] = "try_empty_kernel"


@dataclass(frozen=True)
class Release:
    """Leave the device to others: True."""

    kind: Literal["release"] = "release"


@dataclass(frozen=True)
class NameArguments:
    """Ask for the names of a kernel's arguments on an input: MadeData."""

    problem: Input
    kind: Literal["name_arguments"] = "name_arguments"


@dataclass(frozen=True)
class MadeData:
    """The names of the arguments of an input."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class RunOne:
    """Ask for one configuration's Measurement."""

    job: KernelJob
    timeout_s: float
    seed: int
    kind: Literal["run"] = "run"


@dataclass(frozen=True)
class RunInterleaved:
    """Ask for interleaved measurements: Together."""

    jobs: tuple[KernelJob, ...]
    block: Block
    timeout_s: float
    seed: int
    kind: Literal["run_interleaved"] = "run_interleaved"


DeviceCall = Describe | TryEmptyKernel | NameArguments | RunOne | RunInterleaved


@dataclass(frozen=True)
class DeviceRequest:
    """A call of a device, by a session."""

    session: DeviceSession
    call: DeviceCall | Release


@dataclass(frozen=True)
class BuildRequest:
    """Ask for a Binary. `program` names its folders by their paths in the bundle of this digest.

    `backend` says which compiler, for which architecture; the build may take `timeout_s`.
    """

    backend: Backend
    program: Program
    bundle: str
    timeout_s: float


@dataclass(frozen=True)
class ProcessLostState:
    """The flags of a ProcessLost."""

    hung: bool
    idle: bool
    by_chance: bool


@dataclass(frozen=True)
class Failure:
    """An error of a worker that is part of its interface; `kind` names its class."""

    kind: str
    message: str
    lost: ProcessLostState | None = None

    @classmethod
    def of(cls, error: HarnessError | ProcessLost) -> Failure:
        """Describe an error."""
        if isinstance(error, ProcessLost):
            state = ProcessLostState(error.hung, error.idle, error.by_chance)
            return cls("ProcessLost", str(error), state)
        known = next(kind for kind in _ERRORS.values() if isinstance(error, kind))
        return cls(known.__name__, str(error))

    def error(self) -> Exception:
        """Return the error that this describes, to be raised on the driver."""
        if self.lost is not None:
            state = self.lost
            return ProcessLost(self.message, state.hung, state.idle, state.by_chance)
        return _ERRORS.get(self.kind, BackendUnavailable)(self.message)


_ERRORS: dict[str, type[HarnessError]] = {
    kind.__name__: kind
    for kind in (
        HostTooSlow,
        OutOfDeviceMemory,
        LaunchFailed,
        DataDoesNotFit,
        HostModuleError,
        BuildFailed,
        DeviceBusy,
        BackendUnavailable,
        UsageError,
        HarnessError,
    )
}
"""The errors that workers raise, each before the classes that it derives from."""


@dataclass(frozen=True)
class WorkerAnswer(Generic[T]):
    """The answer to a request: a result, a failure, or that the worker lacks the bundle."""

    result: T | None = None
    failure: Failure | None = None
    lacks_bundle: bool = False


@dataclass(frozen=True)
class StoredBundle:
    """The answer to a bundle: the digest under which the worker keeps it."""

    digest: str


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
