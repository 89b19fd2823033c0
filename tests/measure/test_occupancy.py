"""Occupancy: worked examples, whose block counts are those of NVIDIA's cuda_occupancy.h."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.records import Build
from harness.measure.cuda.occupancy import (
    MULTIPROCESSORS,
    multiprocessor,
    observe_occupancy,
    occupancy,
)

ARCHS = list(MULTIPROCESSORS)


@pytest.mark.parametrize(
    ("arch", "group_size", "registers", "shared_bytes", "groups", "limiters"),
    [
        # 256 threads are 8 warps; 8 blocks fill the 64 warps, and 32 registers just allow it.
        ("sm_90", 256, 32, 0, 8, {"warps", "registers"}),
        # One register more is 34 * 32 = 1088, rounded up to 1280 a warp: 12 warps a partition.
        ("sm_90", 256, 34, 0, 6, {"registers"}),
        # A single warp a block: the 32 blocks are reached at half of the warps.
        ("sm_90", 32, 16, 0, 32, {"groups"}),
        ("sm_75", 32, 16, 0, 16, {"groups"}),
        ("sm_89", 32, 16, 0, 24, {"groups"}),
        # 48 KiB and the reserved 1 KiB are 49 KiB: four of them fit into 228 KiB.
        ("sm_90", 128, 32, 48 * 1024, 4, {"shared memory"}),
        ("sm_80", 128, 32, 48 * 1024, 3, {"shared memory"}),
        # Nothing is reserved below compute capability 8: 96 KiB hold two times 48 KiB.
        ("sm_70", 128, 32, 48 * 1024, 2, {"shared memory"}),
        # 48 warps, of which 1024 threads take 32 at a time.
        ("sm_86", 1024, 32, 0, 1, {"warps"}),
        ("sm_120", 1024, 64, 0, 1, {"warps", "registers"}),
    ],
)
def test_worked_examples(arch, group_size, registers, shared_bytes, groups, limiters):
    found = occupancy(arch, group_size, registers, shared_bytes)
    assert found.active_groups == groups
    assert set(found.limiters) == limiters
    assert found.active_warps == groups * -(-group_size // 32)


@pytest.mark.parametrize(
    ("group_size", "registers", "shared_bytes", "limiter"),
    [
        (1024, 65, 0, "registers"),
        # 66 registers would fit 29 warps, but the hardware checks as if there were 32.
        (928, 66, 0, "registers"),
        (64, 32, 227 * 1024 + 1, "shared memory"),
        (1025, 16, 0, "warps"),
    ],
)
def test_launch_that_cannot_be_has_no_active_groups(group_size, registers, shared_bytes, limiter):
    found = occupancy("sm_90", group_size, registers, shared_bytes)
    assert found.active_groups == 0
    assert found.fraction == 0.0
    assert found.limiter == limiter


def test_fraction_counts_warps_not_threads_and_is_one_at_most():
    assert occupancy("sm_90", 33, 16, 0).active_warps == 64
    assert occupancy("sm_80", 512, 32, 0).fraction == 1.0


def test_feature_suffix_does_not_matter():
    assert multiprocessor("sm_90a") is multiprocessor("sm_90")


def test_unknown_architecture_names_the_nearest():
    with pytest.raises(ValueError, match=r"'sm_91' \(did you mean `sm_90`\?\).*known are sm_70"):
        occupancy("sm_91", 128, 32, 0)


@pytest.mark.parametrize("wrong", [(0, 32, 0), (128, -1, 0), (128, 32, -1)])
def test_impossible_resources_are_refused(wrong):
    with pytest.raises(ValueError, match="must be 1 or more"):
        occupancy("sm_90", *wrong)


@given(st.sampled_from(ARCHS), st.integers(1, 1024), st.integers(0, 255), st.integers(0, 96 * 1024))
def test_more_resources_never_raise_occupancy(arch, group_size, registers, shared_bytes):
    found = occupancy(arch, group_size, registers, shared_bytes)
    assert 0 <= found.fraction <= 1
    assert found.limiters
    assert occupancy(arch, group_size, registers + 8, shared_bytes).fraction <= found.fraction
    assert occupancy(arch, group_size, registers, shared_bytes + 512).fraction <= found.fraction


def test_least_occupancy_of_a_runs_launches_is_observed():
    build = Build("k", "", "nvcc", 0.1, registers=32, shared_bytes=0)
    both = observe_occupancy("sm_90", build, [(64, 0), (1024, 0)])
    assert both == observe_occupancy("sm_90", build, [(1024, 0), (64, 0)])
    alone = [observe_occupancy("sm_90", build, [(n, 0)])["occupancy"] for n in (64, 1024)]
    assert both["occupancy"] == min(alone)
    assert both["active_warps"] == both["occupancy"] * 64


def test_dynamic_shared_memory_lowers_the_occupancy():
    build = Build("k", "", "nvcc", 0.1, registers=32, shared_bytes=1024)
    found = [observe_occupancy("sm_90", build, [(64, b)]) for b in (0, 112 << 10, 113 << 10)]
    # 228 KiB hold 112 KiB, the static 1 KiB and the driver's 1 KiB twice.
    assert [each["active_warps"] for each in found] == [64, 4, 2]


@pytest.mark.parametrize(
    ("arch", "registers", "blocks"),
    [(None, 32, [(64, 0)]), ("sm_90", None, [(64, 0)]), ("sm_90", 32, [])],
)
def test_nothing_is_observed_where_something_is_not_known(arch, registers, blocks):
    build = Build("k", "", "nvcc", 0.1, registers=registers, shared_bytes=0)
    assert observe_occupancy(arch, build, blocks) == {}
