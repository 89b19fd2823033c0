"""Tests leave no trace outside their temporary folders."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


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
