"""Kernels that are Python callables: measured in a process of their own, and refused for a reason
where they fail, are wrong, or keep what they should compute."""

import contextlib
from contextlib import closing
from dataclasses import replace
from importlib import metadata
from unittest.mock import Mock

import pytest

from harness.core.errors import BackendUnavailable, HostModuleError, UsageError
from harness.core.records import Config, Input, Outcome
from harness.measure.choose import open_measurer
from harness.measure.kernels.process import DeviceWorker
from harness.measure.occasions import new_seed
from harness.measure.process.child import ChildLost
from harness.space_file import load_spec
from harness.space_file.model import PythonVerify
from harness.stats.interleaved import is_shown
from tests import DATA
from tests.helpers.fake_kernels import measure_kernels_here
from tests.helpers.planted import assert_failed, assert_ok, space_of, write_files

FAULTS = DATA / "callables/faults.yaml"
GIVEN, LONG = Input({"n": 100, "work_ms": 0}), Input({"n": 100, "work_ms": 3})


@pytest.fixture(scope="module")
def spec():
    return load_spec(FAULTS).with_measure({"timeout_s": 1})


@pytest.fixture(scope="module")
def local(spec):
    """A measurer of callables that this process runs."""
    with pytest.MonkeyPatch.context() as patch:
        measure_kernels_here(patch)
        measurer, _ = open_measurer(spec, "auto")
    with closing(measurer):
        yield measurer


@pytest.fixture
def unlocked(monkeypatch):
    """Let a second measurer use the device."""
    lock = "harness.measure.kernels.process.locked"
    monkeypatch.setattr(lock, lambda *_: contextlib.nullcontext())


@pytest.fixture(scope="module")
def space(spec, local):
    return space_of(spec, local, GIVEN)


def fault(name, pause=0):
    return Config({"FAULT": name, "PAUSE": pause})


def test_right_callable_is_timed(local, space):
    for name in ["none", "returns_arrays", "other_bits"]:
        found = local.measure(space, GIVEN, fault(name), None)
        assert_ok(found)
        assert 0 < found.time_s < 0.1


def test_bits_of_the_default_may_be_demanded(spec, local, space):
    exact = replace(spec, verify=PythonVerify(bits="default"))
    measurer, _ = open_measurer(exact, "auto", owner=local)
    with closing(measurer):
        right = measurer.measure(space, GIVEN, fault("returns_arrays"), None)
        other = measurer.measure(space, GIVEN, fault("other_bits"), None)
    assert_ok(right)
    assert_failed(other, Outcome.WRONG_RESULT, "those of the default bit for bit")


def test_first_call_counts_as_build(local, space):
    found = local.measure(space, GIVEN, fault("none", pause=1), None)
    assert found.build.compile_s > 0.2
    assert max(*found.warmup_s, found.time_s) < 0.1


WRONG, UNBUILT = Outcome.WRONG_RESULT, Outcome.BUILD_FAILED


def test_fault_is_refused_and_the_message_names_it(local, space):
    cases = [
        ("wrong_element", WRONG, "y[5] is 0"),
        ("unwritten", WRONG, "y[7] was never written (93 of 100"),
        ("wrong_later", WRONG, "y[5] is 0"),
        ("raises", UNBUILT, "KeyError: 'nothing'"),
        ("raises_later", Outcome.LAUNCH_FAILED, "KeyError: 'nothing'"),
        ("fails_to_build", UNBUILT, "ValueError: no such layout"),
        ("builds_nothing", UNBUILT, "NoneType"),
        ("returns_a_number", UNBUILT, "int"),
        ("returns_another_shape", UNBUILT, "float64[100]"),
        ("spoils_its_input", WRONG, "y[3] is 3"),
        ("writes_past_the_end", UNBUILT, "y (2 elements behind its end)"),
        ("kept_by_id_of_arguments", WRONG, "100 of 100"),
        ("kept_result", WRONG, "100 of 100"),
    ]
    for name, outcome, message in cases:
        assert_failed(local.measure(space, GIVEN, fault(name), None), outcome, message)
        assert_ok(local.measure(space, GIVEN, space.default, None))


