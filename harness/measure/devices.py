"""Choose a device and its backend, and say why, or what to install. List this machine's devices.

A person names devices by index, UUID, or a part of the name. A device must run an empty kernel
first: where it cannot, every configuration would fail, through no fault of its own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import BackendUnavailable, BuildFailed, LaunchFailed, UsageError
from harness.core.program import PYTHON, Binary, Launch, Program
from harness.core.records import BOOST, WARM
from harness.core.text import command_line, nearest, suggestion
from harness.measure.builds.cache import BuildCache
from harness.measure.cuda import gpus
from harness.measure.cuda.gpus import NVCC, VISIBLE, first_usable, open_cuda_compiler
from harness.measure.device.launcher import Compiler, Device
from harness.measure.listed_device import CUDA, MIG, OPENCL, ListedDevice
from harness.measure.opencl import driver as opencl
from harness.measure.sensors.nvml import other_processes

AUTO = "auto"
ALL = "all"
"""The name of all equal devices."""


@dataclass(frozen=True)
class Backend:
    """A chosen device, as it is sent to worker processes.

    `language` names the source that it compiles, `compiler` the flags that it understands, and
    `cuda_compiler` what compiles CUDA: NVRTC understands flags of nvcc. `device` is None where only
    an architecture of CUDA was named. `arch` is the architecture to compile for. `cache` is what a
    run finds in the device's caches, WARM or COLD, and `clock` BOOST or SUSTAINED. With
    `arch_specific`, kernels may use what only devices of exactly this architecture have (sm_90a).
    Where it `is_locked`, this process has the device's lock already.
    """

    language: str
    compiler: str
    why: str
    device: ListedDevice | None = None
    arch: str | None = None
    cache: str = WARM
    clock: str = BOOST
    arch_specific: bool = False
    cuda_compiler: str = NVCC
    is_locked: bool = False

    @property
    def is_gpu(self) -> bool:
        """Whether the device is a GPU."""
        return self.device is None or self.device.is_gpu

    def open_device(self) -> Device:
        """Open the device in this process."""
        if self.device is not None and self.device.interface == OPENCL:
            from harness.measure.opencl.device import OpenClDevice  # here: CUDA never needs it

            return OpenClDevice(self.device, self.cache)
        from harness.measure.cuda.device import CudaDevice  # here: OpenCL never needs it

        return CudaDevice(self.cache, self.device)

    def open_compiler(self) -> Compiler:
        """Open the compiler for the device in this process."""
        if self.device is not None and self.device.interface == OPENCL:
            return opencl.OpenClCompiler(self.device)
        assert self.arch is not None, "CUDA compiles for an architecture"
        return open_cuda_compiler(self.cuda_compiler, self.arch, specific=self.arch_specific)

    def require_working(self, device: Device, compiler: Compiler) -> None:
        """Raise BackendUnavailable, with the cause and the cure, where a GPU runs no empty kernel.

        PoCL loads its compiler first, which takes a second: a command that measures nothing new
        would wait for it in vain.
        """
        if self.is_gpu:
            self.run_empty_kernel(device, compiler)

    def run_empty_kernel(self, device: Device, compiler: Compiler) -> None:
        """Raise BackendUnavailable, with the cause and the cure, where no empty kernel runs."""
        try:
            binary = _empty_binary(compiler, self.language)
        except BuildFailed as error:
            raise BackendUnavailable(
                f"{compiler.identity} does not compile an empty kernel. "
                f"{_TO_BUILD[self.language]}.\n{error}"
            ) from None
        try:
            module = device.load(binary)
            device.launch(module, [Launch(_EMPTY_KERNEL, (1,), (1,), ())])
        except LaunchFailed as error:
            advice = empty_kernel_advice(self.language)
            if self.language == CUDA:
                from harness.measure.cuda.nvcc import ENVIRONMENT  # here: OpenCL never needs it

                variables = [name for name in ENVIRONMENT if os.environ.get(name)]
                if variables:
                    unset = f"Unset {', '.join(variables)}: flags may name another architecture"
                    advice = f"{unset}. {advice}"
            raise BackendUnavailable(
                f"an empty kernel that {compiler.identity} compiled does not run on the device: "
                f"{error}. {advice}"
            ) from None


# ------------------------------------------------------------------------------- choose a device


def choose_devices(requested: str, names: Sequence[str] = ()) -> tuple[Backend, ...]:
    """Return the devices that `names` name; `all` names all equal ones of a backend, and without
    names there is one device: for `auto` a GPU of CUDA, else an OpenCL GPU, else PoCL. `auto` looks
    for all that are named in CUDA before OpenCL.

    Raises UsageError for a name that fits no device or several, a device that is named twice, and
    devices that differ, since their times cannot be compared; BackendUnavailable where the
    requested backend cannot run.
    """
    if requested not in (AUTO, CUDA, OPENCL):
        from harness.core.options import BACKENDS  # here: device processes have no options

        raise UsageError(f"there is no backend `{requested}`; {suggestion(requested, BACKENDS)}")
    words = names_in(names)
    if "" in words:
        listing = command_line("devices")
        raise UsageError(f"--device has an empty name; `{listing}` lists the devices")
    if ALL in words and len(words) > 1:
        raise UsageError(f"--device {ALL} names all devices; leave the others out")
    missing: dict[str, str] = {}
    here: list[ListedDevice] = []
    unknown = ""
    for interface in (CUDA, OPENCL):
        if requested not in (AUTO, interface):
            continue
        try:
            devices = gpus.usable_gpus() if interface == CUDA else opencl.usable_devices()
            if not words:
                return (backend_of(devices[0], _why_first(requested, devices, missing)),)
        except BackendUnavailable as error:
            missing[interface] = str(error)
            continue
        here += devices
        chosen: list[tuple[ListedDevice, str]] = []
        for word in words:
            matches = _matches(word, devices)
            if not matches:
                unknown = word
                break
            chosen += matches
        else:
            _require_equal([device for device, _ in chosen])
            without = f"; no GPU of CUDA ({_short(missing[CUDA])})" if missing else ""
            return tuple(backend_of(device, why + without) for device, why in chosen)
    reasons = "".join(f"\n  {name} cannot be used: {why}" for name, why in missing.items())
    if here:
        raise _no_device(unknown, here, reasons)
    if words:
        raise BackendUnavailable(f"there is no device `{words[0]}`:{reasons}")
    if requested == AUTO:
        raise BackendUnavailable(f"no backend can run here.{reasons}")
    raise BackendUnavailable(f"--backend {requested} cannot run here: {missing[requested]}")


def backend_of(device: ListedDevice, why: str = "") -> Backend:
    """Return the backend of a device; raises BackendUnavailable where nothing compiles for it."""
    if device.interface == OPENCL:
        return Backend(OPENCL, "opencl", why, device)
    why = f"{why}; through {gpus.load_driver().package}"
    compiler = first_usable(device.arch)
    # With its architecture given, no process that compiles asks the driver for it again.
    return Backend(CUDA, "nvcc", why, device, device.arch, cuda_compiler=compiler)


def _why_first(requested: str, devices: Sequence[ListedDevice], missing: Mapping[str, str]) -> str:
    """Return why the first device of an interface is chosen where none is named."""
    first = devices[0]
    if requested != AUTO:
        why = "it was requested"
    elif not missing:
        why = "CUDA comes first, and a GPU is here"
    elif first.is_gpu:
        why = f"an OpenCL GPU is here, and CUDA is not: {missing[CUDA]}"
    else:
        why = f"no GPU can be used ({_short(missing[CUDA])})"
    if first.interface == OPENCL and len({device.kind for device in devices}) > 1:
        order = "GPUs come first, then PoCL, then other CPUs"
        why += f"; device {first.index} is the first of {len(devices)}: {order}"
    return why


def _short(reason: str) -> str:
    """Return the beginning of a reason: the whole one is printed where CUDA is requested."""
    return reason.partition(":")[0]


def choose_one(requested: str, names: Sequence[str] = ()) -> Backend:
    """Return the only device that `choose_devices` finds; raises UsageError for several."""
    chosen = choose_devices(requested, names)
    if len(chosen) > 1:
        devices = [backend.device for backend in chosen if backend.device is not None]
        raise UsageError(
            f"--device names {len(chosen)} devices, but this command measures on one:\n"
            f"{_listed(devices)}"
        )
    return chosen[0]


def _require_equal(devices: Sequence[ListedDevice]) -> None:
    """Raise UsageError for a device that is there twice, and for devices that differ."""
    for device in devices:
        if devices.count(device) > 1:
            raise UsageError(f"--device names a device twice: {device}")
    if len({device.kind for device in devices}) > 1:
        raise UsageError(
            "--device names devices that differ, and times of different devices cannot be "
            "compared; name equal ones, and run the command once for each model:\n"
            f"{_listed(devices)}"
        )


# --------------------------------------------------------------------------------- name a device


def names_in(options: Sequence[str]) -> list[str]:
    """Return the names that `--device` options have, which commas separate."""
    return [name.strip() for option in options for name in option.split(",")]


def _matches(name: str, devices: Sequence[ListedDevice]) -> list[tuple[ListedDevice, str]]:
    """Return the device that a name means, and why it is this one; nothing where it fits none.

    ALL means all GPUs, or all CPUs where there is no GPU, of the first device's platform. A part
    of the name of several equal devices means the first of them. Raises UsageError where devices
    differ that fit the name.
    """
    if name == ALL:
        group = devices[0].group
        return [(device, f"--device {ALL}") for device in devices if device.group == group]
    folded = name.casefold()
    is_uuid = folded.startswith(("gpu-", "mig-"))
    # The most exact first: the index, the UUID, the name.
    fits = [d for d in devices if name in (d.index, d.index.rpartition(":")[2])]
    if is_uuid and not fits:
        fits = [device for device in devices if device.uuid.casefold().startswith(folded)]
    if not fits:
        fits = [device for device in devices if device.name.casefold() == folded]
    if not fits:
        fits = [device for device in devices if folded in device.name.casefold()]
    if not fits:
        return []
    first = fits[0]
    if len(fits) == 1:
        return [(first, f"--device {name} names it")]
    if len({device.kind for device in fits}) == 1 and not is_uuid:
        place = first.uuid or first.bus_id
        which = f"{first.index} ({place})" if place else first.index
        return [(first, f"device {which} is the first of {len(fits)} that --device {name} names")]
    raise UsageError(
        f"--device {name} fits {len(fits)} devices; name one of them by its index:\n{_listed(fits)}"
    )


def _no_device(name: str, here: Sequence[ListedDevice], reasons: str) -> UsageError:
    """Return the error where a name fits no device."""
    names = [ALL]
    for device in here:
        names += [device.index, device.uuid, device.name, *device.name.split()]
    near = nearest(name, names)
    hint = f"; did you mean `{near}`?" if near else "."
    hidden = os.environ.get(VISIBLE)
    others = ""
    if hidden is not None:
        others = f"\n{VISIBLE}={hidden} hides other GPUs"
    elif name.upper().startswith(MIG):
        others = f"\nCUDA shows one instance of a divided GPU: set {VISIBLE}={name}"
    return UsageError(
        f"there is no device `{name}`{hint} These are here:\n{_listed(here)}{others}{reasons}"
    )


def _device_line(device: ListedDevice) -> str:
    """Describe a device in a line that begins with its index."""
    return f"  {device.index:<4} {device}"


def _listed(devices: Sequence[ListedDevice]) -> str:
    return "\n".join(map(_device_line, devices))


# ------------------------------------------------------------------------------ list all devices


def inventory() -> Iterator[str]:
    """Yield the lines of the list, as `--device` names the devices."""
    yield CUDA
    try:
        gpus.require_driver()
        here = gpus.list_gpus()
    except BackendUnavailable as error:
        yield f"  cannot be used: {error}"
    else:
        yield from _gpu_lines(here)
    yield OPENCL
    try:
        for device in opencl.usable_devices():
            yield _use_line(device)
    except BackendUnavailable as error:
        yield f"  cannot be used: {error}"


def _gpu_lines(here: Sequence[ListedDevice]) -> Iterator[str]:
    reasons: dict[str, str] = {}  # why kernels for an architecture cannot be compiled or run
    for gpu in here:
        if gpu.arch not in reasons:
            reasons[gpu.arch] = ""
            try:
                gpus.load_driver()
                first_usable(gpu.arch)
            except BackendUnavailable as error:
                reasons[gpu.arch] = f"; cannot be used: {error}"
        yield _use_line(gpu) + reasons[gpu.arch]
    hidden = os.environ.get(VISIBLE)
    buses = [gpu.bus_id for gpu in here]
    if hidden is not None:
        yield f"  {VISIBLE}={hidden} chooses and numbers them"
    elif buses != sorted(buses):
        order = "CUDA_DEVICE_ORDER=PCI_BUS_ID"
        yield f"  nvidia-smi numbers them otherwise; with {order}, CUDA does as well"


def _use_line(device: ListedDevice) -> str:
    """Describe a device, and which processes compute on it."""
    line = _device_line(device)
    others = other_processes(device.bus_id, device.instance)
    if others:
        line += f"; used by {', '.join(others)}"
    return line


# ------------------------------------------------------------------------- run an empty kernel

_EMPTY_KERNEL = "harness_empty"
_EMPTY_KERNELS = {
    CUDA: f'extern "C" __global__ void {_EMPTY_KERNEL}() {{}}\n',
    OPENCL: f"kernel void {_EMPTY_KERNEL}() {{}}\n",
}
_TO_BUILD = {
    CUDA: "Set NVCC_CCBIN to a C++ compiler that this nvcc supports, or CUDACXX to another nvcc",
    OPENCL: "Update the device's driver, or see with clinfo whether another device works",
}
_TO_RUN = {
    CUDA: "See whether nvidia-smi works, and what the system's log (dmesg) says of the GPU",
    OPENCL: "See whether clinfo works, and update the device's driver",
    PYTHON: "See whether Python alone imports the framework and computes with it",
}


def empty_kernel_advice(language: str) -> str:
    """Say what to do where a device does not open, or run an empty kernel."""
    if language == OPENCL and shutil.which("ld") is None:
        return "PoCL links kernels with `ld`, which is not on PATH. Install binutils"
    return _TO_RUN[language]


def _empty_binary(compiler: Compiler, language: str) -> Binary:
    """Return the empty kernel from the build cache, or compile it."""
    text = _EMPTY_KERNELS[language]
    if language == CUDA:
        host_compiler = shutil.which(os.environ.get("NVCC_CCBIN") or "gcc")
        if host_compiler is not None:  # nvcc may refuse the next one
            path = Path(host_compiler).resolve()
            text += f"// {path} of {path.stat().st_mtime_ns}\n"
    program = Program(text, (), ())
    builds = BuildCache()
    binary = builds.get(program.key(compiler.identity))
    if binary is None:
        binary = compiler.compile(program)
        builds.put(binary)
    return binary
