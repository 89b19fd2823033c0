"""Compute how many blocks of a kernel an NVIDIA multiprocessor holds, and what limits them.

The calculation is that of `cuda_occupancy.h`, which NVIDIA ships with the CUDA toolkit
(cudaOccMaxActiveBlocksPerMultiprocessor), with the largest shared-memory carve-out, which the
driver chooses for a kernel that needs it. Barriers, clusters and the caching modes of compute
capabilities below 7 are left out.

A multiprocessor has four partitions with a quarter of the registers each, and a warp lives
in one of them. So with w = ceil(group_size / 32) warps a block and r = 32 * registers rounded
up to 256 registers a warp, it holds the least of

    warps      floor(max_warps / w)
    groups     max_groups
    registers  floor(4 * floor(16384 / r) / w), or none if r * (w rounded up to 4) > 65536
    shared     floor(shared_bytes_SM / s)

blocks, where s is the block's shared memory plus what the driver reserves, rounded up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from harness.core.records import Build

WARP_SIZE = 32
MAX_GROUP_SIZE = 1024
MAX_REGISTERS = 256  # as in the header; the compiler stops at 255
REGISTERS_PER_SM = 65536
REGISTER_STEP = 256
PARTITIONS = 4


@dataclass(frozen=True)
class _Multiprocessor:
    """The resources of one multiprocessor; sizes in bytes.

    The driver reserves `reserved_bytes` of shared memory in every block, and a block's shared
    memory is rounded up to a multiple of `shared_step_bytes`.
    """

    max_threads: int
    max_groups: int
    shared_bytes: int
    reserved_bytes: int = 1024
    shared_step_bytes: int = 128

    @property
    def max_group_shared_bytes(self) -> int:
        """The most shared memory of one block that opts in to it."""
        return self.shared_bytes - self.reserved_bytes

    @property
    def max_warps(self) -> int:
        """The most resident warps."""
        return self.max_threads // WARP_SIZE


_Before8 = partial(_Multiprocessor, reserved_bytes=0, shared_step_bytes=256)

# Source of max_groups and of the two steps: cuda_occupancy.h of CUDA 13.0. Source of threads and
# shared memory: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
MULTIPROCESSORS = {
    "sm_70": _Before8(2048, 32, 96 * 1024),
    "sm_72": _Before8(2048, 32, 96 * 1024),
    "sm_75": _Before8(1024, 16, 64 * 1024),
    "sm_80": _Multiprocessor(2048, 32, 164 * 1024),
    "sm_86": _Multiprocessor(1536, 16, 100 * 1024),
    "sm_87": _Multiprocessor(1536, 16, 164 * 1024),
    "sm_89": _Multiprocessor(1536, 24, 100 * 1024),
    "sm_90": _Multiprocessor(2048, 32, 228 * 1024),
    "sm_100": _Multiprocessor(2048, 32, 228 * 1024),
    "sm_103": _Multiprocessor(2048, 32, 228 * 1024),
    "sm_110": _Multiprocessor(1536, 24, 228 * 1024),
    "sm_120": _Multiprocessor(1536, 24, 100 * 1024),
    "sm_121": _Multiprocessor(1536, 24, 100 * 1024),
}
"""Multiprocessors by architecture."""


@dataclass(frozen=True)
class Occupancy:
    """Blocks and warps resident on one multiprocessor; `limiters` has every resource that ties.

    No block at all (active_groups 0) means that the launch is refused.
    """

    active_groups: int
    active_warps: int
    max_warps: int
    limiters: tuple[str, ...]

    @property
    def fraction(self) -> float:
        """Active warps over the most possible ones, from 0 to 1."""
        return self.active_warps / self.max_warps

    @property
    def limiter(self) -> str:
        """The names of the limiters, such as `registers and shared memory`."""
        return " and ".join(self.limiters)


def multiprocessor(arch: str) -> _Multiprocessor:
    """Return the multiprocessor of an architecture such as `sm_90` or `sm_90a`; raises ValueError
    for one that is not in the table."""
    name = arch.rstrip("af")
    if name not in MULTIPROCESSORS:
        raise ValueError(f"no occupancy figures for architecture {arch!r}")
    return MULTIPROCESSORS[name]


def occupancy(arch: str, group_size: int, registers: int, shared_bytes: int) -> Occupancy:
    """Compute the occupancy of a kernel with `registers` per thread, `shared_bytes` per block.

    `shared_bytes` is static plus dynamic shared memory. Raises ValueError for an unknown
    architecture.
    """
    sm = multiprocessor(arch)
    warps = -(-group_size // WARP_SIZE)
    # To use no register or no shared memory limits nothing, like the least that can be used.
    per_warp = _round_up(max(registers, 1) * WARP_SIZE, REGISTER_STEP)
    per_group = _round_up(max(shared_bytes + sm.reserved_bytes, 1), sm.shared_step_bytes)
    bounds = {
        "warps": sm.max_warps // warps,
        "groups": sm.max_groups,
        "registers": REGISTERS_PER_SM // PARTITIONS // per_warp * PARTITIONS // warps,
        "shared memory": sm.shared_bytes // per_group,
    }
    if group_size > MAX_GROUP_SIZE:
        bounds["warps"] = 0
    # The hardware assumes that all four partitions get the same number of warps.
    if registers > MAX_REGISTERS or per_warp * _round_up(warps, PARTITIONS) > REGISTERS_PER_SM:
        bounds["registers"] = 0
    groups = min(bounds.values())
    limiters = tuple(limiter for limiter, bound in bounds.items() if bound == groups)
    return Occupancy(groups, groups * warps, sm.max_warps, limiters)


def observe_occupancy(
    arch: str | None, build: Build, blocks: Iterable[tuple[int, int]]
) -> dict[str, float]:
    """Return a build's lowest occupancy over blocks, to be recorded.

    A block is given by its threads and its bytes of dynamic shared memory.

    That is `occupancy` (0 to 1) and `active_warps` per multiprocessor. Registers and shared memory
    are the most of any function of the source. Where they or the multiprocessor are not known,
    as for OpenCL and for other architectures, the result is empty.
    """
    if arch is None or build.registers is None:
        return {}
    observed: dict[str, float] = {}
    for group_size, dynamic_bytes in set(blocks):
        shared_bytes = (build.shared_bytes or 0) + dynamic_bytes
        try:
            resident = occupancy(arch, group_size, build.registers, shared_bytes)
        except ValueError:
            return {}
        if not observed or resident.active_warps < observed["active_warps"]:
            observed["occupancy"] = resident.fraction
            observed["active_warps"] = float(resident.active_warps)
    return observed


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step