BUILD_HANGS = "build(), or the first call, did not end"


def test_build_that_ends_its_process_or_hangs_is_refused(local, space, monkeypatch):
    for lost, message in ((ChildLost("by SIGABRT"), "SIGABRT"), (ChildLost("", True), BUILD_HANGS)):
        monkeypatch.setattr(DeviceWorker, "compile", Mock(side_effect=lost))
        assert_failed(local.measure(space, GIVEN, fault("none"), None), UNBUILT, message)


@pytest.mark.slow
@pytest.mark.usefixtures("unlocked")
def test_callable_that_ends_its_process_or_hangs_is_refused(spec, space):
    cases = [
        ("aborts", UNBUILT, "SIGABRT"),
        ("hangs", UNBUILT, BUILD_HANGS),
        ("aborts_later", Outcome.CRASHED, "SIGABRT"),
        ("hangs_later", Outcome.TIMEOUT, "did not end within 1 s"),
    ]
    with closing(open_measurer(spec, "auto")[0]) as measurer:
        for name, outcome, message in cases:
            measured = measurer.measure(space, GIVEN, fault(name), None)
            assert_failed(measured, outcome, message)


def test_result_kept_by_the_identity_of_an_array_has_no_claim(local, space):
    kept = fault("kept_by_id_of_array")
    default = local.measure(space, LONG, space.default, None)
    found = local.measure(space, LONG, kept, None)
    assert_ok(default)
    assert found.outcome is WRONG or found.time_s > default.time_s / 2
    seeds = (new_seed(),) * 3 + (new_seed(),) * 3
    _, found = local.measure_interleaved(space, LONG, [space.default, kept], 12, seeds)
    assert found.outcome is WRONG or not is_shown(found)


def test_interleaved_callables_run_on_new_data_and_compile_before(local, space):
    configs = [fault("none"), fault("none", pause=1), fault("wrong_element")]
    found = local.measure_interleaved(space, GIVEN, configs, 8, (new_seed(), new_seed()))
    assert [m.outcome for m in found] == [Outcome.OK, Outcome.OK, WRONG]
    assert max(*found[1].warmup_s, found[1].time_s) < 0.1


def test_module_that_makes_no_data_ends_its_input(local, space):
    with pytest.raises(HostModuleError, match="ArithmeticError: no data"):
        local.measure(space, Input({"n": 1, "work_ms": 0}), space.default, None)


def test_environment_names_framework_and_versions(local):
    environment = local.environment
    assert environment.backend == "python"
    assert environment.platform.startswith("numpy, wall time of the call")
    assert environment.compiler.startswith("numpy ")
    assert "Python 3" in environment.compiler


def test_other_backend_and_devices_are_refused(spec):
    with pytest.raises(UsageError, match="--backend cuda"):
        open_measurer(spec, "cuda")
    with pytest.raises(UsageError, match="--device"):
        open_measurer(spec, "auto", devices=["0"])
    with pytest.raises(UsageError, match="--backend python"):
        open_measurer(load_spec(FAULTS.parents[1] / "faults/faults.yaml"), "python")


def test_missing_framework_says_what_to_install(spec, monkeypatch):
    monkeypatch.setattr(metadata, "version", Mock(side_effect=metadata.PackageNotFoundError))
    with pytest.raises(BackendUnavailable, match="pip install numpy"):
        open_measurer(spec, "auto")


@pytest.mark.usefixtures("unlocked", "kernels_here")
def test_framework_that_cannot_be_imported_is_named(tmp_path, monkeypatch):
    kernel = FAULTS.with_suffix(".py").read_text().replace('"numpy"', '"warp"')
    files = {
        "warp_lang-9.9.dist-info/METADATA": "Name: warp-lang\nVersion: 9.9\n",
        "warp.py": "raise ImportError('no libwarp.so')",
        "faults.py": kernel,
        "faults.yaml": FAULTS.read_text(),
    }
    write_files(tmp_path, files)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(BackendUnavailable, match=r"warp is .*no libwarp.so"):
        open_measurer(load_spec(tmp_path / "faults.yaml"), "auto")
