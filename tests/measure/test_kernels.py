"""Measuring in a process of its own: faults planted in kernels, and devices that fail."""

import contextlib
from unittest import mock

import pytest

from harness.core.errors import BackendUnavailable, DataDoesNotFit, HostModuleError, LaunchFailed
from harness.core.records import Config, Input, Outcome, StopReason
from harness.measure.devices import choose_one
from harness.measure.kernels.measurer import KernelMeasurer
from harness.space_file import load_spec
from tests.helpers.fake_kernels import FIVE, FOUR, write_fake
from tests.helpers.fakes import FAKE_HOST, FakeBackend, FakeDevice, read_journal
from tests.helpers.planted import FAULTS, GIVEN, fault, space_of


@pytest.fixture(scope="module")
def faults():
    return load_spec(FAULTS / "faults.yaml")


@pytest.fixture(scope="module")
def local(faults):
    """A measurer on PoCL, which builds and runs in processes that kernels may end."""
    pytest.importorskip("pyopencl")
    with contextlib.closing(KernelMeasurer(faults, choose_one("opencl"))) as measurer:
        yield measurer


@pytest.fixture
def measure(faults, local):
    """Measures a fault; and then that the run goes on."""
    space = space_of(faults, local)

    def measured(name):
        faulty = local.measure(space, GIVEN, fault(name), None)
        following = local.measure(space, GIVEN, fault("none"), None)
        assert following.outcome is Outcome.OK, following.message
        assert faulty.config == fault(name)
        assert faulty.build is not None or faulty.outcome is Outcome.BUILD_FAILED
        return faulty

    return measured


BAD_LINE = (FAULTS / "faults.cl").read_text().splitlines().index("    y[i] = undeclared;") + 1


@pytest.mark.parametrize(
    ("name", "outcome", "word"),
    [
        ("wrong_element", Outcome.WRONG_RESULT, "y[5]"),
        ("unwritten", Outcome.WRONG_RESULT, "y[7] was never written"),
        pytest.param("unwritten_integer", Outcome.WRONG_RESULT, "z[0]", marks=pytest.mark.slow),
        ("wrong_later", Outcome.WRONG_RESULT, "run 3"),
        ("spoil_input", Outcome.WRONG_RESULT, "run 2"),
        ("null_write", Outcome.CRASHED, "SIGSEGV"),
        pytest.param("trap", Outcome.CRASHED, "SIGILL", marks=pytest.mark.slow),
        ("build_error", Outcome.BUILD_FAILED, f"faults.cl:{BAD_LINE}:"),
        pytest.param("local_memory", Outcome.LAUNCH_FAILED, "16,777,216", marks=pytest.mark.slow),
        ("group_size", Outcome.LAUNCH_FAILED, "(8, 1"),
    ],
)
def test_each_fault_is_its_outcome_and_the_message_names_it(measure, name, outcome, word):
    faulty = measure(name)
    assert faulty.outcome is outcome
    assert word in faulty.message
    if name == "wrong_element":
        worst = faulty.worst_element
        assert (worst.argument, worst.index, worst.wrong_count) == ("y", (5,), 1)


def test_process_that_a_kernel_wrote_over_is_replaced(faults, local):
    space = space_of(faults, local)
    pids = []
    for name in ("none", "overrun_far", "none", "none"):
        measured = local.measure(space, GIVEN, fault(name), None)
        pids.append(measured.observed["pid"])
    assert measured.outcome is Outcome.OK, measured.message
    assert pids[0] == pids[1] != pids[2] == pids[3]


@pytest.mark.parametrize(
    ("n", "reason"),
    [
        (1, r"faults.py:\d+: reference.*ArithmeticError"),
        (2, r"arguments.*MemoryError"),
        pytest.param(3, r"\(n=3\).*SIGKILL.*enough memory", marks=pytest.mark.slow),
    ],
)
def test_host_module_that_fails_ends_its_input_and_nothing_else(faults, local, n, reason):
    given = Input({"n": n})
    with pytest.raises(HostModuleError, match=reason):
        local.measure(space_of(faults, local, given), given, fault("none"), None)
    following = local.measure(space_of(faults, local), GIVEN, fault("none"), None)
    assert following.outcome is Outcome.OK


@pytest.mark.slow
def test_interleaved_crash_is_the_failure_of_one(faults, local):
    configs = list(map(fault, ("none", "trap", "build_error", "wrong_element", "read_spare")))
    result = local.measure_interleaved(space_of(faults, local), GIVEN, configs, rounds=4)
    assert [m.config for m in result] == configs
    ok, wrong = Outcome.OK, Outcome.WRONG_RESULT
    expected = [ok, Outcome.CRASHED, Outcome.BUILD_FAILED, wrong, ok]
    assert [m.outcome for m in result] == expected
    assert "SIGILL" in result[1].message
    assert {m.timing.stopped for m in result if m.timing} == {StopReason.INTERLEAVED}
    assert {m.timing.count for m in result if m.timing} == {4}


V1, V2 = Config({"V": 1}), Config({"V": 2})
HANGS = """
import time
def observe(config):
    if config["V"] == 2:
        time.sleep(60)
    return {}
"""


@pytest.fixture
def hasty(fake, tmp_path):
    """A measurer of a fake device, on which V = 2 hangs, and its space."""
    return fake(write_fake(tmp_path, host=f"{FAKE_HOST}{HANGS}").with_measure({"timeout_s": 1}))


def test_what_hangs_is_killed_and_the_next_one_is_measured(hasty):
    local, space = hasty
    assert outcome(local, space, FOUR, V2) is Outcome.TIMEOUT
    assert outcome(local, space) is Outcome.OK


@pytest.mark.slow
def test_interleaved_hang_leaves_the_other_one_measured(hasty):
    local, space = hasty
    measured = local.measure_interleaved(space, FOUR, [V2, V1], rounds=2)
    assert [m.outcome for m in measured] == [Outcome.TIMEOUT, Outcome.OK]


def test_only_interleaved_one_may_crash(fake):
    assert interleaved(*fake(lives=2), 1) == [Outcome.CRASHED]


# ------------------------------------------------------------------ a device that takes no more


def outcome(local, space, problem=FOUR, config=V1):
    """Measure a configuration."""
    return local.measure(space, problem, config, None).outcome


def interleaved(local, space, count):
    """Measure the first configurations in two rounds."""
    measured = local.measure_interleaved(space, FOUR, list(space)[:count], rounds=2)
    return [m.outcome for m in measured]


def test_device_that_runs_not_even_an_empty_kernel_is_broken(fake):
    with pytest.raises(BackendUnavailable, match="an empty kernel does not run"):
        outcome(*fake(lives=0))


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


@pytest.mark.slow
def test_survivors_that_are_lost_together_again_have_that_outcome(fake):
    # One takes three launches, of which none hurts; two take six.
    assert interleaved(*fake(lives=5), 2) == [Outcome.CRASHED] * 2


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
