"""Tests leave no trace outside their temporary folders."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.backends.choose import Backend, choose
from harness.processes import Processes, count_of_builders


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Builds of tests are cached in a folder of their own, which worker processes inherit."""
    with pytest.MonkeyPatch.context() as patch:
        cache = tmp_path_factory.mktemp("cache")
        patch.setenv("HARNESS_CACHE_DIR", str(cache))
        # PoCL looks at this once a process, whatever later tests set.
        (cache / "pocl").mkdir()
        patch.setenv("POCL_CACHE_DIR", str(cache / "pocl"))
        # pytest-xdist gives its workers the width of the terminal; output is tested without one.
        patch.delenv("COLUMNS", raising=False)
        yield


class _KeptProcesses(Processes):
    """Processes that one measurer leaves to the next."""

    def close(self) -> None:
        """Go on; `end` ends them."""

    def end(self) -> None:
        super().close()


@pytest.fixture(scope="session")
def _opencl_processes() -> Iterator[tuple[Processes, Processes]]:
    """The device's process, and the builders."""
    device, builders = _KeptProcesses(1), _KeptProcesses(count_of_builders())
    yield device, builders
    device.end()
    builders.end()


@pytest.fixture
def opencl(
    _opencl_processes: tuple[Processes, Processes], monkeypatch: pytest.MonkeyPatch
) -> Backend:
    """PoCL. All measurers of it have the same processes, for tests that do not ask what a new one
    brings: to start it, and PoCL's compiler in it, takes longer than to measure a kernel."""
    pytest.importorskip("pyopencl")
    device, builders = _opencl_processes
    monkeypatch.setattr("harness.workers.Processes", lambda _: device)
    monkeypatch.setattr("harness.builds.Processes", lambda _: builders)
    return choose("opencl")
