"""Workers of Dask in this process."""

from __future__ import annotations

from typing import Any

import pytest


def two_workers(builds: int) -> Any:
    """Make a scheduler with two workers in this process, which compile so many programs at once."""
    pytest.importorskip("distributed")
    from harness.fleet.engine import load_distributed

    from harness.fleet.cluster import BUILD

    return load_distributed().LocalCluster(
        n_workers=2,
        threads_per_worker=2,
        processes=False,
        host="127.0.0.1",
        protocol="tcp://",
        resources={BUILD: builds},
        dashboard_address="127.0.0.1:0",
    )
