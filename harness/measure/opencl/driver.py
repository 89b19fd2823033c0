"""OpenCL through PyOpenCL: list the devices, and compile for one.

The only module that imports pyopencl, when a device or a compiler is opened.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
import warnings
from collections.abc import Sequence
from typing import Any

from harness.core.errors import BackendUnavailable, BuildFailed, UsageError
from harness.core.files import cache_folder
from harness.core.program import Binary, Program
from harness.core.records import Build
from harness.measure.builds.messages import require_obeyed
from harness.measure.listed_device import OPENCL, ListedDevice
from harness.measure.opencl.pocl_cpu import name_processor

_INSTALL = 'pip install "pyopencl[pocl]" installs it with PoCL, which runs kernels on the CPU'

CPU_PARTS = "HARNESS_CPU_PARTS"
"""The variable that divides each CPU into so many equal devices, which stand for GPUs in tests.

PoCL runs each of them on all cores, so that their times disturb each other.
"""

_MOST_PARTS = 1024

POCL = "Portable Computing Language"
"""The name of PoCL's platform."""

_EXTRA_OPTIONS = "PYOPENCL_BUILD_OPTIONS"  # PyOpenCL adds them to every build


def load_pyopencl() -> Any:
    """Import pyopencl; raises BackendUnavailable, which says what to install."""
    # Here PoCL keeps the work-group functions that it compiles at first launches.
    os.environ.setdefault("POCL_CACHE_DIR", str(cache_folder("pocl")))
    # Pin PoCL's threads: otherwise the scheduler often wakes two of them on one core, and a launch
    # on two cores then takes exactly twice as long, for seconds on end.
    os.environ.setdefault("POCL_AFFINITY", "1")
    # PyOpenCL's own cache would serve builds that are stale in ours, and leaves each source that
    # does not compile in the folder for temporary files.
    os.environ.setdefault("PYOPENCL_NO_CACHE", "1")
    try:
        import pyopencl
    except ImportError as error:
        raise BackendUnavailable(f"PyOpenCL is missing ({error}); {_INSTALL}") from None
    return pyopencl


def usable_devices() -> list[ListedDevice]:
    """Return all OpenCL devices: GPUs first, and PoCL first among CPUs, whatever else is installed.

    Raises BackendUnavailable where there is none.
    """
    cl = load_pyopencl()
    platforms = []
    with contextlib.suppress(cl.Error):
        platforms = cl.get_platforms()
    devices = []
    for platform_number, platform in enumerate(platforms):
        for number, device in enumerate(_devices_of(cl, platform)):
            devices.append(
                ListedDevice(
                    interface=OPENCL,
                    number=number,
                    name=device.name.strip(),
                    is_gpu=bool(device.type & cl.device_type.GPU),
                    platform_number=platform_number,
                    platform=platform.name,
                    units=device.max_compute_units,
                    memory_bytes=device.global_mem_size,
                    bus_id=_bus_id(cl, device),
                )
            )
    if not devices:
        raise BackendUnavailable(f"PyOpenCL is here, but there is no OpenCL device; {_INSTALL}")
    return sorted(devices, key=lambda device: (not device.is_gpu, device.platform.strip() != POCL))


def cpu_parts() -> int:
    """Return into how many parts of equal size each CPU is divided; raises UsageError."""
    text = os.environ.get(CPU_PARTS, "1")
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_PARTS:
        raise UsageError(
            f"{CPU_PARTS} must be a whole number from 1 to {_MOST_PARTS}, got {text!r}"
        )
    return int(text)


