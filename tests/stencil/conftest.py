"""The device on which the tests of stencils run kernels."""

from __future__ import annotations

import pytest

from tests.helpers.stencil_kernels import Pocl


@pytest.fixture(scope="module")
def pocl():
    """PoCL, where PyOpenCL is installed."""
    pytest.importorskip("pyopencl")
    return Pocl()
