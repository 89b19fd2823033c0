"""A request that is carried out: one plan of a campaign, made once the device is open."""

import time
from unittest import mock

import pytest
from rich.console import Console

from harness.api.request import read_request
from harness.api.running import open_campaign, tuned
from harness.core.records import Config, Input
from harness.display.progress import ProgressDisplay
from harness.options.tune import TuneOptions
from harness.results import Store
from harness.space_file import load_spec
from tests.helpers.replays import FormulaMeasurer, write_space

TALL = Input({"m": 4096, "n": 64})


@pytest.fixture
def planned(tmp_path):
    """The plan of a campaign with these options, in the same database each time; with `runs`, the
    campaign runs as well."""
    space = load_spec(write_space(tmp_path))

    def plan(runs=False, **options):
        chosen = {"space": space, "database": str(tmp_path / "r.db"), "test_limit": 2} | options
        devices = {"": FormulaMeasurer()}, "a test"
        carry_out = tuned if runs else open_campaign
        display = ProgressDisplay(Console(quiet=True), quiet=True)
        with (
            mock.patch("harness.api.running.open_measurers", return_value=devices),
            carry_out(read_request(TuneOptions(**chosen)), display) as done,
        ):
            return done.campaign.plan

    return plan


def test_a_plan_has_all_that_the_options_say_and_the_device_gives(planned):
    plan = planned(
        inputs="m > n", seed_configurations=[{"BLOCK": 64}], max_time_s=60.0, seed=3, cross=False
    )
    assert plan.spec.inputs == (TALL,)
    assert plan.options.seeds == (Config({**plan.spec.default, "BLOCK": 64}),)
    assert plan.options.stop_at is not None
    assert 0 < plan.options.stop_at - time.monotonic() <= 60
    assert (plan.options.test_limit, plan.options.seed, plan.cross) == (2, 3, False)
    assert (plan.number, plan.ablate, plan.target) == (1, True, None)
    assert plan.options.parallelism == 4
    assert planned(validate=0.3).target == 0.3
    assert planned(parallelism=2).options.parallelism == 2
    assert planned().options.stop_at is None


def test_a_fresh_campaign_has_the_next_number_and_others_go_on(planned):
    assert planned(runs=True).number == 1
    assert planned().number == 1
    assert planned(fresh=True).number == 2
    assert planned(runs=True, fresh=True).number == 2
    assert planned().number == 2


def test_the_campaign_is_chosen_once(planned):
    with mock.patch.object(Store, "choose_campaign", autospec=True, return_value=7) as choose:
        assert planned().number == 7
    assert choose.call_count == 1