def _devices_of(cl: Any, platform: Any) -> list[Any]:
    """Return the devices of a platform, or the parts of its CPUs; raises UsageError where a CPU
    has too few cores."""
    try:
        devices = platform.get_devices()
    except cl.Error:  # a platform without its driver
        return []
    parts = cpu_parts()
    usable: list[Any] = []
    for device in devices:
        if "PoCL" in device.version:
            name_processor(device.version, device.int_ptr)  # its parts are copies of it
        if parts == 1 or not device.type & cl.device_type.CPU:
            usable.append(device)
            continue
        cores = device.max_compute_units
        if cores < parts:
            raise UsageError(
                f"{CPU_PARTS}={parts}, but {device.name.strip()} has only {cores} cores"
            )
        counts = [cores // parts] * parts
        usable += device.create_sub_devices([cl.device_partition_property.BY_COUNTS, *counts, 0])
    return usable


def _bus_id(cl: Any, device: Any) -> str:
    """Return the PCI bus id of a GPU, from NVIDIA's or AMD's extension; empty where it has none."""
    try:
        bus, slot = device.pci_bus_id_nv, device.pci_slot_id_nv
        return f"{device.pci_domain_id_nv:04X}:{bus:02X}:{slot >> 3:02X}.{slot & 7}"
    except (AttributeError, cl.Error):
        pass
    try:
        place = device.topology_amd
        return f"0000:{place.bus & 255:02X}:{place.device & 255:02X}.{place.function & 255}"
    except (AttributeError, cl.Error):
        return ""


def device_of(cl: Any, listed: ListedDevice) -> Any:
    """Return PyOpenCL's device; raises BackendUnavailable where its platform is gone."""
    for number, platform in enumerate(cl.get_platforms()):
        if number == listed.platform_number and platform.name == listed.platform:
            return _devices_of(cl, platform)[listed.number]
    raise BackendUnavailable(
        f"the OpenCL platform {listed.platform} is gone; run the command again"
    )


class OpenClCompiler:
    """Compile programs for one device.

    On PoCL the binary is the source itself: PoCL keeps its code in its own cache, and extracting a
    binary takes a second compilation (0.5 s), since PoCL compiles it for any group size. The hash
    of the machine code is then that of the options and of the source.
    """

    arch = None

    def __init__(self, listed: ListedDevice) -> None:
        self._cl = load_pyopencl()
        self._device = device_of(self._cl, listed)
        self._context = self._cl.Context([self._device])

    @property
    def identity(self) -> str:
        """Platform version, device, driver version and extra options."""
        device = self._device
        name = f"{device.platform.version.strip()}, {device.name.strip()}, {device.driver_version}"
        extra = os.environ.get(_EXTRA_OPTIONS)
        return f"{name}, {_EXTRA_OPTIONS}={extra}" if extra else name

    def compile(self, program: Program) -> Binary:
        """Compile for the device.

        Raises BuildFailed with the driver's log, also where a flag was not obeyed.
        """
        from harness.source.inlining import inlined  # here: the device's process compiles nothing

        started = time.perf_counter()
        text = inlined(program)
        built = build_program(self._cl, self._cl.Program(self._context, text), program.options)
        elapsed_s = time.perf_counter() - started
        log = built.get_build_info(self._device, self._cl.program_build_info.LOG).strip()
        require_obeyed("opencl", log)
        if "PoCL" in self._device.platform.version:
            loaded = {"text": text, "options": program.options}
            data = b"S" + json.dumps(loaded).encode()
            code = json.dumps([text, *program.options]).encode()
        else:
            (code,) = built.get_info(self._cl.program_info.BINARIES)
            data = b"B" + code
        local = self._cl.kernel_work_group_info.LOCAL_MEM_SIZE
        sizes = [kernel.get_work_group_info(local, self._device) for kernel in built.all_kernels()]
        build = Build(
            key=program.key(self.identity),
            options=" ".join(program.options),
            compiler=self.identity,
            compile_s=elapsed_s,
            binary_sha256=hashlib.sha256(code).hexdigest(),
            shared_bytes=int(max(sizes, default=0)),  # of any kernel
            log=log,
        )
        return Binary(build, data)


def build_program(cl: Any, program: Any, options: Sequence[str]) -> Any:
    """Build, and print no log; raises BuildFailed with the log."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            # The kernels keep the types of their parameters, to check a launch's arguments.
            return program.build([*options, "-cl-kernel-arg-info"], cache_dir=False)
        except cl.Error as error:
            message = str(error)
            compilers_part = re.search(
                r"Build on <.*>:\n\s*(.*?)\s*(?:\n=+\n|\(options: |\Z)", message, re.DOTALL
            )
            if compilers_part and compilers_part[1]:
                message = compilers_part[1]
            raise BuildFailed(message) from None
