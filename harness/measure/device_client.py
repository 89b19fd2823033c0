"""The process that owns the device, seen from outside: when it is prepared, and when replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from harness.core.errors import BackendUnavailable, HostModuleError, LaunchFailed
from harness.core.records import Input
from harness.measure.backends.choose import Backend
from harness.measure.device_worker import DeviceFacts, describe, prepare
from harness.measure.processes import Processes, ProcessLost
from harness.space_file import Spec

_PREPARE_TIMEOUT_S = 600.0


class DeviceOwner:
    """The process that owns the device, and what it was last given."""

    def __init__(self, spec: Spec, backend: Backend) -> None:
        self._spec = spec
        self._backend = backend
        self._processes = Processes(1)
        self._names: dict[Input, tuple[str, ...]] = {}
        self._unfit: dict[Input, str] = {}
        self._used = False

    def describe(self) -> DeviceFacts:
        """Open the device; raises BackendUnavailable where that fails."""
        try:
            return self._processes.run(describe, self._backend, timeout_s=_PREPARE_TIMEOUT_S)
        except ProcessLost as lost:
            raise BackendUnavailable(
                f"the process that opens the {self._backend.language} device {lost}; see whether "
                "the driver's own tools work (clinfo, nvidia-smi)"
            ) from None

    def argument_names(self, given: Input) -> tuple[str, ...]:
        """The kernel's arguments; raises HostModuleError, or LaunchFailed for data that does not
        fit on the device."""
        if given not in self._names:
            self._prepare(given)
        return self._names[given]

    def _prepare(self, given: Input) -> None:
        """Give the process the input's data."""
        if given in self._unfit:
            raise LaunchFailed(self._unfit[given])
        host = self._spec.host
        try:
            self._names[given] = self._processes.run(
                prepare, self._backend, host, given, timeout_s=_PREPARE_TIMEOUT_S
            )
        except LaunchFailed as error:
            message = f"the data of ({given}): {error}"
            if given not in self._names:
                self._unfit[given] = message
            else:  # it did fit before, and does so again perhaps in a new process
                self._processes.replace()
            raise LaunchFailed(message) from None
        except ProcessLost as lost:
            raise HostModuleError(
                f"{host}: the process that made the data of ({given}) {lost}; "
                "is there enough memory, and time?"
            ) from None

    def run(
        self, given: Input, function: Callable[..., Any], args: Sequence[object], timeout_s: float
    ) -> Any:
        """Run on the device with the input's data; raises ProcessLost, or LaunchFailed for data
        that does not fit on the device any more."""
        was_used = self._used
        try:
            return self._run_once(given, function, args, timeout_s)
        except ProcessLost as lost:
            if lost.hung or not was_used:
                raise
        # It had run other configurations, of which one may have spoilt it: a rerun tells.
        return self._run_once(given, function, args, timeout_s)

    def _run_once(
        self, given: Input, function: Callable[..., Any], args: Sequence[object], timeout_s: float
    ) -> Any:
        self._used = False
        result, healthy = self._call(function, args, timeout_s)
        if result is None:  # a new process, or one with another input's data
            self._prepare(given)
            result, healthy = self._call(function, args, timeout_s)
        if result is None:  # the process that was prepared died, and a new one answered
            raise ProcessLost("ended while it was idle", idle=True)
        if healthy:
            self._used = True
        else:
            # A failed launch can spoil a CUDA context for good: only a new process helps.
            self._processes.replace()
        return result

    def _call(
        self, function: Callable[..., Any], args: Sequence[object], timeout_s: float
    ) -> tuple[Any, bool]:
        result: tuple[Any, bool] = self._processes.run(
            function, self._backend, *args, timeout_s=timeout_s
        )
        return result

    def close(self) -> None:
        """End the process."""
        self._processes.close()
