"""The backend of Python callables: on which device a framework computes, and its versions."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata

from harness.core.errors import BackendUnavailable, UsageError
from harness.core.machine import processor, usable_cores
from harness.core.program import PYTHON, Binary, Program
from harness.core.records import Build
from harness.measure.cuda import gpus
from harness.measure.device.launcher import Compiler, Device
from harness.measure.devices import AUTO, Backend
from harness.measure.listed_device import ListedDevice
from harness.measure.python.device import CallingCpu, CallingGpu
from harness.space_file import Spec

_PACKAGES = {
    "numpy": ("numpy",),
    "numba": ("numba", "llvmlite", "numpy"),
    "torch": ("torch",),
    "warp": ("warp-lang",),
    "cupy": ("cupy",),
}
"""What each framework needs; their versions belong to the environment."""

_WHEELS = {"cupy": ("cupy-cuda12x", "cupy-cuda13x")}
"""Packages with the same content, compiled; the first one is recommended."""

_ON_GPU = ("torch", "warp", "cupy")
"""Frameworks that compute on a GPU where there is one; CuPy on nothing else."""

_OPTIONAL = ("triton",)
"""What torch compiles with where it is installed."""


class _PythonCompiler:
    """Compile nothing: build() and a first call do so, in the process that owns the device."""

    arch = None

    def __init__(self, framework: str) -> None:
        packages = _PACKAGES[framework]
        if framework == "torch":
            packages += _OPTIONAL
        parts: list[str] = []
        for name in packages:
            version = _version(name)
            if version:
                parts.append(f"{name} {version}")
        self.identity = ", ".join([*parts, f"Python {platform.python_version()}"])

    def compile(self, program: Program) -> Binary:
        """Return the module's text, headed by all that builds the callable."""
        data = program.text.encode()
        build = Build(
            key=program.key(self.identity),
            options="",
            compiler=self.identity,
            compile_s=0.0,
            # Of one configuration alone: build() may read all of it.
            binary_sha256=hashlib.sha256(data).hexdigest(),
        )
        return Binary(build, data)


@dataclass(frozen=True)
class _PythonBackend(Backend):
    """A chosen framework and device, as it is sent to worker processes."""

    framework: str = "numpy"

    def open_device(self) -> Device:
        """Open the device in this process; it imports the framework where it needs it."""
        if self.device is not None and self.device.is_gpu:
            return CallingGpu(self.framework, self.cache, self.device)
        return CallingCpu(self.framework, self.cache)

    def open_compiler(self) -> Compiler:
        """Return what names the framework's versions."""
        return _PythonCompiler(self.framework)

    def run_empty_kernel(self, device: Device, compiler: Compiler) -> None:
        """Do nothing: there is no driver that could fail."""


def python_backend(spec: Spec, requested: str, devices: Sequence[str] = ()) -> Backend:
    """Return the backend of a space that tunes a Python callable.

    Raises UsageError for another backend and for names of devices, BackendUnavailable where the
    framework is not installed, or has no GPU that it needs.
    """
    framework = spec.framework
    if framework is None:
        raise UsageError(
            f"{spec.path} tunes no Python callable, which --backend {PYTHON} runs; leave --backend "
            "out"
        )
    if requested not in (AUTO, PYTHON):
        raise UsageError(
            f"{spec.path} tunes a Python callable, which --backend {requested} cannot run; leave "
            f"--backend out, or write --backend {PYTHON}"
        )
    if devices:
        raise UsageError(
            f"{spec.path} tunes a Python callable, whose framework chooses the device; leave "
            "--device out"
        )
    require_framework(spec)
    why = f"the space tunes a Python callable of {framework}"
    device = ListedDevice(PYTHON, 0, processor(), is_gpu=False, units=usable_cores())
    if framework in _ON_GPU:
        try:
            device = gpus.usable_gpus()[0]
        except BackendUnavailable as error:
            if framework == "cupy":
                raise BackendUnavailable(f"{spec.path} needs a GPU for CuPy: {error}") from None
            why += f"; no GPU can be used ({str(error).partition(':')[0]})"
    if framework == "torch" and os.environ.get("TRITON_INTERPRET") == "1":
        why += "; TRITON_INTERPRET=1: these are times of its interpreter, not of a GPU"
    return _PythonBackend(PYTHON, PYTHON, why, device, framework=framework)


def require_framework(spec: Spec) -> None:
    """Raise BackendUnavailable where a package that the space's framework needs is missing."""
    for name in _PACKAGES.get(spec.framework or "", ()):
        if not _version(name):
            wanted = _WHEELS.get(name, (name,))[0]
            raise BackendUnavailable(
                f"{spec.path} needs {name}, which is not installed: pip install {wanted}"
            )


def _version(package: str) -> str:
    """Return the version of an installed package; empty where it is missing."""
    for name in (package, *_WHEELS.get(package, ())):
        with suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return ""
