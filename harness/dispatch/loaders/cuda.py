"""Launch a dispatched kernel: choose, load the chosen cubin once, run it.

PyCUDA calls the driver where it is installed, else cuda-bindings, which also makes all cooperative
launches. HARNESS_CUDA_PACKAGE=cuda-bindings chooses it in any case.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.dispatch.loaders.trying import FirstCalls, TryingKernel, warn_of_device

_Sizes = tuple[Sequence[int], Sequence[int]]
_SHARED = "MAX_DYNAMIC_SHARED_SIZE_BYTES"
_CARVEOUT = "PREFERRED_SHARED_MEMORY_CARVEOUT"


class Kernel(TryingKernel):
    """A kernel of several cubins; each call runs the one for its input.

        kernel = mvmul.load()
        kernel(stream, A, x, y, numpy.int32(m), numpy.int32(n), m=m, n=n)

    Arguments are passed in the kernel's order, as the package takes them: device memory and numpy
    scalars; the input's features are given by name; a stream of None is the default one. A CUDA
    context must be current, here and at every call: `context`, or the thread's own if it is None.
    `driver` is what calls the driver; by default, what is installed.
    On a device other than the tuned one, the choice is the tuned device's, and a warning says so,
    once; cubins load only on devices of their own architecture.

    With `try_top`, of the ensemble, the first calls with an input run the configurations of its
    shortlist, at most so many, three times each, and wait for their ends; later calls run the one
    that was fastest. `remember` is a file that keeps these choices. A stream that is captured into
    a graph cannot be waited for: make these calls before.
    """

    def __init__(
        self,
        dispatcher: Any,
        context: Any = None,
        driver: Any = None,
        try_top: int = 0,
        remember: str | Path | None = None,
    ) -> None:
        launch_plan = dispatcher.DATA["launch"] or {"cooperative": False}
        self._driver = driver or _open(dispatcher.NAME, launch_plan["cooperative"])
        device = self._driver.device_name(context)
        if device != dispatcher.PROVENANCE["device"]:
            warn_of_device(dispatcher, device, "its choice by input")
        first_calls = FirstCalls(dispatcher, try_top, remember, device)
        super().__init__(dispatcher, dispatcher.select_index, first_calls)
        self._functions = self._driver.functions

    def _timed(self, stream: Any, launch: Callable[[], None]) -> tuple[None, float]:
        return None, self._driver.timed(stream, launch)

    def launch(
        self, index: int, stream: Any, arguments: Sequence[Any], features: Mapping[str, Any]
    ) -> None:
        """Launch a configuration on an input; neither chooses nor counts."""
        group, grid = self._sizes(index, features)
        (kernel,) = self.kernels(index)
        launch_plan = self._dispatcher.DATA["launch"]
        shared = 0
        if launch_plan["shared"]:  # a device gives some 48 KiB to every kernel, and more if asked
            shared = int(self._dispatcher.shared_bytes(index, **features))
            self._driver.set(kernel, _SHARED, shared)
        if launch_plan["carveout"]:
            percent = int(self._dispatcher.carveout(index, **features))
            self._driver.set(kernel, _CARVEOUT, percent)
        sizes = (*grid, 1, 1)[:3], (*group, 1, 1)[:3]
        self._driver.launch(kernel, sizes, shared, stream, arguments)


def _open(name: str, is_cooperative: bool) -> Any:
    """Return the package that calls the driver; raises ImportError where there is none."""
    if not is_cooperative and os.environ.get("HARNESS_CUDA_PACKAGE") != "cuda-bindings":
        try:
            return _PyCuda()
        except ImportError:
            pass
    try:
        return Bindings(is_cooperative)
    except ImportError as error:
        raise ImportError(
            f"{name} needs cuda-bindings{'' if is_cooperative else ' or PyCUDA'}: "
            f"pip install cuda-bindings ({error})"
        ) from error


class _PyCuda:
    """The driver through PyCUDA, which takes its own memory, streams and contexts."""

    def __init__(self) -> None:
        self._cuda = importlib.import_module("pycuda.driver")

    def device_name(self, context: Any) -> str:
        """Return the name of the device of a context, or of the current one."""
        if context is not None:
            context.push()
        try:
            return str(self._cuda.Context.get_device().name())
        finally:
            if context is not None:
                self._cuda.Context.pop()

    def functions(self, cubin: bytes, config: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the functions of a cubin."""
        module = self._cuda.module_from_buffer(cubin)
        return tuple(module.get_function(name) for name in config["symbols"])

    def set(self, function: Any, attribute: str, value: int) -> None:
        """Set an attribute of a function."""
        function.set_attribute(getattr(self._cuda.function_attribute, attribute), value)

    def launch(
        self, function: Any, sizes: _Sizes, shared: int, stream: Any, arguments: Sequence[Any]
    ) -> None:
        """Launch a function; `sizes` are the grid's and the group's."""
        function(*arguments, grid=sizes[0], block=sizes[1], stream=stream, shared=shared)

    def timed(self, stream: Any, launch: Callable[[], None]) -> float:
        """Return the seconds of a launch on the device, once it has ended."""
        begin, end = self._cuda.Event(), self._cuda.Event()
        begin.record(stream)
        launch()
        end.record(stream)
        end.synchronize()
        return 1e-3 * float(end.time_since(begin))


