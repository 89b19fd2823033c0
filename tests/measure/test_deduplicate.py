"""Configurations of equal machine code: measured once, shared and marked, and else measured."""

from functools import partial

import pytest

from harness.analysis.coverage import input_reports
from harness.core.program import Launch
from harness.core.records import Build, Config, Measurement, Outcome, Timing
from harness.measure.equal_code import EqualCode
from harness.space_file import load_spec
from tests.helpers.fake_kernels import FOUR, write_fake
from tests.helpers.fakes import FAKE_HOST, FAKE_SPACE, read_journal
from tests.helpers.planted import assert_ok
from tests.helpers.replays import opened
from tests.helpers.results_examples import query

LAUNCH = (Launch("f", (64,), (2,), ("x",)),)


def config(a, b=0):
    return Config({"A": a, "B": b})


def build(sha256="ab" * 32, key="0" * 64):
    return Build(key, "", "a compiler", 0.5, sha256)


def ok(a, b=0, read=(), **changes):
    fields = {"timing": Timing((1.0, 2.0, 3.0)), "build": build(), "host_read": read, "wall_s": 9.0}
    return Measurement(config(a, b), FOUR, **{"outcome": Outcome.OK, **fields, **changes})


def found_for(measured, asked, built=None, launches=LAUNCH):
    """What one measurement is to a configuration."""
    equal = EqualCode()
    equal.add(measured, LAUNCH)
    return equal.find(FOUR, asked, built or build(), launches)


# ----------------------------------------------------------------------- what is the same


def test_equal_code_that_is_launched_alike_shares_the_samples_and_names_their_origin():
    built = build(key="1" * 64)
    result = found_for(ok(1, observed={"occupancy": 0.5}), config(2), built)
    assert (result.config, result.build, result.wall_s) == (config(2), built, 0.0)
    assert result.shared_with == config(1).digest
    assert result.timing == ok(1).timing
    assert result.observed == {"occupancy": 0.5}


UNKNOWN, READ_B = build(None), ok(1, 5, read=("B",))
CASES = {
    "equal code": (ok(1), config(2), {}, True),
    "other code": (ok(1), config(2), {"built": build("cd" * 32)}, False),
    "unknown code": (ok(1), config(2), {"built": UNKNOWN}, False),
    "both unknown": (ok(1, build=UNKNOWN), config(2), {"built": UNKNOWN}, False),
    "group": (ok(1), config(2), {"launches": (Launch("f", (32,), (2,), ("x",)),)}, False),
    "from the host module": (ok(1), config(2), {"launches": ()}, False),
    "equal where it was read": (READ_B, config(2, 5), {}, True),
    "other value was read": (READ_B, config(2, 6), {}, False),
    "other type was read": (READ_B, Config({"A": 2, "B": 5.0}), {}, False),
    "what was read is missing": (READ_B, Config({"A": 2}), {}, False),
    "unknown what was read": (ok(1, read=None), config(2), {}, False),
    "the same is measured again": (ok(1), config(1), {}, False),
}


def test_equal_code_is_shared_where_it_is_launched_alike_and_the_host_module_read_the_same():
    for name, (measured, asked, changes, is_shared) in CASES.items():
        assert (found_for(measured, asked, **changes) is not None) is is_shared, name


def test_measurements_are_found_by_whatever_the_host_module_read_each_time():
    equal = EqualCode()
    equal.add(ok(1, 5, read=("A", "B")), LAUNCH)
    equal.add(ok(2, 5, read=("A",)), LAUNCH)
    result = equal.find(FOUR, config(2, 6), build(), LAUNCH)
    assert result.shared_with == config(2, 5).digest


def test_failures_that_repeat_are_shared_and_chance_ones_are_not():
    for outcome in [o for o in Outcome if o is not Outcome.OK]:
        failed = ok(1, outcome=outcome, timing=None, message="as it is")
        result = found_for(failed, config(2))
        assert (result is not None) == (outcome in (Outcome.WRONG_RESULT, Outcome.LAUNCH_FAILED))


def test_what_was_shared_is_shared_on_with_its_first_origin():
    result = found_for(ok(2, shared_with=config(1).digest), config(3))
    assert result.shared_with == config(1).digest


# ----------------------------------------------------------------------------- a measurer


@pytest.fixture
def hashing(fake_here):
    """Opens measurers of a fake device; V is a macro that changes nothing."""
    return partial(fake_here, hashes=True)


def launches(folder):
    return sum(what == "launch" for what, _, _ in read_journal(folder / "journal"))


def v(value):
    return Config({"V": value})


def test_finalists_are_measured_each_for_itself(hashing):
    local, space = hashing()
    local.measure(space, FOUR, v(1), None)
    result = local.measure_interleaved(space, FOUR, [v(1), v(2)], rounds=2)
    assert [m.shared_with for m in result] == [None, None]


HOST_LAUNCHES = """\

from harness.host import Launch

def launches(arguments, config):
    yield Launch("twice", (config["SIZE"],), (1,), ("x", "y"))
"""
HOST_SPACE = FAKE_SPACE.replace(
    "parameters:", "parameters:\n  SIZE: {values: [2, 4], default: 4}"
).replace("launch: {group: [4], grid: [1]}", "launch: host")


def test_launches_of_a_host_module_equal_by_what_it_reads(hashing, tmp_path):
    local, space = hashing(write_fake(tmp_path, space=HOST_SPACE, host=FAKE_HOST + HOST_LAUNCHES))
    configs = [Config({"SIZE": size, "V": value}) for size, value in ((4, 1), (4, 2), (2, 2))]
    result = [local.measure(space, FOUR, config, None) for config in configs]
    assert_ok(*result)
    assert [m.host_read for m in result] == [("SIZE",)] * 3
    assert [m.shared_with for m in result] == [None, configs[0].digest, None]


# ------------------------------------------------------------------------- a whole campaign


def searched(hashing, folder, **options):
    """A campaign on a fake device: its tests, and its reports."""
    local, _ = hashing()
    spec = load_spec(folder / "fake.yaml")
    with opened(spec, folder / "results.db", local, **options) as (campaign, tests):
        campaign.run()
        return tests, input_reports(campaign.results())


def test_a_campaign_measures_one_finalist_of_each_code(hashing, tmp_path):
    searched(hashing, tmp_path, test_limit=2)
    launched = launches(tmp_path)
    tests, reports = searched(hashing, tmp_path, test_limit=6)
    assert len(tests) == 12
    assert launches(tmp_path) == launched, "its code is not measured again after the run was cut"
    assert [(r.measured, r.shared, r.within_noise) for r in reports] == [(6, 5, 0)] * 2
    database = tmp_path / "results.db"
    # All have one code, so the default stands for them.
    finals = "SELECT count(*) FROM measurements JOIN result USING (id) WHERE stage = 'final'"
    assert query(database, f"{finals} GROUP BY input_id") == [(1,), (1,)]
    assert {r.best.config for r in reports} == {v(1)}
    shared = (
        "SELECT count(*) FROM measurements JOIN configurations origin "
        "ON origin.digest = shared_with AND origin.parameters = '{\"V\": 1}'"
    )
    assert query(database, shared) == [(10,)]
