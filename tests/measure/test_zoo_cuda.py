"""Kernels that fake speed on CUDA, over the stand-in for NVIDIA's driver: apart from those on PoCL,
whose module shares processes that know no stand-in."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from harness.core.records import Config, Input, Outcome
from harness.measure.devices import choose
from harness.measure.kernels.measurer import KernelMeasurer
from harness.measure.trial.occasions import new_seed
from harness.space import ConstrainedSpace
from harness.space_file import load_spec
from harness.stats.interleaved import is_shown
from harness.stats.timing import time_ratio
from tests.helpers.stub_driver import StubDriver

CUDA_ZOO = Path(__file__).parents[1] / "data/zoo/cuda.yaml"
CUDA_INPUT = Input({"n": 256, "k": 2048})

HONEST_CUDA, RETURNS_EARLY, KEEPS_BY_BITS, HONEST_THREE_TIMES, KEEPS_BY_ADDRESS = range(1, 6)


@pytest.mark.slow
@pytest.mark.gpu
@pytest.mark.usefixtures("kernels_here")
def test_no_cheat_has_a_claim_after_the_finals(stub: StubDriver) -> None:
    spec = load_spec(CUDA_ZOO)
    with contextlib.closing(KernelMeasurer(spec, choose("cuda"))) as measurer:
        space = ConstrainedSpace.of(spec, CUDA_INPUT, measurer.limits, "nvcc")
        searched, finals = {}, {}
        for cheat in range(1, 6):
            config, seeds = Config({"CHEAT": cheat}), (new_seed(),) * 3 + (new_seed(),) * 3
            searched[cheat] = measurer.measure(space, CUDA_INPUT, config, None)
            both = [config, space.default] if cheat != HONEST_CUDA else [config]
            finals[cheat] = measurer.measure_interleaved(space, CUDA_INPUT, both, 20, seeds)
    assert searched[HONEST_CUDA].outcome is Outcome.OK
    assert searched[RETURNS_EARLY].outcome is Outcome.WRONG_RESULT, "without any gain"
    for cheat in (RETURNS_EARLY, HONEST_THREE_TIMES):
        found, default = finals[cheat]
        assert (found.outcome, default.outcome) == (Outcome.WRONG_RESULT, Outcome.OK), cheat
    # Its results are wrong only where other data came to the last run's address. Else they are
    # right, and its first runs are slow.
    found, _ = finals[KEEPS_BY_ADDRESS]
    assert found.outcome is Outcome.WRONG_RESULT or not is_shown(found)
    found, default = finals[KEEPS_BY_BITS]
    assert found.outcome is Outcome.OK
    assert time_ratio(default.timing, found.timing).value > 10
    assert not is_shown(found)


@pytest.mark.slow
@pytest.mark.gpu
def test_device_that_holds_one_set_of_data_gets_the_other_between_launches_and_says_so(
    stub: StubDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_STUB_MEMORY", str(6 << 20))  # a set and its zones have 4 MiB
    spec = load_spec(CUDA_ZOO)
    with contextlib.closing(KernelMeasurer(spec, choose("cuda"))) as measurer:
        space = ConstrainedSpace.of(spec, CUDA_INPUT, measurer.limits, "nvcc")
        configs = [Config({"CHEAT": HONEST_THREE_TIMES}), space.default]
        cheat, honest = measurer.measure_interleaved(
            space, CUDA_INPUT, configs, 20, (new_seed(),) * 2
        )
        assert (cheat.outcome, honest.outcome) == (Outcome.WRONG_RESULT, Outcome.OK)
        assert [text for text in measurer.notices if "does not hold 2 sets" in text]
