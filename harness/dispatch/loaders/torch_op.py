"""Make an operator of PyTorch whose configuration the dispatcher chooses for every input."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from harness.dispatch.loaders.trying import warn_of_device

_Launch = Callable[[int, Sequence[Any], Mapping[str, Any]], None]
_one_at_a_time = threading.Lock()


class OperatorChoice:
    """What the dispatcher chose for the input of one call of an operator."""

    def __init__(self, dispatcher: Any, features: Mapping[str, Any], device: torch.device) -> None:
        self.features = features
        self._dispatcher = dispatcher
        self._device = device

    @functools.cached_property
    def index(self) -> int:
        """The index of the configuration; raises LookupError if none applies."""
        _warn_of_device(self._dispatcher, self._device)
        return int(self._dispatcher.select_index(**self.features))

    @property
    def config(self) -> dict[str, Any]:
        """The configuration: its parameters."""
        return dict(self._dispatcher.PORTFOLIO[self.index])

    def launch(self, *arguments: Any) -> None:
        """Launch the dispatcher's own kernel; it reads and writes the tensors' memory.

        Arguments are in the kernel's order: contiguous tensors, and numpy scalars for numbers. CUDA
        launches on PyTorch's current stream; OpenCL's launch has ended when this returns.
        """
        for argument in arguments:
            if isinstance(argument, torch.Tensor) and not argument.is_contiguous():
                raise ValueError(
                    f"{self._dispatcher.NAME} needs contiguous tensors, but got one of shape "
                    f"{tuple(argument.shape)} and strides {argument.stride()}: call .contiguous()"
                )
        with _one_at_a_time:
            kernel, launch = _launcher(self._dispatcher, self._device)
            if "index" not in vars(self):  # a call is counted once
                self.index = kernel.index(**self.features)
            launch(self.index, arguments, self.features)


def operator(
    name: str,
    *,
    features: Callable[..., Mapping[str, Any]] | None = None,
    mutates_args: Sequence[str] = (),
) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that makes a function an operator of PyTorch, called `library::name`.

        @operator("mine::mvmul", mutates_args=("y",))
        def mvmul(chosen, A: Tensor, x: Tensor, y: Tensor, m: int, n: int) -> None:
            chosen.launch(A, x, y, numpy.int32(m), numpy.int32(n))

    The function's first argument is an `OperatorChoice`. The others, with annotations, are the
    operator's. The operator's arguments must include the features by their names; if not,
    `features` computes these, as a dict, from all arguments of the operator. `mutates_args` names
    the tensors that the function writes. A function that returns tensors also needs
    `register_fake`, as every operator of `torch.library.custom_op` does.
    """
    dispatcher = sys.modules[__package__ or ""]
    wanted = dispatcher.FEATURES

    def define(function: Callable[..., Any]) -> Any:
        signature = inspect.signature(function, eval_str=True)
        own = signature.replace(parameters=list(signature.parameters.values())[1:])
        missing = [feature for feature in wanted if feature not in own.parameters]
        if missing and features is None:
            raise TypeError(
                f"{dispatcher.NAME} chooses by {', '.join(wanted)}, but {name} has no argument "
                f"{missing[0]}; compute the features with features=lambda ...: {{...}}"
            )

        def run(*arguments: Any, **named: Any) -> Any:
            bound = own.bind(*arguments, **named)
            bound.apply_defaults()
            passed = bound.arguments
            values = features(**passed) if features else {key: passed[key] for key in wanted}
            tensors = [value for value in passed.values() if isinstance(value, torch.Tensor)]
            device = tensors[0].device if tensors else torch.device("cpu")
            return function(OperatorChoice(dispatcher, values, device), **passed)

        functools.update_wrapper(run, function)
        run.__signature__ = own  # type: ignore[attr-defined]
        return torch.library.custom_op(name, run, mutates_args=mutates_args)

    return define


@functools.cache
def _warn_of_device(dispatcher: Any, device: torch.device) -> None:
    """Warn once of a GPU that was not tuned."""
    tuned = dispatcher.PROVENANCE
    if device.type != "cuda" or tuned["backend"] not in ("cuda", "python"):
        return
    name = torch.cuda.get_device_name(device)
    if name != tuned["device"]:
        warn_of_device(dispatcher, name, "its choice by input")


@functools.cache
def _launcher(dispatcher: Any, device: torch.device) -> tuple[Any, _Launch]:
    """Return the dispatcher's kernel, and what launches it on tensors of a device."""
    backend, wanted = dispatcher.PROVENANCE["backend"], {"cuda": "cuda", "opencl": "cpu"}
    if backend == "python":
        raise ValueError(f"{dispatcher.NAME} is a callable: launch it with **chosen.config")
    if wanted.get(backend) != device.type:
        raise ValueError(
            f"the kernels of {dispatcher.NAME} are those of {backend}, and take tensors of "
            f"{wanted.get(backend, 'no device')}, not of {device}"
        )
    loader = importlib.import_module(f"{dispatcher.__name__}._{backend}")
    if backend == "opencl":
        return _opencl_launcher(dispatcher, loader)
    return _cuda_launcher(dispatcher, loader, device)


def _cuda_launcher(dispatcher: Any, loader: Any, device: torch.device) -> tuple[Any, _Launch]:
    with torch.cuda.device(device):
        kernel = loader.Kernel(dispatcher)

    def launch(index: int, arguments: Sequence[Any], features: Mapping[str, Any]) -> None:
        with torch.cuda.device(device):
            stream = torch.cuda.current_stream(device).cuda_stream
            passed = (a.data_ptr() if isinstance(a, torch.Tensor) else a for a in arguments)
            kernel.launch(index, stream, tuple(passed), features)

    return kernel, launch


def _opencl_launcher(dispatcher: Any, loader: Any) -> tuple[Any, _Launch]:
    import pyopencl as cl

    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    kernel = loader.Kernel(dispatcher, context)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR

    def launch(index: int, arguments: Sequence[Any], features: Mapping[str, Any]) -> None:
        # As bytes: numpy lacks some of PyTorch's types.
        arrays = [
            a.detach().flatten().view(torch.uint8).numpy() if isinstance(a, torch.Tensor) else a
            for a in arguments
        ]
        passed = [
            cl.Buffer(context, flags, hostbuf=a) if isinstance(a, np.ndarray) else a for a in arrays
        ]
        kernel.launch(index, queue, passed, features)
        for buffer, array in zip(passed, arrays, strict=True):
            if isinstance(array, np.ndarray):  # mapping makes the kernel's writes visible
                mapped, _ = cl.enqueue_map_buffer(
                    queue, buffer, cl.map_flags.READ, 0, array.shape, array.dtype
                )
                mapped.base.release(queue)
        queue.finish()

    return kernel, launch
