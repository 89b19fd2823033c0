"""Faults planted in kernels, and devices that fail."""

from contextlib import closing
from unittest import mock

import pytest

from harness.core.errors import BackendUnavailable, DataDoesNotFit, HostModuleError, LaunchFailed
from harness.core.records import Config, Outcome
from harness.measure.kernels.measurer import KernelMeasurer
from harness.space_file import load_spec
from tests.helpers.fake_kernels import FIVE, FOUR, write_fake
from tests.helpers.fakes import FakeBackend, FakeDevice, read_journal
from tests.helpers.planted import FAULTS, assert_failed, assert_input_ends, measured_fault


@pytest.fixture(scope="module")
def faults():
    return load_spec(FAULTS / "faults.yaml")


@pytest.fixture(scope="module")
def local(faults, module_opencl):
    """A measurer on PoCL, which builds and runs in this process."""
    with closing(KernelMeasurer(faults, module_opencl)) as measurer:
        yield measurer


BAD_LINE = (FAULTS / "faults.cl").read_text().splitlines().index("    y[i] = undeclared;") + 1


@pytest.mark.parametrize(
    "name, outcome, word",
    [
        ("wrong_element", Outcome.WRONG_RESULT, "y[5]"),
        ("unwritten", Outcome.WRONG_RESULT, "y[7] was never written"),
        pytest.param("unwritten_integer", Outcome.WRONG_RESULT, "z[0]", marks=pytest.mark.slow),
        ("wrong_later", Outcome.WRONG_RESULT, "run 3"),
        ("spoil_input", Outcome.WRONG_RESULT, "run 2"),
        ("build_error", Outcome.BUILD_FAILED, f"faults.cl:{BAD_LINE}:"),
        pytest.param("local_memory", Outcome.LAUNCH_FAILED, "16,777,216", marks=pytest.mark.slow),
        ("group_size", Outcome.LAUNCH_FAILED, "(8, 1"),
    ],
)
def test_each_fault_is_its_outcome_and_the_message_names_it(faults, local, name, outcome, word):
    faulty = measured_fault(faults, local, name)
    assert_failed(faulty, outcome, word)
    if name == "wrong_element":
        worst = faulty.worst_element
        assert (worst.argument, worst.index, worst.wrong_count) == ("y", (5,), 1)


@pytest.mark.parametrize(
    "n, reason",
    [(1, r"faults.py:\d+: reference.*ArithmeticError"), (2, r"arguments.*MemoryError")],
)
def test_host_module_that_fails_ends_its_input_and_nothing_else(faults, local, n, reason):
    assert_input_ends(faults, local, n, reason)


V1, V2 = Config({"V": 1}), Config({"V": 2})


def test_what_hangs_is_killed_and_the_next_one_is_measured(fake_here):
    local, space = fake_here(spoilt_by="#define V 2", hangs=True)
    assert outcome(local, space, FOUR, V2) is Outcome.TIMEOUT
    assert outcome(local, space) is Outcome.OK
    measured = local.measure_interleaved(space, FOUR, [V2, V1], rounds=2)
    assert [m.outcome for m in measured] == [Outcome.TIMEOUT, Outcome.OK]


# ------------------------------------------------------------------ a device that takes no more


def outcome(local, space, problem=FOUR, config=V1):
    """Measure a configuration."""
    return local.measure(space, problem, config, None).outcome


def interleaved(local, space, count):
    """Measure the first configurations in two rounds."""
    measured = local.measure_interleaved(space, FOUR, list(space)[:count], rounds=2)
    return [m.outcome for m in measured]


def test_device_that_runs_not_even_an_empty_kernel_is_broken(fake_here):
    with pytest.raises(BackendUnavailable, match="an empty kernel does not run"):
        outcome(*fake_here(lives=0))


def fails(*_):
    raise LaunchFailed("no")


def test_empty_kernel_runs_after_the_first_failure_alone(fake_here):
    local, space = fake_here(opened=FakeDevice(kernels={"twice": fails}))
    with mock.patch.object(FakeBackend, "run_empty_kernel") as asked:
        for config in (V1, V2):
            assert outcome(local, space, FOUR, config) is Outcome.LAUNCH_FAILED
        asked.assert_called_once()


def test_no_energy_is_a_notice(fake_here, tmp_path):
    assert fake_here()[0].notices == ()
    (notice,) = fake_here(write_fake(tmp_path).with_measure({"energy": True}))[0].notices
    assert "energy" in notice


def test_data_that_does_not_fit_is_no_configurations_fault(fake_here):
    local, space = fake_here(refused_binds=(2, 3))
    assert outcome(local, space) is outcome(local, space, FIVE) is Outcome.OK
    with pytest.raises(DataDoesNotFit, match="64 bytes"):
        outcome(local, space)
    assert outcome(local, space) is Outcome.OK


def test_driver_that_refuses_data_is_asked_again_in_a_new_process(fake_here):
    local, space = fake_here(broken_binds=(0, 2, 3))
    assert outcome(local, space) is Outcome.OK
    with pytest.raises(HostModuleError, match="copied to the device") as e:
        outcome(local, space, FIVE)
    assert not isinstance(e.value, DataDoesNotFit)
    assert outcome(local, space, FIVE) is Outcome.OK


@pytest.mark.parametrize("count", [1, 2])
def test_nothing_interleaved_runs_on_data_that_could_not_be_copied(fake_here, tmp_path, count):
    local, space = fake_here(refused_binds=(1,))
    assert outcome(local, space) is Outcome.OK
    assert interleaved(local, space, count) == [Outcome.OK] * count
    done = [what for what, _, _ in read_journal(tmp_path / "journal") if what != "compile"]
    binds = [number for number, what in enumerate(done) if what == "bind"]
    assert binds[2] == binds[1] + 1, "nothing is launched between"


def test_interleaved_configurations_survive_one_that_breaks_the_device(fake_here):
    local, space = fake_here(spoilt_by="#define V 2")
    measured = local.measure_interleaved(space, FOUR, list(space)[:3], rounds=2)
    assert [m.outcome for m in measured] == [Outcome.OK, Outcome.LAUNCH_FAILED, Outcome.OK]
    assert [m.timing.count for m in measured if m.timing] == [2, 2]


@pytest.mark.parametrize("refused", [(2,), range(2, 20)], ids=["once", "always"])
def test_interleaved_data_that_does_not_fit_again_is_nobodys_failure(fake_here, refused):
    local, space = fake_here(refused_binds=refused)
    assert outcome(local, space) is outcome(local, space, FIVE) is Outcome.OK
    if len(refused) == 1:
        assert interleaved(local, space, 3) == [Outcome.OK] * 3
    else:
        with pytest.raises(DataDoesNotFit, match="64 bytes"):
            interleaved(local, space, 3)


def test_one_that_is_lost_or_survivors_that_are_lost_together_again_have_crashed(fake_here):
    # One takes three launches; two take six.
    for lives, count in ((2, 1), (5, 2)):
        assert interleaved(*fake_here(lives=lives), count) == [Outcome.CRASHED] * count


def test_the_first_configuration_is_built_alone(fake_here, tmp_path):
    local, space = fake_here(shares_cpu=True)
    configs = list(space)[:3]
    for config in configs:
        local.expect(space, configs)
        assert outcome(local, space, FOUR, config) is Outcome.OK
    events = [what for what, _, _ in sorted(read_journal(tmp_path / "journal"), key=lambda e: e[1])]
    first, second = events.index("launch"), events.index("compile", events.index("launch"))
    assert events[:first].count("compile") == 1
    assert "launch" not in events[second : second + 2], "then the others are built together"
    assert events.count("compile") == 3
