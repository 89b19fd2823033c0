"""CUDA: find out whether it can be used here, and by which Python package."""

from __future__ import annotations

import os

from harness.core.errors import BackendUnavailable
from harness.measure.backends.cuda_api import (
    PACKAGE,
    PACKAGES,
    CooperativeDriver,
    CudaDriver,
    no_cooperative,
)
from harness.measure.backends.cuda_bindings import BindingsDriver, are_bindings_there
from harness.measure.backends.cuda_driver import CudaGpu, list_gpus, require_driver
from harness.measure.backends.cuda_pycuda import PyCudaDriver, is_pycuda_there


def load_driver() -> CudaDriver:
    """Import the package that calls the driver: PyCUDA where it works, else cuda-bindings; or the
    one that HARNESS_CUDA_PACKAGE names.

    Both make the same calls. Initialises nothing; raises BackendUnavailable, with the next step.
    """
    return _choose()[0]


def describe_package() -> str:
    """Return the package that calls the driver, and why it is not PyCUDA where that is broken."""
    driver, reason = _choose()
    return f"{driver.package}, since {reason}" if reason else driver.package


def require_cooperative() -> None:
    """Raise BackendUnavailable where the package has no call for cooperative launches."""
    driver = load_driver()
    if not isinstance(driver, CooperativeDriver):
        raise BackendUnavailable(
            f"the space's launches are cooperative, but {no_cooperative(driver)}"
        )


def _choose() -> tuple[CudaDriver, str]:
    """Return a driver, and why PyCUDA's was not taken where PyCUDA was expected to work."""
    named, reason = os.environ.get(PACKAGE), ""
    if named and named not in PACKAGES:
        raise BackendUnavailable(
            f"{PACKAGE} is {named!r}, but must be {' or '.join(PACKAGES)}, or unset"
        )
    if named:
        return _named(named), ""
    if is_pycuda_there():
        try:
            return PyCudaDriver(), ""
        except BackendUnavailable as error:
            if not are_bindings_there():
                raise
            reason = str(error)
    if are_bindings_there():
        return BindingsDriver(), reason
    raise BackendUnavailable(
        "neither cuda-bindings nor PyCUDA is installed. In the clone of harness, run: "
        "pip install -e '.[cuda]', which brings cuda-bindings and needs no CUDA toolkit"
    )


def _named(package: str) -> CudaDriver:
    """Return the driver of a package that must be installed."""
    is_pycuda = package == "pycuda"
    if not (is_pycuda_there() if is_pycuda else are_bindings_there()):
        raise BackendUnavailable(
            f"{PACKAGE} is {package}, which is not installed: pip install {package}, or unset it"
        )
    return PyCudaDriver() if is_pycuda else BindingsDriver()


def usable_gpus() -> tuple[CudaGpu, ...]:
    """Return this machine's GPUs; raises BackendUnavailable, with the next step, where CUDA kernels
    cannot run here.

    Initialises neither the driver nor a context in this process.
    """
    require_driver()
    load_driver()
    return list_gpus()


def usable_gpu() -> CudaGpu:
    """Return this machine's first GPU; raises BackendUnavailable as `usable_gpus` does."""
    return usable_gpus()[0]


def device_arch() -> str:
    """Return the architecture of the first GPU, such as `sm_90`; opens nothing in this process.

    Raises BackendUnavailable without a GPU.
    """
    return list_gpus()[0].arch
