"""The frozen nouns refuse to be built wrong, and tell themselves apart."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest

from harness.core.observations import WorstElement
from harness.core.program import Launch
from harness.core.records import (
    Config,
    DeviceLimits,
    Environment,
    Input,
    Measurement,
    Outcome,
    Timing,
    shown,
)

CONFIG, GIVEN = Config({"BLOCK": 64, "FAST": True, "REGS": None}), Input({"m": 3, "n": 4.5})


def worst(**changes):
    return replace(WorstElement("y", (1, 2), 1.0, 2.0, 0.1, 3, 1200), **changes)


@pytest.mark.parametrize("outcome", [Outcome.TIMEOUT, Outcome.CRASHED, Outcome.BUILD_FAILED])
def test_failure_that_may_be_chance_is_not_shared(outcome):
    with pytest.raises(ValueError, match=str(outcome)):
        Measurement(CONFIG, GIVEN, outcome, message="as it is", shared_with="ab" * 32)


def test_equal_values_in_another_order_are_equal_and_hash_alike():
    other = Config({"REGS": None, "FAST": True, "BLOCK": 64})
    assert other == CONFIG
    assert hash(other) == hash(CONFIG)
    assert other.digest == CONFIG.digest


def test_values_that_python_calls_alike_are_different():
    for some in ((1, 1.0, True, "1"), (0, False, None, "", 0.0, -0.0)):
        configs = [Config({"A": value}) for value in some]
        assert len(set(configs)) == len({config.digest for config in configs}) == len(some)


def test_config_and_input_with_the_same_values_differ():
    assert Config({"n": 1}) != Input({"n": 1})


def test_only_plain_finite_values_are_taken():
    for value in (np.int64(3), [1], (1,), {"a": 1}, b"x", math.nan, math.inf):
        with pytest.raises((TypeError, ValueError), match="A must be"):
            Config({"A": value})


def test_a_pickle_has_no_hash_which_another_process_would_compute_otherwise():
    config = Config({"A": "x"})
    before = pickle.dumps(config)
    assert pickle.loads(before) in {config}
    assert pickle.dumps(config) == before


def test_config_is_shown_as_people_write_it():
    assert str(CONFIG) == "BLOCK=64, FAST=true, REGS=absent"
    assert [shown(v) for v in (None, False, 1.5, "row")] == ["absent", "false", "1.5", "row"]


def test_timing_derives_its_figures_from_finite_samples_above_0():
    for samples_s in ((), (0.0,), (-1e-6,), (math.nan,), (1.0, math.inf)):
        with pytest.raises(ValueError, match="sample"):
            Timing(samples_s)
    timing = Timing((3.0, 1.0, 2.0, 10.0))
    assert (timing.median_s, timing.mean_s, timing.count) == (2.5, 4.0, 4)
    assert timing.std_s == pytest.approx(np.std([3, 1, 2, 10], ddof=1))
    assert Timing((1.0,)).std_s == 0


@pytest.mark.parametrize("outcome", [o for o in Outcome if o is not Outcome.OK])
def test_failed_measurement_has_a_message_and_no_timing(outcome):
    failed = Measurement(CONFIG, GIVEN, outcome, message="it failed")
    assert failed.time_s == math.inf
    with pytest.raises(ValueError, match="outcome ok"):
        Measurement(CONFIG, GIVEN, outcome, timing=Timing((1.0,)), message="it failed")
    with pytest.raises(ValueError, match=str(outcome)):
        Measurement(CONFIG, GIVEN, outcome)


def test_ok_measurement_needs_a_timing():
    assert Measurement(CONFIG, GIVEN, Outcome.OK, timing=Timing((2.0, 4.0))).time_s == 3.0
    with pytest.raises(ValueError, match="timing"):
        Measurement(CONFIG, GIVEN, Outcome.OK)


def test_worst_element_belongs_to_a_wrong_result():
    Measurement(CONFIG, GIVEN, Outcome.WRONG_RESULT, worst_element=worst(), message="wrong")
    with pytest.raises(ValueError, match="wrong result"):
        Measurement(CONFIG, GIVEN, Outcome.CRASHED, worst_element=worst(), message="crashed")


def test_worst_element_tells_where_what_and_how_many():
    assert str(worst()) == "y[1, 2] is 1, expected 2 +- 0.1; 3 of 1,200 elements are wrong"
    printed = str(worst(found=2**53 + 1, expected=2**53))
    assert "9007199254740993, expected 9007199254740992" in printed


def test_environments_that_differ_in_a_field_have_other_fingerprints():
    environment = Environment("opencl", "CPU", "PoCL", "3.0", "LLVM 14")
    names = ("backend", "device", "platform", "driver", "compiler")
    others = [replace(environment, **{name: "x"}) for name in names]
    # A character that moves from one field to the next is a difference, too.
    others.append(replace(environment, backend="openclC", device="PU"))
    assert len({one.fingerprint for one in [environment, *others]}) == 7


def test_notes_do_not_separate_environments():
    one, other = (Environment("b", "d", "p", "r", "c", notes={"load": load}) for load in ("0", "9"))
    assert one == other
    assert hash(one) == hash(other)


def test_limits_go_by_the_names_that_constraints_use():
    limits = DeviceLimits(1024, (1024, 1024, 64), (9, 9, 9), 49152, 8, 32)
    assert limits.names() == {
        "max_group_size": 1024,
        "max_local_bytes": 49152,
        "compute_units": 8,
        "warp_size": 32,
        "max_shared_bytes": 49152,
    }
    larger = replace(limits, opt_in_local_bytes=101376)
    assert larger.names()["max_shared_bytes"] == 101376


# ---------- launches


def test_cooperative_is_yes_or_no():
    assert Launch("f", (4,), (2,), (), cooperative=True).cooperative
    with pytest.raises(TypeError, match="cooperative"):
        Launch("f", (4,), (2,), (), cooperative=1)


def test_carveout_is_a_percentage():
    assert Launch("f", (4,), (2,), (), carveout=-1) == Launch("f", (4,), (2,), ())
    for percent in (-2, 101, 0.5, "most"):
        with pytest.raises(ValueError, match=f"carveout .*{percent}"):
            Launch("f", (4,), (2,), (), carveout=percent)


def test_sizes_that_numpy_computed_become_pythons_own():
    launch = Launch("f", (np.int64(4),), (np.uint32(2),), (), np.int32(8))
    sizes = (*launch.group, *launch.grid, launch.shared_bytes)
    assert [type(size) for size in sizes] == [int, int, int], "drivers take no others"
    assert sizes == (4, 2, 8)
