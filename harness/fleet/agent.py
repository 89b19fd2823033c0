"""The agent of a worker: it builds, and measures on the devices of its machine.

It keeps nothing of a campaign: what a request needs comes with it, and a new agent serves the next
request as well. As on one machine, child processes run the configurations, so that one that crashes
or hangs ends neither the agent nor its work for others.
"""

from __future__ import annotations

import dataclasses
import platform
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import harness
from harness.core.errors import BackendUnavailable, HarnessError, UsageError
from harness.core.program import Binary, Program
from harness.core.records import Measurement
from harness.fleet import wire
from harness.fleet.bundle import Bundle, bundle_folder, unpacked
from harness.fleet.messages import (
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
    Prove,
    Release,
    RunInterleaved,
    RunOne,
    StoredBundle,
    TryEmptyKernel,
    WorkerAnswer,
)
from harness.measure.backends.choose import Backend
from harness.measure.build_queue import BuildWorker
from harness.measure.device_client import DeviceClient
from harness.measure.device_worker import DeviceFacts, DeviceWorker, Together
from harness.measure.kernel_proof import ProofRuns
from harness.measure.processes import Processes, ProcessLost, count_of_builders

IDLE_S = 60.0
"""A device whose driver asked for nothing for so long may be taken by another driver."""

RESULTS: Mapping[type, Any] = {
    Describe: WorkerAnswer[DeviceFacts],
    TryEmptyKernel: WorkerAnswer[bool],
    Release: WorkerAnswer[bool],
    NameArguments: WorkerAnswer[MadeData],
    RunOne: WorkerAnswer[Measurement],
    RunInterleaved: WorkerAnswer[Together],
    Prove: WorkerAnswer[ProofRuns],
}
"""The type of the answer to each call of a device."""


@dataclass
class _Held:
    """A device, and the session that its process serves."""

    offered: OfferedDevice
    lock: threading.Lock = field(default_factory=threading.Lock)
    session: DeviceSession | None = None
    client: DeviceClient | None = None
    used_s: float = 0.0

    def release(self, session: DeviceSession) -> bool:
        """End the process of a session, if it is the present one's; the device is free then."""
        if self.client is not None and self.session == session:
            self.client.close()
            self.client = None
        return True


class Agent:
    """Serve the requests of drivers; several threads may call it."""

    def __init__(self, devices: Sequence[OfferedDevice], builders: int | None = None) -> None:
        self._held = {device.uuid: _Held(device) for device in devices}
        self._at_once = count_of_builders() if builders is None else builders
        self._builders: dict[Backend, Processes] = {}
        self._starting = threading.Lock()

    def offer(self) -> Offer:
        """Return what this worker has."""
        devices = tuple(held.offered for held in self._held.values())
        return Offer(harness.__version__, platform.node(), devices, self._at_once)

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
        held = self._held.get(request.session.uuid)
        if held is None:
            raise BackendUnavailable(f"this worker has no device {request.session.uuid}")
        with held.lock:
            if isinstance(request.call, Release):
                return held.release(request.session)
            client = self._client(held, request.session)
            try:
                return _called(client, request.call)
            finally:
                held.used_s = time.monotonic()

    def _client(self, held: _Held, session: DeviceSession) -> DeviceClient:
        """Return the client of a session; it takes the place of one that its driver has left."""
        if held.client is not None and held.session == session:
            return held.client
        if held.client is not None and held.session is not None:
            idle_s = time.monotonic() - held.used_s
            if held.session.driver != session.driver and idle_s < IDLE_S:
                raise BackendUnavailable(
                    f"{held.offered.name} is used by another driver, {idle_s:.0f} s ago; a device "
                    f"is free {IDLE_S:g} s after its last measurement"
                )
            held.client.close()
            held.client = None
        backend = dataclasses.replace(
            held.offered.backend,
            cache=session.cache,
            arch_specific=session.arch_specific,
            cuda_compiler=session.cuda_compiler,
        )
        host = bundle_folder(session.bundle) / session.host
        held.client, held.session = DeviceClient(host, backend), session
        return held.client

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
            if held.client is not None:
                held.client.close()
        for processes in self._builders.values():
            processes.close()


def _called(client: DeviceClient, call: DeviceCall) -> object:
    if isinstance(call, Describe):
        return client.describe()
    if isinstance(call, TryEmptyKernel):
        client.require_working()
        return True
    if isinstance(call, NameArguments):
        return MadeData(client.argument_names(call.problem), client.made_s(call.problem))
    limits: dict[str, Any] = {"timeout_s": call.timeout_s, "seed": call.seed}
    if isinstance(call, RunOne):
        return client.run(call.job.input, DeviceWorker.run, call.job, **limits)
    if isinstance(call, RunInterleaved):
        run = partial(client.run, call.jobs[0].input, DeviceWorker.run_interleaved)
        return run(call.jobs, call.block, **limits)
    prove = partial(client.run, call.job.input, DeviceWorker.prove)
    return prove(call.job, call.default, call.count, **limits)
