"""Tests leave no trace outside their temporary folders."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Builds of tests are cached in a folder of their own, which worker processes inherit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.delenv("POCL_CACHE_DIR", raising=False)
        yield
    os.environ.pop("POCL_CACHE_DIR", None)
