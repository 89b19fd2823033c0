"""The work of a space, the peak of a device, and times that are below what the peak allows."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import BackendUnavailable
from harness.core.records import Config, Input, Measurement, Outcome
from harness.measure import choose
from harness.measure.choose import open_kernels, open_measurer
from harness.measure.devices import choose_one
from harness.measure.kernels.peak import measure_peak
from harness.space import ConstrainedSpace
from harness.space_file import load_spec
from harness.space_file.model import Work
from tests.helpers.fake_kernels import FOUR, OpenFake, bound_device, fake_job, write_fake
from tests.helpers.fakes import FAKE_SPACE

CALLABLE = Path(__file__).parents[1] / "data/callables/faults.yaml"
WORK = "work: {bytes: 16 * n, flops: n}\n"  # 64 bytes and 4 operations
OTHER = Config({"V": 2})
PEAK = {"bytes": 64e3, "flops": 4e4}  # the work takes 1 ms and 100 us


@pytest.fixture
def peaked(
    fake_here: OpenFake, tmp_path: Path, own_cache: None, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """Opens a measurer of a fake device with this peak, on which launches take these times."""

    def opened(*times_s: float, peak: dict[str, float] = PEAK) -> Any:
        monkeypatch.setattr(choose, "measure_peak", lambda *_: peak)
        spec = write_fake(tmp_path, space=FAKE_SPACE + WORK)
        return fake_here(spec, opened=bound_device(times_s=times_s))

    return opened


def test_a_time_has_its_rates_and_the_fraction_of_the_peak(peaked: Any) -> None:
    measurer, space = peaked(*[2e-3] * 50)
    found = measurer.measure(space, FOUR, space.default, None)
    assert {
        k: v for k, v in found.observed.items() if "per_s" in k or "peak" in k
    } == pytest.approx(
        {
            "gb_per_s": 32e-6,
            "gflop_per_s": 2e-6,
            "peak_gb_per_s": 64e-6,
            "peak_gflop_per_s": 40e-6,
            "peak_fraction": 0.5,  # of the memory's; the arithmetic needs a tenth
        }
    )
    (final,) = measurer.measure_interleaved(space, FOUR, [space.default], 4, (7, 8))
    assert final.observed["peak_fraction"] == pytest.approx(0.5)


def test_a_time_below_the_floor_is_measured_again_and_stays_if_it_is_true(peaked: Any) -> None:
    slow, fast = [4e-3] * 5, [5e-4] * 200
    measurer, space = peaked(*slow, *fast)
    default = measurer.measure(space, FOUR, space.default, None)
    found = measurer.measure(space, FOUR, OTHER, default.time_s)
    assert found.outcome is Outcome.OK
    assert found.observed["peak_fraction"] == pytest.approx(2)
    assert found.message == (
        "its 500 us are less than its work takes at the device's peak (1.00 ms); measured again on "
        "new data"
    )


def test_data_in_a_cache_are_no_reason_to_measure_again(peaked: Any) -> None:
    measurer, space = peaked(*[6e-4] * 5, *[5e-4] * 200)
    default = measurer.measure(space, FOUR, space.default, None)
    found = measurer.measure(space, FOUR, OTHER, default.time_s)
    assert not found.message
    assert found.observed["peak_fraction"] == pytest.approx(2)


def test_a_device_that_does_not_run_the_peaks_kernel_has_rates_alone(
    fake_here: OpenFake, tmp_path: Path, own_cache: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose, "measure_peak", measure_peak)
    measurer, space = fake_here(write_fake(tmp_path, space=FAKE_SPACE + WORK))
    found = measurer.measure(space, FOUR, space.default, None)
    assert found.outcome is Outcome.OK
    assert {"gb_per_s", "gflop_per_s"} <= found.observed.keys()
    assert "peak_fraction" not in found.observed
    (notice,) = [each for each in measurer.notices if "peak" in each]
    assert notice == "The device's peak is not known: peak is not there."


def test_registers_that_spill_are_observed() -> None:
    job = fake_job()
    assert "spill_bytes" not in job.observed()
    build = dataclasses.replace(job.binary.build, spill_bytes=192)
    spilling = dataclasses.replace(job, binary=dataclasses.replace(job.binary, build=build))
    assert spilling.observed()["spill_bytes"] == 192


def test_work_that_cannot_be_computed_on_an_input_makes_it_illegal(
    fake_here: OpenFake, tmp_path: Path
) -> None:
    text = FAKE_SPACE.replace("{n: 4}, ", "") + "work: {bytes: 64 // (n - 4)}\n"
    measurer, space = fake_here(write_fake(tmp_path, space=text), opened=bound_device())
    found = measurer.measure(space, FOUR, space.default, None)
    assert found.outcome is Outcome.ILLEGAL
    assert found.message.startswith("work.bytes: `64 // (n - 4)` is")


@pytest.mark.slow
def test_pocls_peak_is_measured_once_and_kept(
    tmp_path: Path, own_cache: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyopencl")
    monkeypatch.setattr(choose, "measure_peak", measure_peak)
    monkeypatch.delenv("PYOPENCL_BUILD_OPTIONS")  # which tests set: no optimisation
    backend = choose_one("opencl")
    kernel = "kernel void twice(global const double *x, global double *y) {\n"
    kernel += "    y[get_global_id(0)] = 2 * x[get_global_id(0)] + 0 * V;\n}\n"
    spec = write_fake(tmp_path, kernel, FAKE_SPACE + WORK)
    with contextlib.closing(open_kernels(spec, backend)) as local:
        space = ConstrainedSpace.of(spec, FOUR, local.limits, local.compiler)
        found = local.measure(space, FOUR, space.default, None)
        assert found.outcome is Outcome.OK, found.message
        peaks = found.observed["peak_gb_per_s"], found.observed["peak_gflop_per_s"]
        assert 0.1 < peaks[0] < 1e4
        assert 0.1 < peaks[1] < 1e5
        assert not any("peak" in notice for notice in local.notices)
    monkeypatch.delattr(choose, "measure_peak")
    with contextlib.closing(open_kernels(spec, backend)) as local:
        again = local.measure(space, FOUR, space.default, None)
        assert again.observed["peak_gb_per_s"] == peaks[0]


def measured_callable() -> tuple[Measurement, tuple[str, ...]]:
    """Measure a Python callable whose space says its work; return the notices as well."""
    spec, problem = load_spec(CALLABLE), Input({"n": 100, "work_ms": 0})
    spec = dataclasses.replace(spec, work=Work.model_validate({"bytes": "16 * n"}))
    local, _ = open_measurer(spec, "auto")
    with contextlib.closing(local):
        space = ConstrainedSpace.of(spec, problem, local.limits, local.compiler)
        return local.measure(space, problem, space.default, None), tuple(local.notices)


@pytest.mark.slow
def test_a_python_callable_has_the_peak_of_opencl_on_its_cpu(
    own_cache: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyopencl")
    monkeypatch.setattr(choose, "measure_peak", measure_peak)
    monkeypatch.delenv("PYOPENCL_BUILD_OPTIONS")
    found, notices = measured_callable()
    assert found.outcome is Outcome.OK, found.message
    assert 0.1 < found.observed["peak_gb_per_s"] < 1e4
    assert found.observed["gb_per_s"] == pytest.approx(1600e-9 / found.time_s)
    assert notices == ()


def test_a_python_callable_has_rates_alone_where_nothing_measures_the_peak(
    own_cache: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise BackendUnavailable("PyOpenCL is not installed")

    monkeypatch.setattr(choose, "measure_peak", missing)
    found, notices = measured_callable()
    assert found.observed["gb_per_s"] == pytest.approx(1600e-9 / found.time_s)
    assert "peak_gb_per_s" not in found.observed
    assert notices == ("The device's peak is not known: PyOpenCL is not installed.",)
