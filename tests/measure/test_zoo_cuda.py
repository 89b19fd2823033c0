"""Kernels that fake speed on CUDA, over the stand-in for NVIDIA's driver, and on PoCL such as make
results of what outputs hold."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest

from harness.core.records import Config, Input, Outcome
from harness.measure.devices import Backend, choose
from harness.measure.kernels.measurer import KernelMeasurer
from harness.measure.trial.occasions import new_seed
from harness.space import ConstrainedSpace
from harness.space_file import load_spec
from harness.stats.interleaved import is_shown
from harness.stats.timing import time_ratio
from tests.helpers.planted import measured
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


# ----------------------------------------------------------------- results of what outputs hold


FILLS = Path(__file__).parents[1] / "data/zoo/fills.yaml"

FILLS_REFUSED = {
    "flips_the_sign_bit": r"at the first run: whole\[\d+\] is \d+.*100 of 100 elements",
    "flips_all_bits": r"at the first run: whole\[\d+\] is \d+.*100 of 100 elements",
    "negates_the_numbers": r"at the first run: whole\[\d+\] is \d+.*100 of 100 elements",
    "negates_the_flags": r"at the first run: flag\[\d+\] is 0, expected 1",
    "leaves_flags": r'at the first run: flag\[\d+\] was never written.*INOUT = \("flag",\)',
    "leaves_nan": r"at the first run: root\[\d+\] was never written.*expected nan",
    "leaves_zeros": r'whole\[\d+\] was never written.*expected 0\..*INOUT = \("whole",\)',
}


def test_kernel_that_makes_its_result_of_what_an_output_holds_is_refused(opencl: Backend) -> None:
    spec = load_spec(FILLS)
    (names,) = (p.values for p in spec.parameters if p.name == "CHEAT")
    assert set(names) == {"honest", *FILLS_REFUSED}
    each = measured(spec, opencl, spec.inputs[0], *({"CHEAT": name} for name in names))
    found = dict(zip(names, each, strict=True))
    assert found.pop("honest").outcome is Outcome.OK
    for name, one in found.items():
        assert one.outcome is Outcome.WRONG_RESULT, name
        assert re.search(FILLS_REFUSED[str(name)], one.message), one.message
