"""Launch a dispatched kernel through PyOpenCL: choose, build the chosen source once, run it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyopencl as cl

from harness.dispatch.loaders.trying import first_calls
from harness.measure.opencl.pocl_cpu import name_processor


class Kernel:
    """A kernel of several builds; each call runs the one for its input.

        kernel = mvmul.load(context)
        event = kernel(queue, A, x, y, numpy.int32(m), numpy.int32(n), m=m, n=n)

    Arguments are passed in the kernel's order, as pyopencl takes them: buffers and numpy scalars;
    the input's features are given by name. On a device other than the tuned one, the choice is the
    tuned device's, or the best single configuration runs on every input, see `serves` of the
    package, and a warning says which, once. A `Kernel` serves one thread at a time.

    With `try_top`, of the ensemble, the first calls with an input run the configurations of its
    shortlist, at most so many, three times each, and wait for their ends; later calls run the one
    that was fastest. `remember` is a file that keeps these choices.
    """

    def __init__(
        self,
        dispatcher: Any,
        context: cl.Context | None,
        try_top: int = 0,
        remember: str | Path | None = None,
    ) -> None:
        self._dispatcher = dispatcher
        self._context = cl.create_some_context(interactive=False) if context is None else context
        launch_plan = dispatcher.DATA["launch"]
        self._needs_local = launch_plan is not None and launch_plan["shared"] is not None
        self._built: dict[int, tuple[cl.Kernel, ...]] = {}
        for device in self._context.devices:
            if "PoCL" in device.version:
                name_processor(device.version, device.int_ptr)
        others = [device for device in self._context.devices if not self._is_tuned(device)]
        self._falls_back = not all(
            dispatcher.serves(_described(device), device.platform.name.strip()) for device in others
        )
        if others:
            tuned = dispatcher.PROVENANCE["device"]
            falls_back = "the best configuration for all inputs"
            used = falls_back if self._falls_back else "its choice by input"
            warnings.warn(
                f"{dispatcher.NAME} was tuned on {tuned}, not on {others[0].name.strip()}: {used} "
                "is used; tune it on this device",
                stacklevel=3,
            )
        device = (others or self._context.devices)[0]
        where = f"{_described(device)}, {device.platform.name.strip()} {device.driver_version}"
        self._first_calls = first_calls(dispatcher, try_top, remember, where)

    def _is_tuned(self, device: cl.Device) -> bool:
        tuned = self._dispatcher.PROVENANCE
        name = _described(device)
        names = (name, f"{name}, threads not pinned")
        return tuned["device"] in names and tuned["platform"] == device.platform.name.strip()

    def index(self, **features: Any) -> int:
        """Return the index of the configuration for an input; raises LookupError if none
        applies."""
        select = self._dispatcher.select_index
        if self._falls_back:
            select = self._dispatcher.fallback_index
        index = int(select(**features))  # in any case: it may count the calls
        decided = self._first_calls.decided(features) if self._first_calls else None
        return index if decided is None else decided

    def kernels(self, index: int) -> tuple[cl.Kernel, ...]:
        """Return the functions of a configuration, built at the first call."""
        if index not in self._built:
            found = self._dispatcher.DATA["configurations"][index]
            path = Path(self._dispatcher.__file__).parent / found["file"]
            program = cl.Program(self._context, path.read_text(encoding="utf-8"))
            # A kernel's `local` parameter is found by what the kernel keeps of its source.
            program.build([*found["options"], *["-cl-kernel-arg-info"] * self._needs_local])
            self._built[index] = tuple(cl.Kernel(program, name) for name in found["symbols"])
        return self._built[index]

    def __call__(
        self, queue: cl.CommandQueue, /, *arguments: Any, wait_for: Any = None, **features: Any
    ) -> cl.Event:
        """Launch the kernel on an input; it has ended when the event is complete."""
        index = self.index(**features)
        trial = self._first_calls.next(features, index) if self._first_calls else None
        if self._first_calls is None or trial is None:
            return self.launch(index, queue, arguments, wait_for, features)
        self.kernels(trial)  # a build is no part of the time
        queue.finish()
        begin_s = time.perf_counter()
        event = self.launch(trial, queue, arguments, wait_for, features)
        event.wait()
        time_s = time.perf_counter() - begin_s
        if queue.properties & cl.command_queue_properties.PROFILING_ENABLE:
            time_s = 1e-9 * (event.profile.end - event.profile.start)
        self._first_calls.took(features, trial, time_s)
        return event

    def launch(
        self,
        index: int,
        queue: cl.CommandQueue,
        arguments: Sequence[Any],
        wait_for: Any,
        features: Mapping[str, Any],
    ) -> cl.Event:
        """Launch a configuration on an input; neither chooses nor counts."""
        if self._dispatcher.DATA["launch"] is None:
            raise TypeError(
                f"the launches of {self._dispatcher.NAME} are its host module's: take "
                "kernels(index(...)) and launch them as that does"
            )
        group, grid = self._dispatcher.launch_size(index, **features)
        (kernel,) = self.kernels(index)
        size = tuple(extent * count for extent, count in zip(group, grid, strict=True))
        kernel.set_args(*self._with_local(kernel, index, arguments, features))
        return cl.enqueue_nd_range_kernel(queue, kernel, size, group, wait_for=wait_for)

    def _with_local(
        self, kernel: cl.Kernel, index: int, arguments: Sequence[Any], features: Mapping[str, Any]
    ) -> tuple[Any, ...]:
        """Return the arguments with the local memory of the launch, for a kernel that takes it."""
        if not self._needs_local:
            return tuple(arguments)
        local = cl.LocalMemory(self._dispatcher.shared_bytes(index, **features))
        qualifier = cl.kernel_arg_info.ADDRESS_QUALIFIER
        for place in range(kernel.num_args):
            if kernel.get_arg_info(place, qualifier) == cl.kernel_arg_address_qualifier.LOCAL:
                return (*arguments[:place], local, *arguments[place:])
        return tuple(arguments)


def _described(device: cl.Device) -> str:
    return f"{device.name.strip()}, {device.max_compute_units} compute units"
