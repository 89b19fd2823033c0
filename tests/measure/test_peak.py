"""The work of a space, the peak of a device, and times that are below what the peak allows."""

from contextlib import closing
from dataclasses import replace

import pytest

from harness.core.errors import BackendUnavailable
from harness.core.records import Config, Input, Outcome
from harness.measure import choose
from harness.measure.choose import open_kernels, open_measurer
from harness.measure.devices import choose_one
from harness.measure.kernels.peak import measure_peak
from harness.space_file import load_spec
from harness.space_file.model import Work
from tests import DATA
from tests.helpers.fake_kernels import FOUR, bound_device, fake_job, write_fake
from tests.helpers.fakes import FAKE_SPACE
from tests.helpers.planted import assert_failed, assert_ok, space_of

CALLABLE = DATA / "callables/faults.yaml"
WORK = "work: {bytes: 16 * n, flops: n}\n"  # 64 bytes and 4 operations
OTHER = Config({"V": 2})
PEAK = {"bytes": 64e3, "flops": 4e4}  # the work takes 1 ms and 100 us


@pytest.fixture
def peaked(fake_here, tmp_path, own_cache, monkeypatch):
    """Opens a measurer of a fake device with this peak, on which launches take these times."""

    def opened(*times_s):
        monkeypatch.setattr(choose, "measure_peak", lambda *_: PEAK)
        spec = write_fake(tmp_path, space=FAKE_SPACE + WORK)
        return fake_here(spec, opened=bound_device(times_s=times_s))

    return opened


def test_a_time_has_its_rates_and_the_fraction_of_the_peak(peaked):
    measurer, space = peaked(*[2e-3] * 50)
    observed = measurer.measure(space, FOUR, space.default, None).observed
    rates = {
        "gb_per_s": 32e-6,
        "gflop_per_s": 2e-6,
        "peak_gb_per_s": 64e-6,
        "peak_gflop_per_s": 40e-6,
        "peak_fraction": 0.5,  # of the memory's; the arithmetic needs a tenth
    }
    assert {name: observed[name] for name in rates} == pytest.approx(rates)
    (final,) = measurer.measure_interleaved(space, FOUR, [space.default], 4, (7, 8))
    assert final.observed["peak_fraction"] == pytest.approx(0.5)


@pytest.mark.parametrize("default_s, word", [(4e-3, "(1.00 ms)"), (6e-4, "")])
def test_a_time_below_the_floor_is_measured_again_unless_the_default_is_as_fast(
    peaked, default_s, word
):
    measurer, space = peaked(*[default_s] * 5, *[5e-4] * 200)
    default = measurer.measure(space, FOUR, space.default, None)
    result = measurer.measure(space, FOUR, OTHER, default.time_s)
    assert_ok(result)
    assert result.observed["peak_fraction"] == pytest.approx(2)
    assert word in result.message
    assert bool(word) == bool(result.message)


def missing(*_):
    raise BackendUnavailable("PyOpenCL is not installed")


@pytest.mark.parametrize(
    "measuring, why",
    [(measure_peak, "peak is not there"), (missing, "PyOpenCL is not installed")],
)
def test_where_nothing_measures_the_peak_there_are_rates_alone(
    fake_here, tmp_path, own_cache, monkeypatch, measuring, why
):
    monkeypatch.setattr(choose, "measure_peak", measuring)
    measurer, space = fake_here(write_fake(tmp_path, space=FAKE_SPACE + WORK))
    measured = measurer.measure(space, FOUR, space.default, None)
    assert_ok(measured)
    assert {"gb_per_s", "gflop_per_s"} <= measured.observed.keys()
    assert "peak_fraction" not in measured.observed
    assert measurer.notices[-1] == f"The device's peak is not known: {why}."


def test_registers_that_spill_are_observed():
    job = fake_job()
    assert "spill_bytes" not in job.observed()
    build = replace(job.binary.build, spill_bytes=192)
    spilling = replace(job, binary=replace(job.binary, build=build))
    assert spilling.observed()["spill_bytes"] == 192


def test_work_that_cannot_be_computed_on_an_input_makes_it_illegal(fake_here, tmp_path):
    text = FAKE_SPACE.replace("{n: 4}, ", "") + "work: {bytes: 64 // (n - 4)}\n"
    measurer, space = fake_here(write_fake(tmp_path, space=text), opened=bound_device())
    result = measurer.measure(space, FOUR, space.default, None)
    assert_failed(result, Outcome.ILLEGAL, "`64 // (n - 4)`")


@pytest.mark.slow
def test_peak_of_pocl_is_plausible(tmp_path, own_cache, monkeypatch):
    pytest.importorskip("pyopencl")
    monkeypatch.setattr(choose, "measure_peak", measure_peak)
    monkeypatch.delenv("PYOPENCL_BUILD_OPTIONS")  # which tests set: no optimisation
    backend = choose_one("opencl")
    kernel = """kernel void twice(global const double *x, global double *y) {
    y[get_global_id(0)] = 2 * x[get_global_id(0)] + 0 * V;
}"""
    spec = write_fake(tmp_path, kernel, FAKE_SPACE + WORK)
    with closing(open_kernels(spec, backend)) as local:
        space = space_of(spec, local, FOUR)
        result = local.measure(space, FOUR, space.default, None)
        assert_ok(result)
        assert 0.1 < result.observed["peak_gb_per_s"] < 1e4
        assert 0.1 < result.observed["peak_gflop_per_s"] < 1e5
        assert not any("peak" in notice for notice in local.notices)


@pytest.mark.slow
def test_a_python_callable_has_the_peak_of_opencl_on_its_cpu(own_cache, monkeypatch):
    pytest.importorskip("pyopencl")
    monkeypatch.setattr(choose, "measure_peak", measure_peak)
    monkeypatch.delenv("PYOPENCL_BUILD_OPTIONS")
    spec, problem = load_spec(CALLABLE), Input({"n": 100, "work_ms": 0})
    spec = replace(spec, work=Work.model_validate({"bytes": "16 * n"}))
    local, _ = open_measurer(spec, "auto")
    with closing(local):
        space = space_of(spec, local, problem)
        measured = local.measure(space, problem, space.default, None)
        assert_ok(measured)
        assert 0.1 < measured.observed["peak_gb_per_s"] < 1e4
        assert measured.observed["gb_per_s"] == pytest.approx(1600e-9 / measured.time_s)
        assert local.notices == ()
