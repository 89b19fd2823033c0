"""Dask's distributed, imported when it is first used (it takes a second), and the address of a
scheduler: whether it may be used without encryption."""

from __future__ import annotations

import ipaddress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from harness.core.errors import BackendUnavailable, UsageError

LOCAL = "local:"
"""The beginning of an address that stands for a cluster on this machine, such as `local:2`."""


def local_count(address: str) -> int | None:
    """Return the number of workers of a cluster on this machine; None for a scheduler's address.

    Raises UsageError for a number that is none.
    """
    if not address.startswith(LOCAL):
        return None
    text = address.removeprefix(LOCAL)
    if not text.isdecimal() or not 1 <= int(text) <= 1024:
        raise UsageError(f"--cluster {LOCAL}N needs a number of workers from 1, got {text!r}")
    return int(text)


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
            f"`{address}` is no address of a scheduler; expected tls://HOST:PORT, "
            "tcp://127.0.0.1:PORT or local:N"
        )
    if parts.scheme == "tls" or insecure or _is_loopback(parts.hostname or ""):
        return
    raise UsageError(
        f"{address} is not encrypted, and whoever reaches a scheduler can run programs on its "
        "workers. Use tls:// with certificates (docs/fleet.md), or add --insecure on a network "
        "that you trust"
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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
                f"settings {found}; docs/fleet.md shows the file, such as ~/.config/dask/fleet.yaml"
            )
