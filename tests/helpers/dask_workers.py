"""Workers of Dask, in this process and in processes of their own."""

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from harness.fleet import agent


@contextmanager
def offering(offered):
    """Let this process offer this, in place of its devices."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agent, "make_offer", lambda *_: offered)
        agent.end_agents()
        yield
    agent.end_agents()


def local_workers(count):
    """Make a scheduler with so many workers in this process."""
    pytest.importorskip("distributed")
    from harness.fleet.cluster import load_distributed

    return load_distributed().LocalCluster(
        n_workers=count,
        threads_per_worker=1,
        processes=False,
        host="127.0.0.1",
        protocol="tcp://",
        dashboard_address="127.0.0.1:0",
    )


@contextmanager
def worker_process(address, device, cache):
    """Run `harness.worker` for one of two parts of this machine's CPU."""
    command = [sys.executable, "-m", "harness", "worker", address, "--device", device, "--quiet"]
    environment = {**os.environ, "HARNESS_CPU_PARTS": "2", "HARNESS_CACHE_DIR": str(cache)}
    with subprocess.Popen(command, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()
