"""Measuring in a process of its own: faults planted in kernels, and devices that fail."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

import pytest

from harness.core.errors import BackendUnavailable, DataDoesNotFit, HostModuleError, LaunchFailed
from harness.core.records import Config, Input, Measurement, Outcome, StopReason
from harness.measure.devices import Backend, choose_one
from harness.measure.kernels.measurer import KernelMeasurer
from harness.space import Space
from harness.space_file import Spec, load_spec
from tests.helpers.fake_kernels import FIVE, FOUR, OpenFake, write_fake
from tests.helpers.fakes import FAKE_HOST, FakeBackend, FakeDevice, read_journal
from tests.helpers.planted import FAULTS, GIVEN, SOON_S, fault, space_of


@pytest.fixture(scope="module")
def faults() -> Spec:
    return load_spec(FAULTS / "faults.yaml")


@pytest.fixture(scope="module")
def backend() -> Backend:
    """Choose PoCL, which builds and runs in processes that kernels may end."""
    pytest.importorskip("pyopencl")
    return choose_one("opencl")


@pytest.fixture(scope="module")
def local(faults: Spec, backend: Backend) -> Iterator[KernelMeasurer]:
    with contextlib.closing(KernelMeasurer(faults, backend)) as measurer:
        yield measurer


@pytest.fixture
def measure(faults: Spec, local: KernelMeasurer) -> Callable[[str], Measurement]:
    """Measures a fault; and then that the run goes on."""
    space = space_of(faults, local)

    def measured(name: str) -> Measurement:
        found = local.measure(space, GIVEN, fault(name), None)
        following = local.measure(space, GIVEN, fault("none"), None)
        assert following.outcome is Outcome.OK, following.message
        assert found.config == fault(name)
        assert found.build is not None or found.outcome is Outcome.BUILD_FAILED
        return found

    return measured


Measure = Callable[[str], Measurement]


BAD_LINE = (FAULTS / "faults.cl").read_text().splitlines().index("    y[i] = undeclared;") + 1


@pytest.mark.parametrize(
    ("name", "outcome", "messages"),
    [
        ("wrong_element", Outcome.WRONG_RESULT, ["at the first run: y[5] is"]),
        ("unwritten", Outcome.WRONG_RESULT, ["y[7] was never written (1 of "]),
        ("unwritten_integer", Outcome.WRONG_RESULT, ["z[0]", "expected -1"]),
        ("wrong_later", Outcome.WRONG_RESULT, ["at run 3: y["]),
        ("spoil_input", Outcome.WRONG_RESULT, ["at run 2"]),
        ("null_write", Outcome.CRASHED, ["the kernel's process died of SIGSEGV"]),
        ("trap", Outcome.CRASHED, ["the kernel's process died of SIGILL"]),
        ("build_error", Outcome.BUILD_FAILED, [f"faults.cl:{BAD_LINE}:", "'undeclared'"]),
        ("local_memory", Outcome.LAUNCH_FAILED, ["16,777,216", "device has "]),
        ("group_size", Outcome.LAUNCH_FAILED, ["groups of (16, 1, 1), but the launch's are (8, 1"]),
    ],
)
def test_each_fault_is_its_outcome_and_the_message_names_it(
    measure: Measure, name: str, outcome: Outcome, messages: list[str]
) -> None:
    found = measure(name)
    assert found.outcome is outcome
    for message in messages:
        assert message in found.message
    if name == "wrong_element":
        worst = found.worst_element
        assert (worst.argument, worst.index, worst.wrong_count) == ("y", (5,), 1)


def test_hang(faults: Spec, backend: Backend, local: KernelMeasurer, measure: Measure) -> None:
    begin = time.monotonic()
    spec = faults.with_measure({"timeout_s": 1})
    with contextlib.closing(KernelMeasurer(spec, backend, local)) as hasty:
        found = hasty.measure(space_of(faults, hasty), GIVEN, fault("hang"), None)
    assert found.outcome is Outcome.TIMEOUT
    assert found.message == "it did not end within 1 s and was killed (measure.timeout_s)"
    assert time.monotonic() - begin < SOON_S
    assert measure("none").outcome is Outcome.OK


def test_process_that_a_kernel_wrote_over_is_replaced(faults: Spec, local: KernelMeasurer) -> None:
    space, names = space_of(faults, local), ("none", "overrun_far", "none", "none")
    found = [local.measure(space, GIVEN, fault(name), None) for name in names]
    assert found[-1].outcome is Outcome.OK, found[-1].message
    before, spoilt, after, last = (each.observed["pid"] for each in found)
    assert before == spoilt != after == last


@pytest.mark.parametrize(
    ("n", "reason"),
    [
        (1, r"faults.py:\d+: reference\(\) raised ArithmeticError: no reference for one element"),
        (2, r"arguments\(\) raised \w*MemoryError"),
        (3, r"data of \(n=3\) died of SIGKILL, as when memory runs out.*enough memory"),
    ],
)
def test_host_module_that_fails_ends_its_input_and_nothing_else(
    faults: Spec, local: KernelMeasurer, n: int, reason: str
) -> None:
    given = Input({"n": n})
    with pytest.raises(HostModuleError, match=reason):
        local.measure(space_of(faults, local, given), given, fault("none"), None)
    found = local.measure(space_of(faults, local), GIVEN, fault("none"), None)
    assert found.outcome is Outcome.OK


@pytest.mark.slow
def test_interleaved_crash_is_the_failure_of_one(faults: Spec, local: KernelMeasurer) -> None:
    names = ("none", "trap", "build_error", "wrong_element", "read_spare")
    configs = [fault(name) for name in names]
    found = local.measure_interleaved(space_of(faults, local), GIVEN, configs, rounds=4)
    assert [m.config for m in found] == configs
    ok, wrong = Outcome.OK, Outcome.WRONG_RESULT
    expected = [ok, Outcome.CRASHED, Outcome.BUILD_FAILED, wrong, ok]
    assert [m.outcome for m in found] == expected
    assert "SIGILL" in found[1].message
    assert {m.timing.stopped for m in found if m.timing} == {StopReason.INTERLEAVED}
    assert {m.timing.count for m in found if m.timing} == {4}


@pytest.mark.slow
def test_interleaved_hang_leaves_the_other_one_measured(fake: OpenFake, tmp_path: Path) -> None:
    hangs = """
