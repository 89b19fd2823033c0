"""Dask's distributed, imported when it is first used: it takes a second to load."""

from __future__ import annotations

from typing import Any

from harness.core.errors import BackendUnavailable


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

    return distributed
