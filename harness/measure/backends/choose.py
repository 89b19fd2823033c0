"""Choose a backend, and say why; or what to install where the requested one cannot run.

A person names devices by index, UUID, or a part of the name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from harness.core.errors import BackendUnavailable, UsageError
from harness.core.invocation import command_line
from harness.core.records import WARM
from harness.core.text import nearest, suggestion
from harness.measure.backends import cuda, cuda_device, empty_kernel, opencl, opencl_device
from harness.measure.backends.base import Compiler, Device
from harness.measure.backends.cuda_compilers import NVCC, first_usable, open_cuda_compiler
from harness.measure.backends.cuda_driver import MIG, VISIBLE, CudaGpu

_UUID = re.compile(r"(gpu|mig)-", re.IGNORECASE)


class Nameable(Protocol):
    """A device of CUDA or OpenCL. `uuid` and `bus_id` are empty where they are not known."""

    @property
    def index(self) -> str:
        """Its number, or those of its platform and of itself: `0:1`."""

    @property
    def name(self) -> str:
        """The name of its model."""

    @property
    def uuid(self) -> str:
        """Its UUID, as nvidia-smi writes it."""

    @property
    def bus_id(self) -> str:
        """Its PCI bus id."""

    @property
    def kind(self) -> Hashable:
        """What equal devices have in common."""


D = TypeVar("D", bound=Nameable)

ALL = "all"
"""The name of all equal devices."""


def names_in(options: Sequence[str]) -> list[str]:
    """Return the names that `--device` options hold, each of them separated by commas."""
    return [name.strip() for option in options for name in option.split(",")]


class UnknownDevice(Exception):
    """No device has the name that is this exception's argument."""


def find_device(name: str, devices: Sequence[D]) -> tuple[D, str]:
    """Return the device that a name means, and why it is this one.

    A part of the name of several equal devices means the first of them. Raises UnknownDevice, and
    UsageError where devices differ that fit the name.
    """
    found = _fitting(name, devices)
    if not found:
        raise UnknownDevice(name)
    first = found[0]
    if len(found) == 1:
        return first, f"--device {name} names it"
    if len({device.kind for device in found}) == 1 and not _UUID.match(name):
        which = first.uuid or first.bus_id
        which = f"{first.index} ({which})" if which else first.index
        return first, f"device {which} is the first of {len(found)} that --device {name} names"
    raise UsageError(
        f"--device {name} fits {len(found)} devices; name one of them by its index:\n"
        + "\n".join(device_line(device) for device in found)
    )


def device_line(device: Nameable) -> str:
    """Describe a device in a line that begins with its index."""
    return f"  {device.index:<4} {device}"


def suggest_device(name: str, devices: Sequence[Nameable]) -> str:
    """Return the end of an error about an unknown name: `; did you mean ...?`, or a full stop."""
    words = [word for device in devices for word in _names(device)]
    near = nearest(name, [*words, ALL])
    return f"; did you mean `{near}`?" if near else "."


def _names(device: Nameable) -> Iterator[str]:
    words = [word for word in device.name.split() if len(word) > 1]
    yield from filter(None, (device.index, device.uuid, device.name, *words))


def _fitting(name: str, devices: Sequence[D]) -> list[D]:
    """Return the devices that a name fits, by the first rule that fits any."""
    for rule in _rules(name):
        found = [device for device in devices if rule(device)]
        if found:
            return found
    return []


def _rules(name: str) -> Iterator[Callable[[Nameable], bool]]:
    """Yield what a name may be, the most exact first."""
    folded = name.casefold()
    yield lambda device: device.index == name
    if name.isdecimal():
        yield lambda device: device.index.rpartition(":")[2] == str(int(name))
    if _UUID.match(name):
        yield lambda device: device.uuid.casefold().startswith(folded)
    yield lambda device: device.name.casefold() == folded
    yield lambda device: folded in device.name.casefold()


AUTO = "auto"
_INTERFACES = ("cuda", "opencl")
BACKENDS = (AUTO, *_INTERFACES, "command")

Found = CudaGpu | opencl.DeviceName
"""A device of CUDA or of OpenCL."""


