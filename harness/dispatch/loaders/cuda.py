"""Launch a dispatched kernel through cuda-bindings: choose, load the chosen cubin once, run it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from harness.dispatch.loaders.trying import TryingKernel, warn_of_device


class Kernel(TryingKernel):
    """A kernel of several cubins; each call runs the one for its input.

        kernel = mvmul.load()
        kernel(stream, A, x, y, numpy.int32(m), numpy.int32(n), m=m, n=n)

    Arguments are passed in the kernel's order: numpy scalars, and as device memory anything of
    which `int` makes an address, PyCUDA's arrays included; the input's features are given by name.
    A stream is cuda-bindings' or PyCUDA's, an address, or None for the default one. A CUDA context
    must be current, here and at every call: `context`, or the thread's own if it is None.
    On a device other than the tuned one, the choice is the tuned device's, and a warning says so,
    once; cubins load only on devices of their own architecture.

    With `try_top`, of the ensemble, the first calls with an input run the configurations of its
    shortlist, at most so many, three times each, and wait for their ends; later calls run the one
    that was fastest. A stream that is captured into a graph cannot be waited for: make these calls
    before.
    """

    def __init__(self, dispatcher: Any, context: Any = None, try_top: int = 0) -> None:
        try:
            self._cuda = importlib.import_module("cuda.bindings.driver")
        except ImportError as error:
            message = f"{dispatcher.NAME} needs cuda-bindings: pip install cuda-bindings ({error})"
            raise ImportError(message) from error
        self._attributes = []
        if (dispatcher.DATA["launch"] or {}).get("cooperative"):
            attribute = self._cuda.CUlaunchAttribute()
            attribute.id = self._cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
            attribute.value.cooperative = 1
            self._attributes.append(attribute)
        device = self._device_name(context)
        if device != dispatcher.PROVENANCE["device"]:
            warn_of_device(dispatcher, device, "its choice by input")
        super().__init__(dispatcher, dispatcher.select_index, try_top)

    def _call(self, call: str, *arguments: Any) -> Any:
        status, *answers = getattr(self._cuda, call)(*arguments)
        if int(status) != 0:
            raise RuntimeError(f"{call} failed: {status.name}")
        return answers[0] if answers else None

    def _device_name(self, context: Any) -> str:
        """Return the name of the device of a context, or of the current one."""
        if context is not None:
            self._call("cuCtxPushCurrent", _handle(context))
        try:
            name = self._call("cuDeviceGetName", 256, self._call("cuCtxGetDevice"))
            return str(name.partition(b"\0")[0].decode())
        finally:
            if context is not None:
                self._call("cuCtxPopCurrent")

    def _functions(self, content: bytes, config: Mapping[str, Any]) -> tuple[Any, ...]:
        module = self._call("cuModuleLoadData", content)
        names = (name.encode() for name in config["symbols"])
        return tuple(self._call("cuModuleGetFunction", module, name) for name in names)

    def _set(self, function: Any, attribute: str, value: int) -> None:
        known = getattr(self._cuda.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{attribute}")
        self._call("cuFuncSetAttribute", function, known, value)

    def launch(
        self, index: int, stream: Any, arguments: Sequence[Any], features: Mapping[str, Any]
    ) -> None:
        """Launch a configuration on an input; neither chooses nor counts."""
        group, grid = self._sizes(index, features)
        (kernel,) = self.kernels(index)
        launch_plan, config = self._dispatcher.DATA["launch"], self._cuda.CUlaunchConfig()
        if launch_plan["shared"]:  # a device gives some 48 KiB to every kernel, and more if asked
            config.sharedMemBytes = self._dispatcher.shared_bytes(index, **features)
            self._set(kernel, "MAX_DYNAMIC_SHARED_SIZE_BYTES", config.sharedMemBytes)
        if launch_plan["carveout"]:
            percent = self._dispatcher.carveout(index, **features)
            self._set(kernel, "PREFERRED_SHARED_MEMORY_CARVEOUT", percent)
        config.gridDimX, config.gridDimY, config.gridDimZ = (*grid, 1, 1)[:3]
        config.blockDimX, config.blockDimY, config.blockDimZ = (*group, 1, 1)[:3]
        config.hStream = _handle(stream)
        config.attrs, config.numAttrs = self._attributes, len(self._attributes)
        # The driver copies what each address of the list points to.
        values = list(map(_value, arguments))
        addresses = np.array([value.ctypes.data for value in values], np.uintp)
        self._call("cuLaunchKernelEx", config, kernel, addresses.ctypes.data, 0)

    def _timed(self, stream: Any, launch: Callable[[], None]) -> tuple[None, float]:
        begin, end = self._call("cuEventCreate", 0), self._call("cuEventCreate", 0)
        try:
            self._call("cuEventRecord", begin, _handle(stream))
            launch()
            self._call("cuEventRecord", end, _handle(stream))
            self._call("cuEventSynchronize", end)
            return None, 1e-3 * float(self._call("cuEventElapsedTime", begin, end))
        finally:
            self._call("cuEventDestroy", begin)
            self._call("cuEventDestroy", end)


def _handle(stream_or_context: Any) -> Any:
    """Return what cuda-bindings takes: PyCUDA's objects have it as `handle`."""
    return getattr(stream_or_context, "handle", stream_or_context) or 0


def _value(argument: Any) -> Any:
    """Return an argument of a kernel as an array of one number."""
    if isinstance(argument, np.generic):
        return np.asarray(argument)
    return np.asarray(np.uintp(int(getattr(argument, "gpudata", argument))))
