"""Build Python callables, and call them on the arguments that a device has bound."""

from __future__ import annotations

import json
import os
import statistics
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from harness.core.errors import HostModuleError, LaunchFailed
from harness.core.modules import shown_path
from harness.core.observations import HOST
from harness.core.program import Argument, Binary, Launch
from harness.core.records import Input
from harness.core.text import kind_of
from harness.measure.device.arguments import Arguments, BoundArray
from harness.measure.device.host_module import HostModule, describe_error, load_host
from harness.measure.device.launcher import Device
from harness.measure.kernels.data import make_arguments
from harness.measure.python.frameworks import CudaBytes, open_arrays

_FIRST_CALL_SEED = 1 << 40
"""The data of a first call are those of no other run: nothing that it keeps is of use later."""

_MOST_CALLABLES = 128  # as many as the programs of an OpenClDevice
_MOST_MODULES = 8  # what one of them has compiled serves all of its configurations and inputs
_HOST_CALLS = 64  # the last ones, of which the host's share is the median

_VARIABLES = ("NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER", "OMP_NUM_THREADS", "TRITON_INTERPRET")
"""Variables that change how a framework computes."""


@dataclass
class BuiltCallable:
    """What build() of a module returned.

    `build_s` includes the first call. On a GPU, the `device_waits` in a call until the host has
    queued all that it does, and `host_s` are the seconds that the host took for the last calls.
    """

    path: Path
    function: Callable[[dict[str, Any]], object]
    build_s: float = 0.0
    device_waits: bool = False
    host_s: deque[float] = field(default_factory=lambda: deque(maxlen=_HOST_CALLS))


class CallingDevice(Device):
    """A device that calls functions on arrays of a framework."""

    clock: str
    """What measures a time."""

    def __init__(self, framework: str, *others: Any) -> None:
        super().__init__(*others)
        self._framework = framework
        self._arrays = open_arrays(framework, is_gpu=not self.shares_cpu)
        self._built = lru_cache(maxsize=_MOST_CALLABLES)(self._build)
        load = partial(load_host, prefix="harness_kernel", functions=("build",))
        self._modules = lru_cache(maxsize=_MOST_MODULES)(load)
        self._passed: dict[str, Any] = {}

    @property
    def _how_timed(self) -> str:
        """The framework, its clock, and variables that change how it computes."""
        parts = [self._framework, self.clock]
        for name in _VARIABLES:
            if name in os.environ:
                parts.append(f"{name}={os.environ[name]}")
        return ", ".join(parts)

    @abstractmethod
    def _timed(self, built: BuiltCallable) -> tuple[float, object]:
        """Call, wait, and return the seconds with what was returned."""

    def load(self, binary: Binary) -> Any:
        """Build a callable and call it once, or return one of the last built ones.

        The first call, which may compile for seconds, is on arguments of its own.
        """
        return self._built(binary.data)

    def unload(self) -> None:
        """Keep the callables: to compile them again would take seconds, and move nothing."""

    def observed(self, module: BuiltCallable) -> dict[str, float]:
        if not module.host_s:
            return {}
        return {HOST: statistics.median(module.host_s)}

    def _build(self, data: bytes) -> BuiltCallable:
        parts = json.loads(data.partition(b"\n")[0])
        path = Path(parts["path"])
        features = parts["features"]
        try:
            arguments = _first_arguments(path, Input(features))
            began_s = time.perf_counter()
            function = self._modules(path).build(parts["config"], features)
        except HostModuleError as error:
            raise LaunchFailed(str(error)) from None
        except (Exception, SystemExit) as error:
            raise LaunchFailed(describe_error(error, path, "build() raised ")) from None
        if not callable(function):
            raise LaunchFailed(
                f"{shown_path(path)}: build() must return a callable, but returned "
                f"{kind_of(function)}"
            )
        built = BuiltCallable(path, function)
        self._call_first(built, arguments)
        built.build_s = time.perf_counter() - began_s
        return built

    def _call_first(self, built: BuiltCallable, arguments: Mapping[str, Argument]) -> None:
        """Call on these arguments, and leave those that are bound as they are."""
        bound = self.arguments
        self.arguments = Arguments(self._memory, self.errors)
        try:
            self.arguments.bind(arguments)
            self._compile(built)
            outside_writes = self.arguments.outside_writes()
            bound.left_zone |= self.arguments.left_zone
        finally:
            with suppress(LaunchFailed):  # of a lost device, which frees nothing
                self.arguments.release()
            self.arguments = bound
        if outside_writes:
            names = ", ".join(map(str, outside_writes))
            raise LaunchFailed(f"the first call writes outside of the argument {names}")

    def _compile(self, built: BuiltCallable) -> None:
        """Call for the first time."""
        self._call(built)

    def launch(self, module: Any, launches: Sequence[Launch]) -> float:
        """Call on the bound arguments, once for each launch, and return the seconds in all."""
        return sum(self._call(module) for _ in launches)

    def _call(self, built: BuiltCallable) -> float:
        """Call a function once.

        All calls get one dict, and new arrays over the same memory: what a function keeps by the
        identity of its arguments is soon that of other data.
        """
        self._passed.clear()
        for name, value in self.arguments.bound.items():
            if isinstance(value, BoundArray):
                self._passed[name] = self._view(name, value)
            else:
                self._passed[name] = value.item()
        elapsed_s, returned = self._timed(built)
        self._passed.clear()
        self._store(returned)
        return elapsed_s

    def _called(self, built: BuiltCallable) -> tuple[float, object]:
        """Call, and return the seconds until it returned, with what it returned."""
        try:
            began_s = time.perf_counter()
            returned = built.function(self._passed)
            return time.perf_counter() - began_s, returned
        except (Exception, SystemExit) as error:
            self._check_answers()
            described = describe_error(error, built.path, "the callable raised ")
            trace = error.__traceback__
            if isinstance(error, TypeError) and trace is not None and trace.tb_next is None:
                described += "; it is called with one dict of all arguments"
            raise LaunchFailed(described) from None

    def _view(self, name: str, bound: BoundArray) -> Any:
        """Return a new array of the framework over a bound array."""
        memory = bound.memory
        if not self.shares_cpu:
            memory = CudaBytes(memory, bound.size_bytes)
        try:
            return self._arrays.view(memory, bound.dtype, bound.shape)
        except Exception as error:
            described = f"{bound.dtype}{list(bound.shape)}: {type(error).__name__}: {error}"
            raise LaunchFailed(
                f"{self._framework} has no array for the argument {name}, {described}"
            ) from None

    def _store(self, returned: object) -> None:
        """Copy arrays that a callable returned to the arguments of their names."""
        if returned is None:
            return
        if not isinstance(returned, Mapping):
            raise LaunchFailed(
                f"the callable returned {kind_of(returned)}; write the outputs in place and "
                "return None, or return a dict of arrays by their names"
            )
        for name, array in returned.items():
            try:
                self.arguments.write(name, self._arrays.as_numpy(array))
            except (TypeError, ValueError) as error:
                raise LaunchFailed(f"the callable returned another array: {error}") from None


@lru_cache(maxsize=1)
def _first_arguments(path: Path, problem: Input) -> dict[str, Argument]:
    return make_arguments(HostModule(path), problem, _FIRST_CALL_SEED)
