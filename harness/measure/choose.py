"""Choose the measurer of a space: of a program, or of kernels or a Python callable on a device.

`open_measurer` chooses, `open_measurers` does so for several equal devices, and `open_kernels`
opens on a device that is chosen already.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Protocol, runtime_checkable

from harness.core.cache import Cache, content_key
from harness.core.errors import BackendUnavailable, HostModuleError, LaunchFailed, UsageError
from harness.core.program import PYTHON
from harness.core.records import BOOST, COLD, WARM
from harness.core.text import command_line, counted
from harness.measure.cuda.gpus import NVCC, NVRTC, require_cooperative, why_unusable
from harness.measure.devices import Backend, backend_of, choose_devices, choose_one
from harness.measure.kernels.measurer import KernelMeasurer
from harness.measure.kernels.peak import Amounts, measure_peak
from harness.measure.measurer import Measurer
from harness.measure.opencl import driver as opencl
from harness.measure.process.device_lock import locked
from harness.measure.programs.measurer import ProgramMeasurer
from harness.measure.python.backend import python_backend
from harness.measure.python.measurer import CallableMeasurer
from harness.space_file import Spec
from harness.space_file.compiler import AUTO

COMMAND = "command"


def open_measurer(
    spec: Spec, requested: str, owner: Measurer | None = None, devices: Sequence[str] = ()
) -> tuple[Measurer, str]:
    """Open the measurer of a space with the requested backend, on the device that `devices` name
    where they name one; return it and why it was chosen.

    It runs kernels, or starts programs, in the process of the measurer `owner`, which must be
    closed later: two processes differ in speed.

    Raises UsageError for a backend that does not fit the space, BackendUnavailable for one that
    cannot run here.
    """
    if _runs_program(spec, requested):
        if requested not in (AUTO, COMMAND):
            raise UsageError(
                f"{spec.path} tunes a program, which --backend {requested} cannot run; "
                f"leave --backend out, or write --backend {COMMAND}"
            )
        if devices:
            raise UsageError(
                f"{spec.path} tunes a program, which chooses its device itself; leave --device "
                "out, or set a variable such as CUDA_VISIBLE_DEVICES in its `environment`"
            )
        started = owner if isinstance(owner, ProgramMeasurer) else None
        return ProgramMeasurer(spec, started), "the space tunes a program"
    backend = _requested(spec, requested, devices)
    if not isinstance(owner, KernelMeasurer):
        backend = with_cuda_compiler(spec, backend)
        return open_kernels(spec, backend), backend.why
    _require_alike(spec, backend, owner)
    backend = replace(backend, cuda_compiler=owner.cuda_compiler)
    return open_kernels(spec, backend, owner), backend.why


def open_kernels(
    spec: Spec,
    backend: Backend,
    owner: KernelMeasurer | None = None,
    *,
    equal: KernelMeasurer | None = None,
    devices: int = 1,
) -> KernelMeasurer:
    """Open the measurer of a kernel or a Python callable; see KernelMeasurer.

    Where the space says its work, the measurer has the device's peak, which is measured once in an
    environment and stays in the cache.
    """
    kind = KernelMeasurer if spec.framework is None else CallableMeasurer
    measurer = kind(spec, backend, owner, equal=equal, devices=devices)
    if spec.work is None:
        return measurer
    key = content_key("peak", measurer.environment.fingerprint)
    try:
        measurer.peak = Cache.of_user().recall(key, partial(_measured_peak, measurer, backend))
    except (BackendUnavailable, HostModuleError, LaunchFailed) as error:
        measurer.notices += (f"The device's peak is not known: {error}.",)
    except BaseException:  # also Ctrl-C
        measurer.close()
        raise
    return measurer


def _measured_peak(measurer: KernelMeasurer, backend: Backend) -> Amounts:
    """Measure the peak of a measurer's device with kernels of CUDA or OpenCL; raises
    BackendUnavailable where neither lists the device of Python callables."""
    kernels = backend
    owner: KernelMeasurer | None = measurer
    if measurer.framework is not None:
        device = backend.device
        if device is None or not device.is_gpu:
            device = next((cpu for cpu in opencl.usable_devices() if not cpu.is_gpu), None)
        if device is None:
            raise BackendUnavailable("OpenCL lists no CPU")
        kernels = backend_of(device)
        kernels = replace(kernels, cache=backend.cache, clock=backend.clock, is_locked=True)
        owner = None
    return measure_peak(
        lambda spec: KernelMeasurer(spec, kernels, owner, equal=owner), backend.is_gpu
    )


def open_measurers(
    spec: Spec, requested: str, devices: Sequence[str], most: int
) -> tuple[dict[str, Measurer], str]:
    """Open a measurer for each device that `devices` name, but at most so many; return them by the
    devices' names, and why they were chosen. They share their builds: close the first one last.

    Raises what `open_measurer` raises.
    """
    if _runs_program(spec, requested) or _runs_callable(spec, requested):
        measurer, why = open_measurer(spec, requested, devices=devices)
        name = PYTHON if spec.framework else COMMAND
        return {name: measurer}, why
    chosen = choose_devices(requested, devices)
    backends = [fitted_backend(spec, backend) for backend in chosen[:most]]
    why = backends[0].why
    if len(chosen) > len(backends):
        why += f"; {counted(len(chosen) - len(backends), 'more device')} would have no input"
    names = [f"device {backend.device.index}" for backend in backends if backend.device]
    return dict(zip(names, _open_equal(spec, backends), strict=True)), why


def _open_equal(spec: Spec, backends: Sequence[Backend]) -> list[KernelMeasurer]:
    """Open the measurers of equal devices, which measure at once; all or none."""
    with ExitStack() as opened:

        def open_device(backend: Backend, first: KernelMeasurer | None) -> KernelMeasurer:
            measurer = open_kernels(spec, backend, equal=first, devices=len(backends))
            opened.callback(measurer.close)
            return measurer

        first = open_device(backends[0], None)
        with ThreadPoolExecutor() as threads:
            others = list(threads.map(partial(open_device, first=first), backends[1:]))
        opened.pop_all()
    return [first, *others]


def require_free(spec: Spec, requested: str, devices: Sequence[str]) -> None:
    """Raise DeviceBusy where another process measures on the device that `open_measurer` would
    open, UsageError and BackendUnavailable as it does."""
    if _runs_program(spec, requested):
        return
    device = _requested(spec, requested, devices).device
    if device is not None:
        with locked(device.identity, str(device)):
            pass


def _runs_program(spec: Spec, requested: str) -> bool:
    return spec.program is not None or requested == COMMAND


def _runs_callable(spec: Spec, requested: str) -> bool:
    return spec.framework is not None or requested == PYTHON


def _requested(spec: Spec, requested: str, devices: Sequence[str]) -> Backend:
    """Return the backend that is requested for kernels, as the space wants it."""
    if _runs_callable(spec, requested):
        return measuring_as(spec, python_backend(spec, requested, devices))
    return _fitting(spec, choose_one(requested, devices))


def _require_alike(spec: Spec, backend: Backend, owner: KernelMeasurer) -> None:
    """Raise UsageError where a measurer does not measure as this space says."""
    environment = owner.environment
    compiler = owner.cuda_compiler
    if spec.compilers.cuda != AUTO:
        compiler = spec.compilers.cuda
    kernels = "OpenCL or CUDA"
    for what, here, there, advice in (
        ("is a kernel of", spec.framework or kernels, owner.framework or kernels,
         "compare spaces of one kind"),
        ("is measured with the caches", backend.cache, environment.cache,
         "write the same `measure: {cache: ...}` in both"),
        ("is measured at the clock", backend.clock, environment.clock,
         "write the same `measure: {clock: ...}` in both"),
        ("is compiled with", compiler, owner.cuda_compiler,
         "write the same `compiler: {cuda: ...}` in both"),
    ):  # fmt: skip
        if here != there:
            raise UsageError(
                f"{spec.path} {what} {here}, and the space that it is compared with: {there}; "
                f"{advice}"
            )


def fitted_backend(spec: Spec, backend: Backend) -> Backend:
    """Return the backend as the space wants it, with the compiler that it names.

    Raises UsageError where there is no source, BackendUnavailable without that compiler.
    """
    return with_cuda_compiler(spec, _fitting(spec, backend))


def _fitting(spec: Spec, backend: Backend) -> Backend:
    """Return the backend as the space wants it; raises UsageError where there is no source."""
    if backend.language not in spec.sources:
        raise UsageError(_missing_source(spec, backend))
    if spec.is_cooperative:
        require_cooperative()
    return measuring_as(spec, replace(backend, arch_specific=spec.compilers.nvcc.arch_specific))


def measuring_as(spec: Spec, backend: Backend) -> Backend:
    """Return the backend that measures with the caches and at the clock that the space says.

    A kernel of an application finds its data on a GPU in memory, since other kernels ran meanwhile,
    and a GPU's cache holds all of a small input. To empty a CPU's takes longer than most kernels.
    """
    cache = getattr(spec.measure, "cache", None) or (COLD if backend.is_gpu else WARM)
    clock = getattr(spec.measure, "clock", BOOST)
    return replace(backend, cache=cache, clock=clock)


def with_cuda_compiler(spec: Spec, backend: Backend) -> Backend:
    """Return the backend with the compiler that a space names, else as it is: with nvcc, where it
    can be used, since most applications are built with it.

    Its `why` says which one compiles. Raises BackendUnavailable where the named one cannot be used.
    """
    if backend.language != "cuda":
        return backend
    arch = backend.arch or ""
    name = backend.cuda_compiler
    why = ""
    if spec.compilers.cuda != AUTO:
        name = spec.compilers.cuda
        why = ": the space says so"
        reason = why_unusable(name, arch)
        if reason is not None:
            raise BackendUnavailable(
                f"{spec.path} says `compiler: {{cuda: {name}}}`, but it cannot be used here: "
                f"{reason}"
            )
    elif name == NVRTC:
        missing = why_unusable(NVCC, arch) or ""
        why = ": " + missing.partition(": ")[0]
    title = "NVRTC" if name == NVRTC else name
    why = f"{backend.why}; {title} compiles{why}"
    return replace(backend, cuda_compiler=name, why=why)


def _missing_source(spec: Spec, backend: Backend) -> str:
    """Say that a space has no source for a backend, and what to do about it."""
    languages = " and ".join(spec.sources)
    message = (
        f"{spec.path} has no {backend.language} source, only {languages}, and the backend is "
        f"{backend.language}: {backend.why}"
    )
    if "cuda" in spec.sources:
        compiles = command_line("check", str(spec.path), "--arch", "sm_90")
        return f"{message}. Run it with an NVIDIA GPU; without one, `{compiles}` compiles it"
    return f"{message}. Write --backend {languages}, or add a source to kernel.source"


@runtime_checkable
class _FlagChecker(Protocol):
    """A measurer whose compiler may not know all flags of a space."""

    def fitted(self, spec: Spec) -> Spec:
        """Return the space without the flags that the compiler does not know."""


def fitted_to(spec: Spec, measurer: Measurer) -> Spec:
    """Return the space without the catalogue's flags that the measurer's compiler does not know.

    The notices of the space name them. Raises BackendUnavailable where the compiler refuses even an
    empty program.
    """
    return measurer.fitted(spec) if isinstance(measurer, _FlagChecker) else spec