@dataclass(frozen=True)
class Backend:
    """A chosen device, as it is sent to worker processes.

    `language` names the source that it compiles, `compiler` the flags that it understands, and
    `cuda_compiler` what compiles CUDA: NVRTC understands flags of nvcc.
    `arch` is the architecture to compile for; None means that of this machine's device. `cache` is
    what a run finds in the device's caches, WARM or COLD. With `arch_specific`, kernels may use
    what only devices of exactly this architecture have (sm_90a).
    """

    language: str
    compiler: str
    why: str
    opencl_device: opencl.DeviceName | None = None
    arch: str | None = None
    cache: str = WARM
    arch_specific: bool = False
    cuda_gpu: CudaGpu | None = None
    cuda_compiler: str = NVCC

    @property
    def device(self) -> Found | None:
        """The device; None where only an architecture of CUDA was named."""
        return self.opencl_device or self.cuda_gpu

    @property
    def is_gpu(self) -> bool:
        """Whether the device is a GPU."""
        return self.opencl_device is None or self.opencl_device.is_gpu

    def open_device(self) -> Device:
        """Open the device in this process."""
        if self.opencl_device is not None:
            return opencl_device.OpenClDevice(self.opencl_device, self.cache)
        return cuda_device.CudaDevice(self.cache, self.cuda_gpu)

    def open_compiler(self) -> Compiler:
        """Open the compiler for the device in this process."""
        if self.opencl_device is not None:
            return opencl.OpenClCompiler(self.opencl_device)
        arch = self.arch or cuda.device_arch()
        return open_cuda_compiler(self.cuda_compiler, arch, specific=self.arch_specific)

    def require_working(self, device: Device, compiler: Compiler) -> None:
        """Raise BackendUnavailable, with the cause and the cure, where a GPU runs no empty kernel.

        PoCL loads its compiler first, which takes a second: a command that measures nothing new
        would wait for it in vain.
        """
        if self.is_gpu:
            self.run_empty_kernel(device, compiler)

    def run_empty_kernel(self, device: Device, compiler: Compiler) -> None:
        """Raise BackendUnavailable, with the cause and the cure, where no empty kernel runs."""
        empty_kernel.require_working(device, compiler, self.language)


def choose(requested: str) -> Backend:
    """Return the requested backend; for `auto` CUDA with a GPU, else an OpenCL GPU, else PoCL.

    Raises BackendUnavailable, which says what is missing and what to install.
    """
    if requested == "cuda":
        try:
            return _cuda(cuda.usable_gpu(), "it was requested")
        except BackendUnavailable as error:
            raise BackendUnavailable(f"--backend cuda cannot run here: {error}") from None
    if requested == "opencl":
        return _opencl(opencl.find_device(), "it was requested")
    if requested != AUTO:
        raise UsageError(f"there is no backend `{requested}`; {suggestion(requested, BACKENDS)}")
    return _auto()


def choose_devices(requested: str, names: Sequence[str] = ()) -> tuple[Backend, ...]:
    """Return the devices that `names` name; `all` names all equal ones of a backend, and without
    names there is one device (see `choose`).

    Raises UsageError for a name that fits no device or several, a device that is named twice, and
    devices that differ, since their times cannot be compared; BackendUnavailable where the
    requested backend cannot run.
    """
    words = names_in(names)
    if not words or requested not in (AUTO, *_INTERFACES):
        return (choose(requested),)
    if "" in words:
        listing = command_line("check", "--devices")
        raise UsageError(f"--device has an empty name; `{listing}` lists the devices")
    if ALL in words and len(words) > 1:
        raise UsageError(f"--device {ALL} names all devices; leave the others out")
    found = _named(requested, words)
    devices = [device for device, _ in found]
    twice = next((device for device in devices if devices.count(device) > 1), None)
    if twice is not None:
        raise UsageError(f"--device names a device twice: {twice}")
    if len({device.kind for device in devices}) > 1:
        raise UsageError(
            "--device names devices that differ, and times of different devices cannot be "
            "compared; name equal ones, and run the command once for each model:\n"
            f"{_listed(devices)}"
        )
    return tuple(_backend(device, why) for device, why in found)


