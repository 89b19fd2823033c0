"""Launch a dispatched kernel through PyOpenCL: choose, build the chosen source once, run it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyopencl as cl

from harness.dispatch.loaders.trying import TryingKernel, warn_of_device
from harness.measure.opencl.pocl_cpu import name_processor


class Kernel(TryingKernel):
    """A kernel of several builds; each call runs the one for its input.

        kernel = mvmul.load(context)
        event = kernel(queue, A, x, y, numpy.int32(m), numpy.int32(n), m=m, n=n)

    Arguments are passed in the kernel's order, as pyopencl takes them: buffers and numpy scalars;
    the input's features are given by name. On a device other than the tuned one, the choice is the
    tuned device's, or the best single configuration runs on every input, see `serves` of the
    package, and a warning says which, once. A `Kernel` serves one thread at a time.

    With `try_top`, of the ensemble, the first calls with an input run the configurations of its
    shortlist, at most so many, three times each, and wait for their ends; later calls run the one
    that was fastest.
    """

    def __init__(self, dispatcher: Any, context: cl.Context | None, try_top: int = 0) -> None:
        self._context = cl.create_some_context(interactive=False) if context is None else context
        launch_plan = dispatcher.DATA["launch"]
        self._needs_local = launch_plan is not None and launch_plan["shared"] is not None
        tuned, select, others = dispatcher.PROVENANCE, dispatcher.select_index, []
        names = (tuned["device"], tuned["device"].removesuffix(", threads not pinned"))
        for device in self._context.devices:
            vendor = device.platform.name.strip()
            if "PoCL" in device.version:
                name_processor(device.version, device.int_ptr)
            if _described(device) not in names or vendor != tuned["platform"]:
                others.append(device)
                if not dispatcher.serves(_described(device), vendor):
                    select = dispatcher.fallback_index
        if others:
            falls_back = select == dispatcher.fallback_index
            used = "the best configuration for all inputs" if falls_back else "its choice by input"
            warn_of_device(dispatcher, others[0].name.strip(), used)
        super().__init__(dispatcher, select, try_top)

    def _functions(self, content: bytes, config: Mapping[str, Any]) -> tuple[cl.Kernel, ...]:
        program = cl.Program(self._context, content.decode())
        # A kernel's `local` parameter is found by what the kernel keeps of its source.
        program.build([*config["options"], *["-cl-kernel-arg-info"] * self._needs_local])
        return tuple(cl.Kernel(program, name) for name in config["symbols"])

    def _timed(
        self, queue: cl.CommandQueue, launch: Callable[[], cl.Event]
    ) -> tuple[cl.Event, float]:
        queue.finish()
        begin_s = time.perf_counter()
        event = launch()
        event.wait()
        time_s = time.perf_counter() - begin_s
        if queue.properties & cl.command_queue_properties.PROFILING_ENABLE:
            time_s = 1e-9 * (event.profile.end - event.profile.start)
        return event, time_s

    def launch(
        self,
        index: int,
        queue: cl.CommandQueue,
        arguments: Sequence[Any],
        features: Mapping[str, Any],
        wait_for: Any = None,
    ) -> cl.Event:
        """Launch a configuration on an input; neither chooses nor counts."""
        group, grid = self._sizes(index, features)
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
