"""Dask's distributed, imported when it is first used: it takes a second to load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.core.errors import BackendUnavailable, UsageError


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

    # A bundle is large, and sent once.
    dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GiB"})
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
