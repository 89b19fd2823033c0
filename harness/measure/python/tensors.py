"""Call Python functions on tensors of PyTorch, on the CPU or on a GPU.

The only module that imports torch, when a device is opened. What it does on a GPU was written
without one, and has not been tried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.errors import BackendUnavailable
from harness.core.records import WARM, DeviceLimits
from harness.measure.bound import BoundArray
from harness.measure.python.device import Passed, PythonDevice


class TorchDevice(PythonDevice):
    """The CPU, which calls functions on tensors over the memory of NumPy's arrays."""

    def __init__(self, cache: str = WARM) -> None:
        super().__init__("torch", cache)
        import torch

        self._torch = torch

    def _view(self, bound: BoundArray) -> Any:
        plain = self._torch.as_tensor(bound.memory)  # shares the memory of NumPy's arrays
        return plain.view(getattr(self._torch, bound.dtype.name)).reshape(bound.shape)

    def _array_of(self, array: Any) -> npt.NDArray[Any]:
        if not isinstance(array, self._torch.Tensor):
            raise ValueError(f"a {type(array).__name__}, which is no tensor")
        tensor = array.detach().cpu().contiguous()
        dtype = np.dtype(str(tensor.dtype).removeprefix("torch."))
        plain = tensor.reshape(-1).view(self._torch.uint8).numpy()
        found: npt.NDArray[Any] = plain.view(dtype).reshape(tensor.shape)
        return found


class TorchGpu(TorchDevice):
    """The first GPU that PyTorch sees. A time is that between two events around a call."""

    clock = "CUDA events"

    def __init__(self, cache: str = WARM) -> None:
        super().__init__(cache)
        cuda = self._torch.cuda
        if not cuda.is_available():
            raise BackendUnavailable(
                f"a GPU is here, but PyTorch {self._torch.__version__} cannot use it: install one "
                "with CUDA, or set CUDA_VISIBLE_DEVICES= to measure on the CPU"
            )
        self._error = RuntimeError  # the base class of PyTorch's errors
        self._cuda, self._properties = cuda, cuda.get_device_properties(0)

    @property
    def _device_name(self) -> str:
        return str(self._properties.name)

    @property
    def limits(self) -> DeviceLimits:
        """The number of multiprocessors."""
        most, units = 2**31 - 1, self._properties.multi_processor_count
        return DeviceLimits(most, (most,) * 3, (most,) * 3, most, units, 32)

    @property
    def shares_cpu(self) -> bool:
        """Whether callables run on the CPU."""
        return False

    def _allocated(self, size_bytes: int) -> Any:
        return self._torch.empty(size_bytes, dtype=self._torch.uint8, device="cuda")

    def _write(self, memory: Any, offset: int, array: npt.NDArray[Any]) -> None:
        listed = self._torch.tensor(array.reshape(-1).view(np.uint8))
        memory[offset : offset + array.nbytes].copy_(listed)

    def _read(self, array: npt.NDArray[Any], memory: Any, offset: int) -> None:
        part = memory[offset : offset + array.nbytes]
        array.reshape(-1).view(np.uint8)[:] = part.cpu().numpy()

    def _fill(self, memory: Any, offset: int, byte: int, size_bytes: int) -> None:
        memory[offset : offset + size_bytes].fill_(byte)

    def _copy(self, memory: Any, offset: int, source: Any, size_bytes: int) -> None:
        memory[offset : offset + size_bytes].copy_(source[:size_bytes])

    def _wait(self) -> None:
        self._cuda.synchronize()

    @property
    def _cache_bytes(self) -> int:
        return int(self._properties.L2_cache_size)

    def _is_out_of_memory(self, error: Exception) -> bool:
        return isinstance(error, self._torch.OutOfMemoryError)

    def _timed_fill(self, memory: Any, size_bytes: int) -> float:
        return self._between_events(lambda: self._fill(memory, 0, 0, size_bytes))[0]

    def _timed(self, function: Callable[[Passed], object]) -> tuple[float, object]:
        return self._between_events(lambda: function(self._passed))

    def _between_events(self, call: Callable[[], object]) -> tuple[float, object]:
        """Call, wait, and return the seconds between events of the current stream."""
        begin, end = (self._cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        returned = call()
        end.record()
        self._wait()
        return begin.elapsed_time(end) * 1e-3, returned
