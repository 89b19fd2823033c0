"""What a worker does for a driver: it builds and measures on the devices of its machine.

An Agent is a Dask actor: Dask makes it on the worker, sends it the driver's calls, and drops it
when the driver has left. As on one machine, child processes run the configurations, so that one
that crashes or hangs ends neither the agent nor its work for others.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import platform
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from harness.core.errors import (
    BackendUnavailable,
    DeviceBusy,
    HarnessError,
    SpecError,
    UsageError,
)
from harness.core.records import Config, DeviceLimits, Environment, Input, Measurement
from harness.fleet.bundle import Bundle, PackedSpec
from harness.fleet.offer import Offer, OfferedDevice, make_offer
from harness.measure.choose import fitted_backend
from harness.measure.kernels.measurer import KernelMeasurer
from harness.measure.process.locks import locked
from harness.measure.programs.measurer import ProgramMeasurer
from harness.space import ConstrainedSpace
from harness.space_file import Spec

T = TypeVar("T")
LocalMeasurer = KernelMeasurer | ProgramMeasurer

Announced = tuple[Sequence[tuple[Input, Sequence[Measurement]]], Sequence[Config]]
"""Earlier measurements of inputs, and configurations to build."""

_THREADS = 256
"""A device needs one, and one more where its driver closes it meanwhile."""


@dataclass(frozen=True)
class OpenedDevice:
    """What a driver must know of a device; `fitted` is the space with what the compiler there knows
    of its flags."""

    environment: Environment
    limits: DeviceLimits
    compiler: str | None
    notices: tuple[str, ...]
    fitted: Spec


class Agent:
    """Measures on devices of this worker for one driver, in threads of its own: Dask has one for
    all actors of a worker."""

    def __init__(self, driver: str, space: PackedSpec) -> None:
        """`driver` is the campaign, by the name of its database."""
        self.driver = driver
        self._packed = space
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="harness-agent")
        self._opening = threading.Lock()
        self._spec: Spec | None = None
        self._fitted: Spec | None = None
        self._spaces: dict[Input, ConstrainedSpace] = {}
        self._measurers: dict[str, LocalMeasurer] = {}  # by UUID; the first one has the builds
        self._closed: set[str] = set()
        self._has_ended = False
        self._open = ExitStack()
        # Dask drops an agent in its event loop, which must not wait for processes that end.
        end = threading.Thread(target=_ended, args=(self._open,), daemon=True)
        weakref.finalize(self, end.start).atexit = False

    async def store(self, bundle: Bundle) -> None:
        """Keep the user's files."""
        await self._in_thread(bundle.folder)

    async def open(self, uuid: str) -> OpenedDevice | None:
        """Open the measurer of a device; None where the user's files are missing here.

        An earlier process of the same campaign has ended, and so is what still runs for it. Raises
        DeviceBusy where another campaign measures on the device, BackendUnavailable.
        """
        return await self._in_thread(self._opened, uuid)

    async def measure(self, uuid: str, announced: Announced, method: str, *args: Any) -> Any:
        """Call `measure` or `measure_interleaved` of a measurer, on an input; return what it
        returns, and its notices."""
        return await self._in_thread(self._measured, uuid, announced, method, *args)

    async def close(self, uuid: str) -> None:
        """End the processes of a device; those of the builds with the last one."""
        await self._in_thread(self._close, uuid)

    def end(self) -> None:
        """End all processes; calls that wait for them raise."""
        self._has_ended = True
        _ended(self._open)
        self._leave(*self._measurers)
        self._measurers.clear()

    # ------------------------------------------------------------------------- in its threads

    async def _in_thread(self, function: Callable[..., T], *args: object) -> T:
        """Call a function; what is wrong with this worker is no fault of the user's."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, partial(function, *args))
        except (UsageError, SpecError, OSError) as error:
            raise BackendUnavailable(f"the worker on {platform.node()}: {error}") from None
        except HarnessError:
            raise
        except Exception as error:  # of a class that the driver may lack
            if self._has_ended:
                node = platform.node()
                raise BackendUnavailable(f"the devices of {node} were closed meanwhile") from None
            raise RuntimeError(f"{type(error).__name__}: {error}") from None

    def _opened(self, uuid: str) -> OpenedDevice | None:
        if not self._packed.folder.exists():
            return None
        device = next((each for each in offer().devices if each.uuid == uuid), None)
        if device is None:
            raise BackendUnavailable(f"this worker has no device {uuid}")
        with _changing:
            last = _agents.get(uuid)
            if last is not None and last.driver != self.driver:
                raise DeviceBusy(
                    f"another campaign measures on {device.name} of {platform.node()}, that of "
                    f"{last.driver}. Wait until it ends, or name another device with --device"
                )
            if last is not None:
                last.end()
            _agents[uuid] = self
        try:
            with self._opening:
                return self._facts(device)
        except BaseException:
            if uuid not in self._measurers:
                self._leave(uuid)
            raise

    def _facts(self, device: OfferedDevice) -> OpenedDevice:
        if self._spec is None:
            self._spec = self._packed.unpacked()
        measurer = self._measurer(self._spec, device)
        self._measurers[device.uuid] = measurer
        self._closed.discard(device.uuid)
        if self._fitted is None:
            self._fitted = measurer.fitted(self._spec)
        about = measurer.environment, measurer.limits, measurer.compiler
        return OpenedDevice(*about, tuple(measurer.notices), self._fitted)

    def _measurer(self, spec: Spec, device: OfferedDevice) -> LocalMeasurer:
        """Open a measurer, which is closed with this agent; those of kernels share their builds."""
        made = offer()
        measurer: LocalMeasurer
        if device.backend is None:
            self._open.enter_context(locked(device.uuid, device.name))
            measurer = ProgramMeasurer(spec, builders=made.builders)
        else:
            equal = next(iter(self._measurers.values()), None)
            measurer = KernelMeasurer(
                spec,
                fitted_backend(spec, device.backend),
                equal=equal if isinstance(equal, KernelMeasurer) else None,
                devices=sum(each.backend is not None for each in made.devices),
                builders=made.builders,
            )
        self._open.callback(measurer.close)
        return measurer

    def _measured(
        self, uuid: str, announced: Announced, method: str, problem: Input, *args: object
    ) -> tuple[Any, tuple[str, ...]]:
        measurer = self._measurers[uuid]
        recalled, expected = announced
        for earlier in recalled:
            measurer.recall(*earlier)
        space = self._space(measurer, problem)
        if expected:
            # What is built differs by input only where nothing is built in advance.
            measurer.expect(space, expected)
        return getattr(measurer, method)(space, problem, *args), tuple(measurer.notices)

    def _space(self, measurer: LocalMeasurer, problem: Input) -> ConstrainedSpace:
        assert self._fitted is not None, "a device is open"
        if problem not in self._spaces:
            limits, compiler = measurer.limits, measurer.compiler
            self._spaces[problem] = ConstrainedSpace.of(self._fitted, problem, limits, compiler)
        return self._spaces[problem]

    def _close(self, uuid: str) -> None:
        self._closed.add(uuid)
        if self._closed >= self._measurers.keys():
            self.end()
        elif uuid != next(iter(self._measurers)):
            self._measurers[uuid].close()
            self._leave(uuid)

    def _leave(self, *uuids: str) -> None:
        """Let other campaigns use these devices."""
        with _changing:
            for uuid in uuids:
                if _agents.get(uuid) is self:
                    del _agents[uuid]


def _ended(opened: ExitStack) -> None:
    with _changing:
        opened.close()


_changing = threading.RLock()
_agents: weakref.WeakValueDictionary[str, Agent] = weakref.WeakValueDictionary()
"""Who measures on the devices of this process, by their UUIDs, until Dask drops the agent."""

_offers: list[Offer] = []


def offer(names: Sequence[str] = (), builders: int | None = None) -> Offer:
    """Return what this process offers, which the first call decides.

    Raises BackendUnavailable under Dask's nanny, and what make_offer raises.
    """
    if multiprocessing.current_process().daemon:
        raise BackendUnavailable(
            "Dask's nanny started it, and lets no child processes run; start it with "
            "`harness.worker ADDRESS`, or with `dask worker --no-nanny`"
        )
    with _changing:
        if not _offers:
            _offers.append(make_offer(names, builders))
        return _offers[0]


def close() -> None:
    """End the child processes of all agents of this process."""
    for agent in set(_agents.values()):
        agent.end()
    _offers.clear()
