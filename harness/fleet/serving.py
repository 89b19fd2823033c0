"""Serve a cluster as one of its workers, and start a cluster on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence

from harness.core.errors import BackendUnavailable, UsageError
from harness.fleet import agent
from harness.fleet.address import LOCAL, check_address, check_certificates, load_distributed
from harness.measure.devices import choose_offered

_CONNECT_S = 30
_ENDING = (signal.SIGINT, signal.SIGTERM)


def check_can_serve(address: str, insecure: bool) -> None:
    """Raise UsageError for an address that nobody should use, and for an encrypted one without a
    certificate; BackendUnavailable without Dask."""
    if address.startswith(LOCAL):
        raise UsageError(
            f"`{address}` is for --cluster of harness.tune, which then starts its own workers; a "
            "worker needs the address of a scheduler, such as tls://HOST:PORT"
        )
    check_address(address, insecure)
    load_distributed()
    check_certificates(address, "worker")


def serve(address: str) -> None:
    """Serve a scheduler until it ends, or a signal asks this process to end.

    Raises BackendUnavailable where no scheduler answers.
    """
    try:
        asyncio.run(_served(address))
    finally:
        agent.close()


async def _served(address: str) -> None:
    distributed = load_distributed()
    serving = distributed.Worker(address, nthreads=1, death_timeout=_CONNECT_S, dashboard=False)
    try:
        await serving
    except (OSError, asyncio.TimeoutError) as error:
        raise BackendUnavailable(f"no scheduler answers at {address}: {error}") from None
    loop = asyncio.get_running_loop()
    for number in _ENDING:
        loop.add_signal_handler(number, lambda: loop.create_task(serving.close()))
    await serving.finished()


@contextlib.contextmanager
def local_cluster(count: int, names: Sequence[str]) -> Iterator[str]:
    """Start a scheduler and `count` workers on this machine, each with one of its devices; yield
    the scheduler's address.

    Raises UsageError for unknown devices, BackendUnavailable where there are too few.
    """
    distributed = load_distributed()
    devices = choose_offered(names)
    if len(devices) < count:
        raise BackendUnavailable(
            f"--cluster local:{count} needs {count} devices, but only {len(devices)} can be used "
            f"here; write local:{len(devices)}"
        )
    with (
        distributed.LocalCluster(
            n_workers=0,
            processes=False,
            host="127.0.0.1",
            protocol="tcp://",
            dashboard_address="127.0.0.1:0",
        ) as cluster,
        contextlib.ExitStack() as started,
    ):
        for backend in devices[:count]:
            assert backend.device is not None, "a device of this machine has a name"
            started.enter_context(_started(cluster.scheduler_address, backend.device.index))
        yield cluster.scheduler_address


@contextlib.contextmanager
def _started(address: str, device: str) -> Iterator[None]:
    """Run a worker for one device; it ends with the scheduler, which this process runs."""
    command = [sys.executable, "-m", "harness.worker", address, "--device", device, "--quiet"]
    process = subprocess.Popen(command)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
