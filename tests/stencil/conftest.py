"""The device on which the tests of stencils run kernels."""

import pytest

from tests.helpers.stencil_kernels import Pocl


@pytest.fixture(scope="module")
def pocl():
    """PoCL, where PyOpenCL is installed."""
    pytest.importorskip("pyopencl")
    return Pocl()
