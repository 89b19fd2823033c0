"""Arrays of a framework over memory of the device, and what it returns as arrays of NumPy.

The only module that imports torch, cupy and warp, in the process that owns the device. What they do
on a GPU was written without one, and has not been tried.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.errors import BackendUnavailable

Dtype = np.dtype[Any]
Shape = tuple[int, ...]


class Arrays:
    """Arrays of NumPy, which Numba takes as well.

    `memory` is bytes: an array of NumPy on the CPU, else CudaBytes.
    """

    def view(self, memory: Any, dtype: Dtype, shape: Shape) -> Any:
        """Return a new array over memory."""
        return memory.view(dtype).reshape(shape)

    def as_numpy(self, array: Any) -> npt.NDArray[Any]:
        """Return a copy, or the array itself; raises ValueError."""
        return np.asarray(array)


class CudaBytes:
    """Bytes at an address of a GPU, as frameworks take them from each other."""

    def __init__(self, address: int, size_bytes: int) -> None:
        self.__cuda_array_interface__ = {
            "data": (address, False),
            "shape": (size_bytes,),
            "typestr": "|u1",
            "version": 2,
        }


class _CupyArrays(Arrays):
    def __init__(self) -> None:
        import cupy

        self._cupy = cupy

    def view(self, memory: Any, dtype: Dtype, shape: Shape) -> Any:
        return self._cupy.asarray(memory).view(dtype).reshape(shape)

    def as_numpy(self, array: Any) -> npt.NDArray[Any]:
        return np.asarray(self._cupy.asnumpy(array))


class _TorchTensors(Arrays):
    def __init__(self, *, is_gpu: bool) -> None:
        import torch

        if is_gpu and not torch.cuda.is_available():
            raise _without_gpu(f"PyTorch {torch.__version__}")
        self._torch = torch
        self._device = "cuda" if is_gpu else "cpu"

    def view(self, memory: Any, dtype: Dtype, shape: Shape) -> Any:
        plain = self._torch.as_tensor(memory, device=self._device)  # shares the memory
        return plain.view(getattr(self._torch, dtype.name)).reshape(shape)

    def as_numpy(self, array: Any) -> npt.NDArray[Any]:
        if not isinstance(array, self._torch.Tensor):
            raise ValueError(f"a {type(array).__name__}, which is no tensor")
        tensor = array.detach().cpu().contiguous()
        dtype = np.dtype(str(tensor.dtype).removeprefix("torch."))
        plain = tensor.reshape(-1).view(self._torch.uint8).numpy()
        copied: npt.NDArray[Any] = plain.view(dtype).reshape(tensor.shape)
        return copied


class _WarpArrays(Arrays):
    def __init__(self, *, is_gpu: bool) -> None:
        import warp

        warp.config.log_level = warp.LOG_WARNING  # else it prints what it compiles
        if is_gpu and not warp.is_cuda_available():
            raise _without_gpu(f"Warp {warp.__version__}")
        self._warp = warp
        self._device = warp.get_device("cuda:0" if is_gpu else "cpu")
        if is_gpu:
            # Its own stream would not be that of the events, and of what harness copies. It makes
            # streams when it is first asked for one.
            warp.get_stream(self._device)
            warp.set_stream(self._device.null_stream, self._device)
        warp.set_device(self._device)

    def view(self, memory: Any, dtype: Dtype, shape: Shape) -> Any:
        on_gpu = getattr(memory, "__cuda_array_interface__", None)
        interface = on_gpu or memory.__array_interface__
        return self._warp.array(
            ptr=interface["data"][0],
            dtype=self._warp.dtype_from_numpy(dtype),
            shape=shape,
            device=self._device,
        )

    def as_numpy(self, array: Any) -> npt.NDArray[Any]:
        if not isinstance(array, self._warp.array):
            raise ValueError(f"a {type(array).__name__}, which is no array of Warp")
        return np.asarray(array.numpy())


def _without_gpu(framework: str) -> BackendUnavailable:
    return BackendUnavailable(
        f"a GPU is here, but {framework} cannot use it: install one with CUDA, or set "
        "CUDA_VISIBLE_DEVICES= to measure on the CPU"
    )


def open_arrays(framework: str, *, is_gpu: bool) -> Arrays:
    """Import a framework; raises BackendUnavailable where it cannot be, or use the GPU."""
    try:
        if framework == "cupy":
            return _CupyArrays()
        if framework == "torch":
            return _TorchTensors(is_gpu=is_gpu)
        if framework == "warp":
            return _WarpArrays(is_gpu=is_gpu)
        return Arrays()
    except (ImportError, OSError) as error:
        raise BackendUnavailable(
            f"{framework} is installed, but cannot be imported: {error}. Install it again"
        ) from None
