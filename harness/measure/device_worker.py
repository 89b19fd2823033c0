"""What is run in the worker processes: on the device, and in the builders beside it.

A worker keeps what it has opened; the device's process also keeps one input's data.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import LaunchFailed
from harness.core.program import Binary, Program
from harness.core.records import DeviceLimits, Environment, Input, Measurement, Outcome
from harness.measure.backends.base import Compiler, Device
from harness.measure.backends.choose import Backend
from harness.measure.build_cache import BuildCache
from harness.measure.kernel_data import KernelData, make_kernel_data
from harness.measure.kernel_runner import KernelJob, measure_interleaved, measure_kernel

_OTHER_SEED = 1
"""Of the data that a doubted time is proved on; measurements have that of seed 0."""


@dataclass(frozen=True)
class DeviceFacts:
    """What the device's process tells about the device."""

    environment: Environment
    limits: DeviceLimits
    shares_cpu: bool
    compiler: str
    arch: str | None  # of NVIDIA's GPUs, such as sm_90


@dataclass
class _Prepared:
    """An input's data on the device; `fresh` until a kernel has run on it."""

    given: Input
    case: KernelData
    fresh: bool = True


_device: Device | None = None
_compiler: Compiler | None = None
_prepared: _Prepared | None = None


def _opened(backend: Backend) -> Device:
    global _device
    if _device is None:
        # For harness.stats.timing, and now: later a kernel's deadline would run meanwhile.
        import scipy.special  # noqa: F401

        _device = backend.open_device()
    return _device


def _opened_compiler(backend: Backend) -> Compiler:
    global _compiler
    if _compiler is None:
        _compiler = backend.open_compiler()
    return _compiler


def describe(backend: Backend) -> DeviceFacts:
    """Open the device and tell what it is; raises BackendUnavailable."""
    device, compiler = _opened(backend), _opened_compiler(backend)
    environment = dataclasses.replace(device.environment, compiler=compiler.identity)
    return DeviceFacts(
        environment, device.limits, device.shares_cpu, compiler.identity, compiler.arch
    )


def compile_program(backend: Backend, program: Program) -> Binary:
    """Compile and keep in the build cache; raises BuildFailed."""
    binary = _opened_compiler(backend).compile(program)
    BuildCache().put(binary)
    return binary


def prepare(backend: Backend, host: Path, given: Input) -> tuple[str, ...]:
    """Make the input's data and bind it to the device; returns the arguments' names.

    Raises HostModuleError, or LaunchFailed where the data does not fit on the device.
    """
    global _prepared
    _prepared = None  # lets the memory of the input before go
    case = make_kernel_data(host, given)
    _opened(backend).bind(case.arguments)
    _prepared = _Prepared(given, case)
    return tuple(case.arguments)


def run(backend: Backend, job: KernelJob) -> tuple[Measurement | None, bool]:
    """The measurement, None where the input is not prepared here; is the device still good?"""
    if _prepared is None or _prepared.given != job.input:
        return None, True
    device = _opened(backend)
    found = measure_kernel(device, _prepared.case, job)
    if found.outcome is Outcome.WRONG_RESULT and not _prepared.fresh:
        # Another configuration may have written where it should not: on data of its own, now.
        if not _renewed(device, _prepared):
            return found, False
        found = measure_kernel(device, _prepared.case, job)
    _prepared.fresh = False
    return found, device.healthy


def prove(backend: Backend, host: Path, job: KernelJob) -> tuple[Measurement, bool]:
    """The measurement on other data of the same input; is the device still good?

    Afterwards no input is prepared. Raises HostModuleError, or LaunchFailed where the data does
    not fit on the device.
    """
    global _prepared
    _prepared = None
    case = make_kernel_data(host, job.input, seed=_OTHER_SEED)
    device = _opened(backend)
    device.bind(case.arguments)
    return measure_kernel(device, case, job), device.healthy


def _renewed(device: Device, prepared: _Prepared) -> bool:
    """Bind the data again; False where the device does not take it any more."""
    try:
        device.bind(prepared.case.arguments)
    except LaunchFailed:
        return False
    prepared.case.bound_again()
    prepared.fresh = True
    return True


def run_interleaved(
    backend: Backend, jobs: Sequence[KernelJob], rounds: int
) -> tuple[list[Measurement] | None, bool]:
    """The measurements, None where the input is not prepared here; is the device still good?"""
    if _prepared is None or _prepared.given != jobs[0].input:
        return None, True
    device = _opened(backend)
    renewed = _prepared.fresh or _renewed(device, _prepared)
    found = measure_interleaved(device, _prepared.case, jobs, rounds)
    _prepared.fresh = False
    return found, renewed and device.healthy