class Bindings:
    """The driver through cuda-bindings, which takes its own streams and contexts, and as memory
    anything of which `int` makes an address."""

    def __init__(self, is_cooperative: bool) -> None:
        self._cuda = importlib.import_module("cuda.bindings.driver")
        self._attributes = []
        if is_cooperative:
            attribute = self._cuda.CUlaunchAttribute()
            attribute.id = self._cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
            attribute.value.cooperative = 1
            self._attributes.append(attribute)

    def _call(self, call: str, *arguments: Any) -> Any:
        status, *answers = getattr(self._cuda, call)(*arguments)
        if int(status) != 0:
            raise RuntimeError(f"{call} failed: {status.name}")
        return answers[0] if answers else None

    def device_name(self, context: Any) -> str:
        """Return the name of the device of a context, or of the current one."""
        if context is not None:
            self._call("cuCtxPushCurrent", context)
        try:
            name = self._call("cuDeviceGetName", 256, self._call("cuCtxGetDevice"))
            return str(name.partition(b"\0")[0].decode())
        finally:
            if context is not None:
                self._call("cuCtxPopCurrent")

    def functions(self, cubin: bytes, config: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the functions of a cubin."""
        module = self._call("cuModuleLoadData", cubin)
        names = (name.encode() for name in config["symbols"])
        return tuple(self._call("cuModuleGetFunction", module, name) for name in names)

    def set(self, function: Any, attribute: str, value: int) -> None:
        """Set an attribute of a function."""
        known = getattr(self._cuda.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{attribute}")
        self._call("cuFuncSetAttribute", function, known, value)

    def launch(
        self, function: Any, sizes: _Sizes, shared: int, stream: Any, arguments: Sequence[Any]
    ) -> None:
        """Launch a function; `sizes` are the grid's and the group's."""
        config = self._cuda.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = sizes[0]
        config.blockDimX, config.blockDimY, config.blockDimZ = sizes[1]
        config.sharedMemBytes, config.hStream = shared, 0 if stream is None else stream
        config.attrs, config.numAttrs = self._attributes, len(self._attributes)
        # The driver copies what each address of the list points to.
        values = [
            np.asarray(each if isinstance(each, np.generic) else np.uintp(int(each)))
            for each in arguments
        ]
        addresses = np.array([value.ctypes.data for value in values], np.uintp)
        self._call("cuLaunchKernelEx", config, function, addresses.ctypes.data, 0)

    def timed(self, stream: Any, launch: Callable[[], None]) -> float:
        """Return the seconds of a launch on the device, once it has ended."""
        begin, end = self._call("cuEventCreate", 0), self._call("cuEventCreate", 0)
        handle = 0 if stream is None else stream
        try:
            self._call("cuEventRecord", begin, handle)
            launch()
            self._call("cuEventRecord", end, handle)
            self._call("cuEventSynchronize", end)
            return 1e-3 * float(self._call("cuEventElapsedTime", begin, end))
        finally:
            self._call("cuEventDestroy", begin)
            self._call("cuEventDestroy", end)