def choose_offered(names: Sequence[str]) -> Sequence[Backend]:
    """Return the devices that a worker offers: all equal ones without names; see
    `choose_devices`."""
    return choose_devices(AUTO, names or [ALL])


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


def _named(requested: str, words: Sequence[str]) -> list[tuple[Found, str]]:
    """Return the devices of one interface that the words name, and why each of them was chosen;
    `auto` looks for all of them in CUDA before OpenCL."""
    missing, known, unknown = dict[str, str](), list[Found](), words[0]
    for interface in _INTERFACES if requested == AUTO else [requested]:
        try:
            devices = _known(interface)
        except BackendUnavailable as error:
            missing[interface] = str(error)
            continue
        known += devices
        try:
            named = (find_device(word, devices) for word in words)
            found = _all_of(devices) if ALL in words else list(named)
            # The whole reason is printed where CUDA is requested.
            why = "".join(
                f"; no GPU of CUDA ({each.partition(':')[0]})" for each in missing.values()
            )
            return [(device, reason + why) for device, reason in found]
        except UnknownDevice as error:
            (unknown,) = error.args
    reasons = "".join(f"\n  {each} cannot be used: {why}" for each, why in missing.items())
    if not known:
        raise BackendUnavailable(f"there is no device `{unknown}`:{reasons}")
    hint = suggest_device(unknown, known)
    hidden = os.environ.get(VISIBLE)
    others = f"\n{VISIBLE}={hidden} hides other GPUs" if hidden is not None else ""
    if unknown.upper().startswith(MIG) and hidden is None:
        others = f"\nCUDA shows one instance of a divided GPU: set {VISIBLE}={unknown}"
    raise UsageError(
        f"there is no device `{unknown}`{hint} These are here:\n{_listed(known)}{others}{reasons}"
    )


def _known(interface: str) -> Sequence[Found]:
    """Return the devices of CUDA or OpenCL; raises BackendUnavailable where there is none."""
    if interface == "cuda":
        return cuda.usable_gpus()
    opencl.find_device()  # raises where there is none
    return opencl.list_devices()


def _all_of(devices: Sequence[Found]) -> list[tuple[Found, str]]:
    """Return all GPUs, or all CPUs where there is no GPU, of the first device's platform."""
    first = _group(devices[0])
    return [(device, f"--device {ALL}") for device in devices if _group(device) == first]


def _group(device: Found) -> object:
    return isinstance(device, CudaGpu) or (device.platform_number, device.is_gpu)


def _listed(devices: Sequence[Found]) -> str:
    return "\n".join(map(device_line, devices))


def _auto() -> Backend:
    try:
        return _cuda(cuda.usable_gpu(), "CUDA comes first, and a GPU is here")
    except BackendUnavailable as error:
        no_cuda = str(error)
    try:
        device = opencl.find_device()
    except BackendUnavailable as error:
        raise BackendUnavailable(
            f"no backend can run here.\n  cuda: {no_cuda}\n  opencl: {error}"
        ) from None
    if device.is_gpu:
        return _opencl(device, f"an OpenCL GPU is here, and CUDA is not: {no_cuda}")
    # The whole reason is printed where CUDA is requested.
    return _opencl(device, f"no GPU can be used ({no_cuda.partition(':')[0]})")


def _backend(device: Found, why: str) -> Backend:
    if isinstance(device, opencl.DeviceName):
        return _opencl(device, why)
    return _cuda(device, why)


def _cuda(gpu: CudaGpu, why: str) -> Backend:
    """Return the backend of a GPU; raises BackendUnavailable where nothing compiles for it."""
    # With its architecture known, no process that compiles asks the driver for it again.
    why, compiler = f"{why}; through {cuda.describe_package()}", first_usable(gpu.arch)
    return Backend("cuda", "nvcc", why, arch=gpu.arch, cuda_gpu=gpu, cuda_compiler=compiler)


def _opencl(device: opencl.DeviceName, why: str) -> Backend:
    return Backend("opencl", "opencl", why, device)
