"""Check whether a binary and a launch fit a device, before its driver is asked."""

from __future__ import annotations

from harness.core.program import Launch
from harness.core.records import Build, DeviceLimits


def why_unlaunchable(launch: Launch, limits: DeviceLimits, static_bytes: int = 0) -> str | None:
    """Return why no kernel can be launched in this shape on a device; None where one can.

    `static_bytes` is the shared memory that the kernel declares with a fixed size.
    """
    group, grid = three(launch.group), three(launch.grid)
    size = group[0] * group[1] * group[2]
    shapes = (("group", group, limits.max_group_dims), ("grid", grid, limits.max_grid_dims))
    for what, shape, most in shapes:
        if any(not 1 <= extent <= bound for extent, bound in zip(shape, most, strict=True)):
            return f"{what} {shape} of {launch.function} must lie between (1, 1, 1) and {most}"
    if size > limits.max_group_size:
        return (
            f"group {group} of {launch.function} has {size:,} threads, "
            f"but the device takes {limits.max_group_size:,} at most"
        )
    dynamic_bytes = launch.shared_bytes
    if dynamic_bytes and static_bytes + dynamic_bytes > limits.max_shared_bytes:
        return (
            f"{launch.function} needs {static_bytes + dynamic_bytes:,} bytes of shared memory per "
            f"block ({static_bytes:,} static, {dynamic_bytes:,} dynamic), but the device has "
            f"{limits.max_shared_bytes:,}"
        )
    if launch.cooperative and not limits.is_cooperative:
        return f"{launch.function} is launched cooperatively, which the device cannot do"
    return None


def why_unloadable(build: Build, limits: DeviceLimits) -> str | None:
    """Return why a binary needs more than a device has; None where it fits."""
    if (build.shared_bytes or 0) > limits.max_local_bytes:
        return (
            f"the binary uses {build.shared_bytes:,} bytes of static shared memory a block, "
            f"but the device has {limits.max_local_bytes:,}"
        )
    return None


def three(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Return a shape of 1 to 3 dimensions with ones for the missing dimensions.

    The extents are Python's integers: CUDA's packages take no others, and host modules may yield
    numpy's.
    """
    x, y, z = (*map(int, shape), 1, 1)[:3]
    return x, y, z
