"""The address of a scheduler, and whether it may be used without encryption."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from harness.core.errors import UsageError

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
