"""The agent of a worker: it builds, and measures on the devices of its machine.

It keeps nothing of a campaign: what a request needs comes with it, and a new agent serves the next
request as well. As on one machine, child processes run the configurations, so that one that crashes
or hangs ends neither the agent nor its work for others.
"""

from __future__ import annotations

import dataclasses
import platform
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import harness
from harness.core.errors import BackendUnavailable, HarnessError, UsageError
from harness.core.program import Binary, Program
from harness.core.records import Measurement
from harness.fleet import wire
from harness.fleet.bundle import Bundle, bundle_folder, unpacked
from harness.fleet.held import Held
from harness.fleet.messages import (
    PROGRAM_RESULTS,
    BuildRequest,
    Describe,
    DeviceCall,
    DeviceRequest,
    DeviceSession,
    Failure,
    MadeData,
    NameArguments,
    Offer,
    OfferedDevice,
    ProgramRequest,
    Release,
    RunInterleaved,
    RunOne,
    StoredBundle,
    TryEmptyKernel,
    WorkerAnswer,
)
from harness.fleet.programs import Programs
from harness.measure.backends.choose import Backend
from harness.measure.build_queue import BuildWorker
from harness.measure.device_client import DeviceClient
from harness.measure.device_worker import DeviceFacts, DeviceWorker, Together
from harness.measure.processes import Processes, ProcessLost, count_of_builders

RESULTS: Mapping[type, Any] = {
    Describe: WorkerAnswer[DeviceFacts],
    TryEmptyKernel: WorkerAnswer[bool],
    Release: WorkerAnswer[bool],
    NameArguments: WorkerAnswer[MadeData],
    RunOne: WorkerAnswer[Measurement],
    RunInterleaved: WorkerAnswer[Together],
}
"""The type of the answer to each call of a device."""


class Agent:
    """Serve the requests of drivers; several threads may call it."""

    def __init__(
        self,
        devices: Sequence[OfferedDevice],
        builders: int | None = None,
        unavailable: Sequence[str] = (),
    ) -> None:
        """`unavailable` says why others cannot be used."""
        self._devices = {device.uuid: device for device in devices}
        self._unavailable = tuple(unavailable)
        self._held: dict[str, Held[DeviceSession, DeviceClient]] = {
            device.uuid: Held(device.name) for device in devices
        }
        self._programs = Programs()
        self._at_once = count_of_builders() if builders is None else builders
        self._builders: dict[Backend, Processes] = {}
        self._starting = threading.Lock()

    def offer(self) -> Offer:
        """Return what this worker has."""
        devices = tuple(self._devices.values())
        version, host_name = harness.__version__, platform.node()
        return Offer(version, host_name, devices, self._at_once, self._unavailable)

    def store(self, text: bytes) -> bytes:
        """Keep the files of a bundle."""
        bundle: Bundle = wire.decode(Bundle, text)
        bundle.folder()
        return wire.encode(StoredBundle, StoredBundle(bundle.digest))

    # ------------------------------------------------------------------------------- builds

    def build(self, text: bytes) -> bytes:
        """Compile a program; answers with a Binary."""
        request: BuildRequest = wire.decode(BuildRequest, text)
        return self._answered(WorkerAnswer[Binary], request.bundle, partial(self._built, request))

    def _built(self, request: BuildRequest) -> Binary:
        program = unpacked(request.program, request.bundle)
        with self._starting:
            if request.backend not in self._builders:
                make = partial(BuildWorker[Program], request.backend)
                self._builders[request.backend] = Processes(self._at_once, make)
        processes = self._builders[request.backend]
        return processes.run(BuildWorker.compile, program, timeout_s=request.timeout_s)

    # ------------------------------------------------------------------------------ devices

    def measure(self, text: bytes) -> bytes:
        """Carry out a call of a device."""
        request: DeviceRequest = wire.decode(DeviceRequest, text)
        kind = RESULTS[type(request.call)]
        return self._answered(kind, request.session.bundle, partial(self._measured, request))

    def _measured(self, request: DeviceRequest) -> object:
        session = request.session
        held = self._held.get(session.uuid)
        if held is None:
            raise BackendUnavailable(f"this worker has no device {session.uuid}")
        if isinstance(request.call, Release):
            return held.release(session)
        with held.used_by(session, partial(self._opened, session)) as client:
            return _called(client, request.call)

    def _opened(self, session: DeviceSession) -> DeviceClient:
        offered = self._devices[session.uuid].backend
        if offered is None:
            raise BackendUnavailable(f"{session.uuid} is a machine, which runs no kernels")
        backend = dataclasses.replace(
            offered,
            cache=session.cache,
            arch_specific=session.arch_specific,
            cuda_compiler=session.cuda_compiler,
        )
        return DeviceClient(bundle_folder(session.bundle) / session.host, backend)

    def program(self, text: bytes) -> bytes:
        """Carry out a call of the machine, which runs programs."""
        request: ProgramRequest = wire.decode(ProgramRequest, text)
        kind = PROGRAM_RESULTS[type(request.call)]
        call = partial(self._programs.carry_out, request)
        return self._answered(kind, request.session.bundle, call)

    def _answered(self, kind: Any, bundle: str, call: Callable[[], object]) -> bytes:
        """WorkerAnswer with a result, or with an error that the interface has."""
        if not bundle_folder(bundle).exists():
            return wire.encode(kind, WorkerAnswer(lacks_bundle=True))
        try:
            return wire.encode(kind, WorkerAnswer(call()))
        except (UsageError, OSError) as error:
            # No room on a disk, for instance: a fault of this worker, and not of the user.
            fault = BackendUnavailable(f"the worker on {platform.node()}: {error}")
            return wire.encode(kind, WorkerAnswer(failure=Failure.of(fault)))
        except (HarnessError, ProcessLost) as error:
            return wire.encode(kind, WorkerAnswer(failure=Failure.of(error)))

    def close(self) -> None:
        """End all child processes."""
        for held in self._held.values():
            held.close()
        self._programs.close()
        for processes in self._builders.values():
            processes.close()


def _called(client: DeviceClient, call: DeviceCall) -> object:
    if isinstance(call, Describe):
        return client.describe()
    if isinstance(call, TryEmptyKernel):
        client.require_working()
        return True
    if isinstance(call, NameArguments):
        return MadeData(client.argument_names(call.problem))
    limits: dict[str, Any] = {"timeout_s": call.timeout_s, "seed": call.seed}
    if isinstance(call, RunOne):
        return client.run(call.job.input, DeviceWorker.run, call.job, **limits)
    run = partial(client.run, call.jobs[0].input, DeviceWorker.run_interleaved)
    return run(call.jobs, call.block, **limits)
