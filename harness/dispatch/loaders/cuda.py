"""Launch a dispatched kernel through PyCUDA: choose, load the chosen cubin once, run it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pycuda.driver as cuda


class Kernel:
    """A kernel of several cubins; each call runs the one for its input.

        kernel = mvmul.load()
        kernel(stream, A, x, y, numpy.int32(m), numpy.int32(n), m=m, n=n)

    Arguments are passed in the kernel's order, as PyCUDA takes them: device memory and numpy
    scalars; the input's features are given by name; a stream of None is the default one. A CUDA
    context must be current, here and at every call: `context`, or the thread's own if it is None.
    On a device other than the tuned one, the best single configuration runs on every input, and a
    warning says so once; cubins load only on devices of their own architecture.
    """

    def __init__(self, dispatcher: Any, context: Any = None) -> None:
        self._dispatcher = dispatcher
        self._loaded: dict[int, tuple[Any, ...]] = {}
        if context is not None:
            context.push()
        try:
            found = cuda.Context.get_device().name()
        finally:
            if context is not None:
                cuda.Context.pop()
        tuned = dispatcher.PROVENANCE["device"]
        self._falls_back = found != tuned
        if self._falls_back:
            warnings.warn(
                f"{dispatcher.NAME} was tuned on {tuned}, not on {found}: the best configuration "
                "for all inputs is used; tune it on this device",
                stacklevel=3,
            )

    def index(self, **features: Any) -> int:
        """Return the index of the configuration for an input; raises LookupError if none
        applies."""
        if self._falls_back:
            return int(self._dispatcher.fallback_index(**features))
        return int(self._dispatcher.select_index(**features))

    def kernels(self, index: int) -> tuple[Any, ...]:
        """Return the functions of a configuration, loaded at the first call."""
        if index not in self._loaded:
            file, _ = self._dispatcher.KERNELS[index]
            path = Path(self._dispatcher.__file__).parent / "kernels" / file
            module = cuda.module_from_buffer(path.read_bytes())
            symbols = getattr(self._dispatcher, "SYMBOLS", None)
            names = symbols[index] if symbols else self._dispatcher.FUNCTIONS
            self._loaded[index] = tuple(module.get_function(name) for name in names)
        return self._loaded[index]

    def __call__(self, stream: Any, /, *arguments: Any, **features: Any) -> None:
        """Launch the kernel on an input; it has ended when the stream has."""
        index = self.index(**features)
        if not hasattr(self._dispatcher, "launch_size"):
            raise TypeError(
                f"the launches of {self._dispatcher.NAME} are its host module's: take "
                "kernels(index(...)) and launch them as that does"
            )
        if hasattr(self._dispatcher, "COOPERATIVE"):
            raise TypeError(
                f"{self._dispatcher.NAME} needs a cooperative launch, for which PyCUDA has no "
                "call: load the file that KERNELS names with cuda-bindings, and launch it with "
                "cuLaunchKernelEx"
            )
        group, grid = self._dispatcher.launch_size(index, **features)
        (kernel,) = self.kernels(index)
        shared = self._shared_bytes(kernel, index, features)
        block, blocks = (*group, 1, 1)[:3], (*grid, 1, 1)[:3]
        kernel(*arguments, block=block, grid=blocks, stream=stream, shared=shared)

    def _shared_bytes(self, kernel: Any, index: int, features: dict[str, Any]) -> int:
        """Return the dynamic shared memory of a block, and let the kernel have it: a device gives
        some 48 KiB to every kernel, and more to one that asks."""
        if not hasattr(self._dispatcher, "shared_bytes"):
            return 0
        shared = int(self._dispatcher.shared_bytes(index, **features))
        kernel.set_attribute(cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)
        return shared
