"""What the devices of CUDA and of OpenCL share: bound arguments, and errors of the driver."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.core.errors import LaunchFailed
from harness.core.program import Argument


class BoundArray(NamedTuple):
    """An array argument: its device memory, and its shape and type on the host."""

    memory: Any
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class DriverDevice(ABC):
    """The arguments on a device, and whether it still works; subclasses call the driver.

    `error` is the base class of the driver's errors, `channel` what a failed launch can spoil.
    """

    def __init__(self, error: type[Exception], channel: str) -> None:
        self.healthy = True
        self._error = error
        self._channel = channel
        self._arguments: dict[str, BoundArray | np.generic] = {}

    @abstractmethod
    def _copied(self, array: npt.NDArray[Any]) -> Any:
        """Return device memory with a copy of an array."""

    @abstractmethod
    def _write(self, memory: Any, array: npt.NDArray[Any]) -> None:
        """Copy a C-contiguous array to the device."""

    @abstractmethod
    def _read(self, array: npt.NDArray[Any], memory: Any) -> None:
        """Copy from the device into an array."""

    @abstractmethod
    def _free(self, memory: Any) -> None:
        """Free device memory."""

    @abstractmethod
    def _wait(self) -> None:
        """Wait for the device; raises its error where it does not work any more."""

    def bind(self, arguments: Mapping[str, Argument]) -> None:
        """Replace the arguments on the device by copies of these ones."""
        self._release_arguments()
        for name, value in arguments.items():
            if isinstance(value, np.ndarray):
                with self._errors(f"allocating {value.nbytes:,} bytes for {name}"):
                    memory = self._copied(value)
                self._arguments[name] = BoundArray(memory, value.shape, value.dtype)
            else:
                self._arguments[name] = value

    def write(self, name: str, array: npt.NDArray[Any]) -> None:
        """Overwrite one array argument; ValueError unless shape and dtype are as bound."""
        memory, shape, dtype = self._bound(name)
        if (array.shape, array.dtype) != (shape, dtype):
            raise ValueError(
                f"{name} is bound as {dtype}{list(shape)}, "
                f"but written as {array.dtype}{list(array.shape)}"
            )
        with self._errors(f"writing {name}"):
            self._write(memory, np.asarray(array, order="C"))

    def read(self, name: str) -> npt.NDArray[Any]:
        """Return a copy of one array argument, in C order."""
        memory, shape, dtype = self._bound(name)
        array = np.empty(shape, dtype)
        with self._errors(f"reading {name}"):
            self._read(array, memory)
        return array

    def _bound(self, name: str) -> BoundArray:
        value = self._arguments.get(name)
        if not isinstance(value, BoundArray):
            arrays = [n for n, v in self._arguments.items() if isinstance(v, BoundArray)]
            raise ValueError(
                f"{name} is not a bound array; arrays are {', '.join(arrays) or 'none'}"
            )
        return value

    def _release_arguments(self) -> None:
        arguments, self._arguments = self._arguments, {}
        with self._errors("freeing device memory"):
            for value in arguments.values():
                if isinstance(value, BoundArray):
                    self._free(value.memory)

    @contextlib.contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        """Turn the driver's errors into LaunchFailed, and find out whether the device survived."""
        try:
            yield
        except self._error as error:
            self.healthy = self.healthy and self._answers()
            lost = "" if self.healthy else f"; the {self._channel} is lost and its process must end"
            raise LaunchFailed(f"{doing}: {self._meaning(error)}{error}{lost}") from None

    def _meaning(self, error: Exception) -> str:
        """Return what the type of a driver's error means, before its own text."""
        return ""

    def _answers(self) -> bool:
        """Say whether the device still works: a spoiled one repeats its error at every call."""
        try:
            self._wait()
        except self._error:
            return False
        return True
