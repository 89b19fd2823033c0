"""Kernels that are Python callables: measured in a process of their own, and refused for a reason
where they fail, are wrong, or keep what they should compute."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.core.errors import BackendUnavailable, HostModuleError, UsageError
from harness.core.records import Config, Input, Measurement, Outcome
from harness.measure.choose import open_measurer
from harness.measure.kernels.measurer import KernelMeasurer
from harness.measure.trial.occasions import new_seed
from harness.space import ConstrainedSpace
from harness.space_file import Spec, load_spec
from harness.space_file.model import PythonVerify
from harness.stats.interleaved import is_shown

FAULTS = Path(__file__).parents[1] / "data/callables/faults.yaml"
GIVEN, LONG = Input({"n": 100, "work_ms": 0}), Input({"n": 100, "work_ms": 3})


@pytest.fixture(scope="module")
def spec() -> Spec:
    return load_spec(FAULTS).with_measure({"timeout_s": 5})


@pytest.fixture(scope="module")
def local(spec: Spec) -> Iterator[KernelMeasurer]:
    measurer, _ = open_measurer(spec, "auto")
    assert isinstance(measurer, KernelMeasurer)
    with contextlib.closing(measurer):
        yield measurer


@pytest.fixture(scope="module")
def space(spec: Spec, local: KernelMeasurer) -> ConstrainedSpace:
    return ConstrainedSpace.of(spec, GIVEN, local.limits, local.compiler)


Measure = Callable[..., Measurement]


@pytest.fixture
def measure(local: KernelMeasurer, space: ConstrainedSpace) -> Measure:
    """Measures a fault; and then that the run goes on."""

    def measured(fault: str, pause: int = 0) -> Measurement:
        found = local.measure(space, GIVEN, Config({"FAULT": fault, "PAUSE": pause}), None)
        following = local.measure(space, GIVEN, space.default, None)
        assert following.outcome is Outcome.OK, following.message
        return found

    return measured


@pytest.mark.parametrize("fault", ["none", "returns_arrays", "other_bits"])
def test_right_callable_is_timed(measure: Measure, fault: str) -> None:
    found = measure(fault)
    assert found.outcome is Outcome.OK, found.message
    assert 0 < found.time_s < 0.1


def test_bits_of_the_default_may_be_demanded(spec: Spec, local: KernelMeasurer) -> None:
    exact = dataclasses.replace(spec, verify=PythonVerify(bits="default"))
    measurer, _ = open_measurer(exact, "auto", owner=local)
    with contextlib.closing(measurer):
        space = ConstrainedSpace.of(exact, GIVEN, measurer.limits, measurer.compiler)
        configs = [Config({"FAULT": each, "PAUSE": 0}) for each in ("returns_arrays", "other_bits")]
        right, other = (measurer.measure(space, GIVEN, config, None) for config in configs)
    assert right.outcome is Outcome.OK, right.message
    assert other.outcome is Outcome.WRONG_RESULT
    assert "compared with the default: y[0] is" in other.message


def test_first_call_counts_as_build(measure: Measure) -> None:
    found = measure("none", pause=1)
    assert found.build is not None
    assert found.build.compile_s > 0.2
    assert max(*found.warmup_s, found.time_s) < 0.1


@pytest.mark.parametrize(
    ("fault", "outcome", "message"),
    [
        ("wrong_element", Outcome.WRONG_RESULT, "at the first run: y[5] is 0"),
        ("unwritten", Outcome.WRONG_RESULT, "y[7] was never written (93 of 100 elements"),
        ("wrong_later", Outcome.WRONG_RESULT, "y[5] is 0"),
        ("raises", Outcome.BUILD_FAILED, "the callable raised KeyError: 'nothing'"),
        ("raises_later", Outcome.LAUNCH_FAILED, "the callable raised KeyError: 'nothing'"),
        ("fails_to_build", Outcome.BUILD_FAILED, "build() raised ValueError: no such layout"),
        (
            "builds_nothing",
            Outcome.BUILD_FAILED,
            "must return a callable, but returned an object of the type NoneType",
        ),
        (
            "returns_a_number",
            Outcome.BUILD_FAILED,
            "the callable returned an object of the type int; write",
        ),
        ("returns_another_shape", Outcome.BUILD_FAILED, "bound as float64[100], but written as"),
        ("aborts", Outcome.BUILD_FAILED, "its process, which died of SIGABRT"),
        ("aborts_later", Outcome.CRASHED, "the kernel's process died of SIGABRT"),
        ("spoils_its_input", Outcome.WRONG_RESULT, "at run 2: y[3] is 3"),
        ("writes_past_the_end", Outcome.BUILD_FAILED, "the argument y (2 elements behind its end)"),
        ("kept_by_id_of_arguments", Outcome.WRONG_RESULT, "100 of 100 elements are wrong"),
        ("kept_result", Outcome.WRONG_RESULT, "100 of 100 elements are wrong"),
    ],
)
def test_fault_is_refused_and_the_message_names_it(
    measure: Measure, fault: str, outcome: Outcome, message: str
) -> None:
    found = measure(fault)
    assert found.outcome is outcome, found.message
    assert message in found.message


def test_result_kept_by_the_identity_of_an_array_has_no_claim(
    local: KernelMeasurer, space: ConstrainedSpace
) -> None:
    configs = [space.default, Config({"FAULT": "kept_by_id_of_array", "PAUSE": 0})]
    default, found = (local.measure(space, LONG, config, None) for config in configs)
    assert default.outcome is Outcome.OK
    assert found.outcome is Outcome.WRONG_RESULT or found.time_s > default.time_s / 2
    seeds = (new_seed(),) * 3 + (new_seed(),) * 3
    _, found = local.measure_interleaved(space, LONG, configs, 12, seeds)
    assert found.outcome is Outcome.WRONG_RESULT or not is_shown(found)


@pytest.mark.parametrize(
    ("fault", "outcome", "message"),
    [
        ("hangs", Outcome.BUILD_FAILED, "build(), or the first call, did not end within 1 s"),
        ("hangs_later", Outcome.TIMEOUT, "it did not end within 1 s"),
    ],
)
def test_callable_that_hangs_is_killed(
    spec: Spec, local: KernelMeasurer, fault: str, outcome: Outcome, message: str
) -> None:
    hasty_spec = spec.with_measure({"timeout_s": 1})
    hasty, _ = open_measurer(hasty_spec, "python", owner=local)
    with contextlib.closing(hasty):
        space = ConstrainedSpace.of(hasty_spec, GIVEN, hasty.limits, hasty.compiler)
        found = hasty.measure(space, GIVEN, Config({"FAULT": fault, "PAUSE": 0}), None)
    assert found.outcome is outcome
    assert message in found.message


def test_interleaved_callables_run_on_new_data_and_compile_before(
    local: KernelMeasurer, space: ConstrainedSpace
) -> None:
    faults = [("none", 0), ("none", 1), ("wrong_element", 0)]
    configs = [Config({"FAULT": fault, "PAUSE": pause}) for fault, pause in faults]
    found = local.measure_interleaved(space, GIVEN, configs, 8, (new_seed(), new_seed()))
    outcomes = [each.outcome for each in found]
    assert outcomes == [Outcome.OK, Outcome.OK, Outcome.WRONG_RESULT]
    assert max(*found[1].warmup_s, found[1].time_s) < 0.1


def test_module_that_makes_no_data_ends_its_input(
    local: KernelMeasurer, space: ConstrainedSpace
) -> None:
    with pytest.raises(HostModuleError, match=r"arguments\(\) raised ArithmeticError: no data"):
        local.measure(space, Input({"n": 1, "work_ms": 0}), space.default, None)


def test_environment_names_framework_and_versions(local: KernelMeasurer) -> None:
    environment = local.environment
    assert environment.backend == "python"
    assert environment.platform.startswith("numpy, wall time of the call")
    assert environment.compiler.startswith("numpy ")
    assert "Python 3" in environment.compiler


def test_other_backend_and_devices_are_refused(spec: Spec, faults: Spec) -> None:
    with pytest.raises(UsageError, match="tunes a Python callable, which --backend cuda cannot"):
        open_measurer(spec, "cuda")
    with pytest.raises(UsageError, match="whose framework chooses the device; leave --device out"):
        open_measurer(spec, "auto", devices=["0"])
    with pytest.raises(UsageError, match="tunes no Python callable, which --backend python runs"):
        open_measurer(faults, "python")


@pytest.fixture
def faults() -> Spec:
    return load_spec(FAULTS.parents[1] / "faults/faults.yaml")


def test_missing_framework_says_what_to_install(
    spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib import metadata

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(BackendUnavailable, match="needs numpy, which is not installed: pip inst"):
        open_measurer(spec, "auto")


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("raise ImportError('no libwarp.so')", "warp is installed, but cannot be imported: no lib"),
        ("import os; os.abort()", "opens the python device died of SIGABRT.* See whether Python"),
    ],
)
def test_framework_that_cannot_be_imported_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, message: str
) -> None:
    (tmp_path / "warp_lang-9.9.dist-info").mkdir()
    metadata = "Metadata-Version: 2.1\nName: warp-lang\nVersion: 9.9\n"
    (tmp_path / "warp_lang-9.9.dist-info/METADATA").write_text(metadata)
    (tmp_path / "warp.py").write_text(module)
    kernel = FAULTS.with_suffix(".py").read_text().replace('"numpy"', '"warp"')
    (tmp_path / "faults.py").write_text(kernel)
    (tmp_path / "faults.yaml").write_text(FAULTS.read_text())
    monkeypatch.syspath_prepend(str(tmp_path))
    lock = "harness.measure.kernels.device_process.locked"
    monkeypatch.setattr(lock, lambda *_: contextlib.nullcontext())  # another measurer has it
    with pytest.raises(BackendUnavailable, match=message):
        open_measurer(load_spec(tmp_path / "faults.yaml"), "auto")
