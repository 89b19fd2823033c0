"""Hot times: launches one right after the other are observed, and nothing else depends on them."""

from __future__ import annotations

import dataclasses
import time

import numpy as np
import pytest

from harness.analysis.inputs import InputReport
from harness.core.errors import HostTooSlow
from harness.core.observations import HOT_SPREAD, HOT_TIME
from harness.core.program import Binary, Launch, Program
from harness.core.records import Config, Input, Measurement, Outcome, Timing
from harness.display.formats import make_console
from harness.display.hot import hot_rows
from harness.display.inputs import print_inputs
from harness.measure.backends.base import MOST_HOT
from harness.measure.backends.cuda_stream import HELD_AT_ONCE
from harness.measure.backends.opencl import OpenClCompiler, find_device
from harness.measure.backends.opencl_device import OpenClDevice
from harness.measure.hot import hot_time
from harness.measure.kernel_data import KernelData
from harness.measure.kernel_job import KernelJob
from harness.measure.kernel_runner import measure_interleaved, measure_kernel
from harness.measure.verify import Tolerance
from harness.stats.timing import Sampling
from tests.helpers.fakes import KERNELS, Array, FakeCompiler, FakeDevice

X = np.arange(1, 5, dtype=np.float32)
DATA = KernelData({"x": X, "y": np.zeros(4, np.float32)}, {"y": 2.0 * X}, ())
JOB = KernelJob(
    config=Config({"A": 1}),
    input=Input({"n": 4}),
    binary=FakeCompiler().compile(Program("kernel twice", (), ())),
    launches=(Launch("twice", (4,), (1,), ("x", "y")),),
    tolerance=Tolerance(),
    sampling=Sampling(),
    is_hot=True,
)


def device(kernel: object = KERNELS["twice"]) -> FakeDevice:
    found = FakeDevice(kernels={"twice": kernel})
    found.bind(DATA.arguments)
    return found


def test_interleaved_configurations_have_a_hot_time_beside_the_samples() -> None:
    plain = measure_interleaved(device(), DATA, [dataclasses.replace(JOB, is_hot=False)], 3)
    (found,) = measure_interleaved(device(), DATA, [JOB], 3)
    hot = {HOT_TIME: pytest.approx(1e-3), HOT_SPREAD: pytest.approx(0, abs=1e-9)}
    assert found.observed == {**plain[0].observed, **hot}
    assert found.timing == plain[0].timing


def test_hot_times_stand_in_a_table_where_they_are_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    default, best = (
        Measurement(
            Config({"A": number}), JOB.input, Outcome.OK, Timing((time_s,) * 2), observed=hot
        )
        for number, time_s, hot in (
            (1, 3e-6, {HOT_TIME: 2e-6, HOT_SPREAD: 1e-7}),
            (2, 2e-6, {HOT_TIME: 1e-6, HOT_SPREAD: 5e-8}),
        )
    )
    known = InputReport(JOB.input, best, default, None, 0, {Outcome.OK: 2}, 2)
    unknown = dataclasses.replace(known, best=dataclasses.replace(best, observed={}), baseline=None)
    cells = ("n=4", "1.00 us +- 50 ns", "2.00 us", "2.00 us +- 100 ns", "3.00 us", "2.00x")
    assert list(hot_rows([known, unknown])) == [cells]
    print_inputs(make_console(), [known], default.config)
    assert "1.00 us +- 50 ns" in capsys.readouterr().out
    print_inputs(make_console(), [unknown], default.config)
    assert "hot" not in capsys.readouterr().out.lower()


def test_host_that_is_too_slow_for_hot_launches_undoes_no_sample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def late(*_: object) -> float:
        raise HostTooSlow("the host is late")

    on = device()
    monkeypatch.setattr(on, "launch_hot", late)
    (found,) = measure_interleaved(on, DATA, [JOB], 3)
    assert found.outcome is Outcome.OK
    assert HOT_TIME not in found.observed


def test_search_has_no_hot_time() -> None:
    assert HOT_TIME not in measure_kernel(device(), DATA, JOB).observed


def test_kernel_that_reads_what_it_overwrites_is_never_launched_twice_without_a_restore() -> None:
    def adds(x: Array, y: Array) -> None:
        seen.append(float(y[0]))
        y += x

    seen: list[float] = []
    data = KernelData({"x": X, "y": X}, {"y": 2.0 * X}, ("y",))
    on = FakeDevice(kernels={"twice": adds})
    on.bind(data.arguments)
    (found,) = measure_interleaved(on, data, [JOB], 3)
    assert found.outcome is Outcome.OK
    assert HOT_TIME not in found.observed
    assert set(seen) == {1.0}


def test_what_only_hot_launches_overwrite_is_repaired() -> None:
    def spoils(x: Array, y: Array) -> None:
        if np.array_equal(y, 2 * x):  # not restored since the launch before
            x[0] = 9
            spoilt.append(True)
        y[...] = 2 * x

    spoilt: list[bool] = []
    on = device(spoils)
    found = measure_interleaved(on, DATA, [JOB, JOB], 3)
    assert [each.outcome for each in found] == [Outcome.OK] * 2
    assert spoilt
    assert on.read("x").tolist() == X.tolist()


@pytest.mark.parametrize(("run_s", "times"), [(1e-9, MOST_HOT), (1e-4, 10), (1.0, 2)])
def test_batches_are_of_enough_launches_and_not_of_too_many(run_s: float, times: int) -> None:
    on = device()
    hot_time(on, on.load(JOB.binary), JOB.launches[0], run_s)
    assert len(on.launched) == 5 * times
    assert MOST_HOT <= HELD_AT_ONCE


def test_hot_time_on_opencl_is_that_of_one_launch() -> None:
    name = find_device()
    text = "kernel void twice(global const float *x, global float *y)"
    text += "{ int i = get_global_id(0); y[i] = 2 * x[i]; }"
    binary: Binary = OpenClCompiler(name).compile(Program(text, (), ()))
    on = OpenClDevice(name)
    on.bind(DATA.arguments)
    module = on.load(binary)
    on.launch(module, JOB.launches)  # PoCL compiles
    began_s = time.perf_counter()
    hot_s = on.launch_hot(module, JOB.launches[0], 20)
    assert 0 < 20 * hot_s < time.perf_counter() - began_s
    assert on.read("y").tolist() == (2 * X).tolist()
    on.close()