import time
def observe(config):
    time.sleep(60 * (config["V"] == 2))
    return {}
"""
    spec = write_fake(tmp_path, host=f"{FAKE_HOST}{hangs}").with_measure({"timeout_s": 1})
    local, space = fake(spec)
    configs = [Config({"V": value}) for value in (2, 1)]
    found = local.measure_interleaved(space, FOUR, configs, rounds=2)
    assert [m.outcome for m in found] == [Outcome.TIMEOUT, Outcome.OK]


def test_only_interleaved_one_may_crash(faults: Spec, local: KernelMeasurer) -> None:
    space = space_of(faults, local)
    (found,) = local.measure_interleaved(space, GIVEN, [fault("trap")], rounds=2)
    assert found.outcome is Outcome.CRASHED


# ------------------------------------------------------------------ a device that takes no more


def outcomes(local: KernelMeasurer, space: Space, *inputs: Input) -> list[Outcome]:
    """Measure the default on each input."""
    return [local.measure(space, given, space.default, None).outcome for given in inputs]


def test_device_that_runs_not_even_an_empty_kernel_is_broken(fake: OpenFake) -> None:
    local, space = fake(lives=0)
    with pytest.raises(BackendUnavailable, match=r"an empty kernel does not run on the opencl"):
        local.measure(space, FOUR, space.default, None)


def fails(*_: object) -> None:
    raise LaunchFailed("no")


def test_empty_kernel_runs_after_the_first_failure_alone(fake_here: OpenFake) -> None:
    local, space = fake_here(opened=FakeDevice(kernels={"twice": fails}))
    with mock.patch.object(FakeBackend, "run_empty_kernel") as asked:
        for value in (1, 2):
            assert not local.measure(space, FOUR, Config({"V": value}), None).timing
        asked.assert_called_once()


def test_no_energy_is_a_notice(fake_here: OpenFake, tmp_path: Path) -> None:
    assert fake_here()[0].notices == ()
    (notice,) = fake_here(write_fake(tmp_path).with_measure({"energy": True}))[0].notices
    assert notice.startswith("energy is not measured: harness reads it from GPUs with --backend")


def test_data_that_does_not_fit_is_no_configurations_fault(fake_here: OpenFake) -> None:
    local, space = fake_here(refused_binds=(2, 3))
    assert outcomes(local, space, FOUR, FIVE) == [Outcome.OK] * 2
    with pytest.raises(DataDoesNotFit, match=r"64 bytes do not fit\. Run the same command"):
        local.measure(space, FOUR, space.default, None)
    assert local.measure(space, FOUR, space.default, None).outcome is Outcome.OK


def test_driver_that_refuses_data_is_asked_again_in_a_new_process(fake_here: OpenFake) -> None:
    local, space = fake_here(broken_binds=(0, 2, 3))
    assert local.measure(space, FOUR, space.default, None).outcome is Outcome.OK
    with pytest.raises(HostModuleError, match="cannot be copied to the device: the driver") as e:
        local.measure(space, FIVE, space.default, None)
    assert not isinstance(e.value, DataDoesNotFit)
    assert local.measure(space, FIVE, space.default, None).outcome is Outcome.OK


@pytest.mark.parametrize("count", [1, 2])
def test_nothing_interleaved_runs_on_data_that_could_not_be_copied(
    fake_here: OpenFake, tmp_path: Path, count: int
) -> None:
    local, space = fake_here(refused_binds=(1,))
    assert local.measure(space, FOUR, space.default, None).outcome is Outcome.OK
    found = local.measure_interleaved(space, FOUR, list(space)[:count], rounds=2)
    assert [m.outcome for m in found] == [Outcome.OK] * count
    done = [what for what, _, _ in read_journal(tmp_path / "journal") if what != "compile"]
    binds = [number for number, what in enumerate(done) if what == "bind"]
    assert binds[2] == binds[1] + 1, "nothing is launched between"


def test_interleaved_configurations_survive_one_that_breaks_the_device(fake_here: OpenFake) -> None:
    local, space = fake_here(spoilt_by="#define V 2")
    configs = [Config({"V": value}) for value in (1, 2, 3)]
    found = local.measure_interleaved(space, FOUR, configs, rounds=2)
    ok, failed = Outcome.OK, Outcome.LAUNCH_FAILED
    assert [m.outcome for m in found] == [ok, failed, ok]
    assert [m.timing.count for m in found if m.timing] == [2, 2]


@pytest.mark.parametrize(("refused", "fits"), [((2,), True), (tuple(range(2, 20)), False)])
def test_interleaved_data_that_does_not_fit_again_is_nobodys_failure(
    fake_here: OpenFake, refused: tuple[int, ...], fits: bool
) -> None:
    local, space = fake_here(refused_binds=refused)
    assert outcomes(local, space, FOUR, FIVE) == [Outcome.OK] * 2
    with nullcontext() if fits else pytest.raises(DataDoesNotFit, match="64 bytes do not fit"):
        found = local.measure_interleaved(space, FOUR, list(space)[:3], rounds=2)
        assert [m.outcome for m in found] == [Outcome.OK] * 3


@pytest.mark.slow
def test_survivors_that_are_lost_together_again_have_that_outcome(fake: OpenFake) -> None:
    # One takes three launches, of which none hurts; two take six.
    local, space = fake(lives=5)
    found = local.measure_interleaved(space, FOUR, list(space)[:2], rounds=2)
    assert [m.outcome for m in found] == [Outcome.CRASHED] * 2


def test_the_first_configuration_is_built_alone(fake_here: OpenFake, tmp_path: Path) -> None:
    local, space = fake_here(shares_cpu=True)
    configs = list(space)[:3]
    for config in configs:
        local.expect(space, configs)
        assert local.measure(space, FOUR, config, None).outcome is Outcome.OK
    events = [what for what, _, _ in sorted(read_journal(tmp_path / "journal"), key=lambda e: e[1])]
    first, second = events.index("launch"), events.index("compile", events.index("launch"))
    assert events[:first].count("compile") == 1
    assert "launch" not in events[second : second + 2], "then the others are built together"
    assert events.count("compile") == 3
