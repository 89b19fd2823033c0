"""The scheduler: its address, which may need encryption, and how a worker serves it.

Dask's distributed is imported when it is first used, since that takes a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import signal
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from harness.core.errors import BackendUnavailable, UsageError
from harness.fleet import agent

_CONNECT_S = 30
_ENDING = (signal.SIGINT, signal.SIGTERM)


def check_address(address: str, insecure: bool = False) -> None:
    """Raise UsageError for an address that is malformed, or that others on the network can reach
    without a certificate: whoever reaches a scheduler can run programs on its workers."""
    parts = urlsplit(address)
    try:
        is_whole = parts.scheme in ("tcp", "tls") and bool(parts.hostname) and bool(parts.port)
    except ValueError:  # of the port
        is_whole = False
    if not is_whole:
        raise UsageError(
            f"`{address}` is no address of a scheduler; expected tls://HOST:PORT or "
            "tcp://127.0.0.1:PORT (for the devices of this machine alone, write --device all)"
        )
    if parts.scheme == "tls" or insecure or _is_loopback(parts.hostname or ""):
        return
    raise UsageError(
        f"{address} is not encrypted, and whoever reaches a scheduler can run programs on its "
        "workers. Use tls:// with certificates (docs/howto/use_several_machines.md), or add "
        "--insecure on a network that you trust"
    )


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


@cache
def load_distributed() -> Any:
    """Import distributed, without its log on standard error; raises BackendUnavailable."""
    try:
        import dask
    except ImportError as error:
        raise BackendUnavailable(
            f"Dask is missing ({error}). In the clone of harness, run: pip install -e '.[fleet]'"
        ) from None
    # Its errors reach the user as ours; it would print tracebacks as well.
    dask.config.set({"logging": {"distributed": "critical", "distributed.client": "critical"}})
    import distributed

    # Dask's profiler asks for all frames every 10 ms. Python before 3.11.8 and 3.12.2 may wait for
    # ever there (CPython issue 106883).
    dask.config.set({"distributed.worker.profile.enabled": False})
    return distributed


def check_certificates(address: str, role: str) -> None:
    """Raise UsageError where Dask's settings have no certificate for an encrypted scheduler.

    `role` is `client` or `worker`.
    """
    if not address.startswith("tls:"):
        return
    import dask

    names = ("ca-file", f"{role}.cert", f"{role}.key")
    for name in names:
        path = dask.config.get(f"distributed.comm.tls.{name}", None)
        if path is None and name.endswith(".key"):
            continue  # it may stand in the certificate's file
        if path is None or not Path(path).is_file():
            found = "is not set" if path is None else f"names {path}, which is no file"
            raise UsageError(
                f"{address} needs a certificate, but `distributed.comm.tls.{name}` of Dask's "
                f"settings {found}; docs/howto/use_several_machines.md shows the file, such as "
                "~/.config/dask/fleet.yaml"
            )


def check_can_serve(address: str, insecure: bool) -> None:
    """Raise UsageError for an address that nobody should use, and for an encrypted one without a
    certificate; BackendUnavailable without Dask."""
    check_address(address, insecure)
    load_distributed()
    check_certificates(address, "worker")


def serve(address: str) -> bool:
    """Serve a scheduler until it ends, or a signal asks this process to end: say whether one did.

    Raises BackendUnavailable where no scheduler answers.
    """
    try:
        return asyncio.run(_served(address))
    finally:
        agent.end_agents()


async def _served(address: str) -> bool:
    distributed = load_distributed()
    serving = distributed.Worker(address, nthreads=1, death_timeout=_CONNECT_S, dashboard=False)
    try:
        await serving
    except (OSError, asyncio.TimeoutError) as error:
        raise BackendUnavailable(f"no scheduler answers at {address}: {error}") from None
    loop, signals = asyncio.get_running_loop(), []

    def end(number: int) -> None:
        signals.append(loop.create_task(serving.close(reason=f"signal {number}")))

    for number in _ENDING:
        loop.add_signal_handler(number, end, number)
    await serving.finished()
    return bool(signals)
