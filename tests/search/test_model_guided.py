"""The search by a model: what it learns from, what it asks for, and when it trusts a prior."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

from harness.core.records import Config, Input
from harness.models.transfer_prior import SourceTask, TransferData
from harness.search.manipulator import SpaceManipulator
from harness.search.techniques.gaussian_process import GaussianProcess
from harness.search.techniques.memory import MOST_POINTS, Memory
from harness.space import ConstrainedSpace
from harness.space_file import Parameter
from tests.helpers.replays import FormulaMeasurer, make_spec, ran
from tests.helpers.results_examples import query

VALLEY = """\
name: valley
kernel: {function: kernel, source: kernel.cl, host: kernel.py}
parameters:
  A: {type: power_of_two, min: 1, max: 1024, default: 1}
  B: {type: integer, min: 1, max: 16, default: 1}
  C: {values: [1, 3, 2], role: choice, default: 1}
  D: {type: integer, min: 0, max: 3, default: 0}
constraints: [A * B <= 4096]
launch: {group: [A, 1], grid: [n * B, C + D]}
inputs: {features: [n], values: [{n: 1}]}
"""
GIVEN = Input({"n": 1})

Seconds = Callable[[Config], float]


def valley_s(config):
    """A valley that is best at A=64, B=5, C=3, D=0."""
    a, b, c, d = (int(str(config[name])) for name in "ABCD")
    steps = abs(a.bit_length() - 7) + abs(b - 5) / 3 + (0 if c == 3 else 1.5) + d / 2
    return 1e-3 * (1 + steps)


BEST_S = 1e-3


def inverse_s(config):
    """The best is the slowest."""
    return 1e-6 / valley_s(config)


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    spec = make_spec(tmp_path_factory.mktemp("valley"), VALLEY)
    return ConstrainedSpace.of(spec, GIVEN, None)


def other_device(space, seconds, device=1.0):
    """All times of a space, measured on another device."""
    times_s = np.array([device * seconds(config) for config in space])
    return TransferData(GIVEN, (SourceTask(space.encode_all(list(space)), times_s),))


class Guided:
    """A technique beside a driver that only knows what waits for results."""

    def __init__(self, space, transfer=None, seed=0):
        self.technique = GaussianProcess()
        self.technique.manipulator = SpaceManipulator(space, random.Random(seed), transfer)
        self.technique.driver = SimpleNamespace(pending=[], taken=set())

    def add_result(self, config, time_s):
        """Pass a result on, whichever technique asked for it."""
        self.technique.driver.taken.add(config)
        configuration = SimpleNamespace(config=config)
        self.technique.on_result(SimpleNamespace(configuration=configuration, time=time_s))

    def ask(self):
        """Return the next proposal."""
        proposal = self.technique.desired_configuration()
        return None if proposal is None else Config(proposal)

    def generation(self, size):
        """So many proposals that wait for their results together."""
        driver = self.technique.driver
        for _ in range(size):
            proposal = self.ask()
            assert proposal is not None
            driver.pending.append(SimpleNamespace(configuration=SimpleNamespace(config=proposal)))
            driver.taken.add(proposal)
        asked = [request.configuration.config for request in driver.pending]
        driver.pending.clear()
        return asked

    def search(self, seconds, tests):
        """The seconds of so many proposals, one at a time."""
        for _ in range(tests):
            proposal = self.ask()
            assert proposal is not None
            self.add_result(proposal, seconds(proposal))
            yield seconds(proposal)


# ------------------------------------------------------------------------- what it finds


def best_after(tests, technique, seed, folder):
    spec, measurer = make_spec(folder, VALLEY), FormulaMeasurer(lambda _, c: valley_s(c))
    options = {"technique": [technique], "test_limit": tests, "seed": seed}
    (report,) = ran(spec, folder / f"{technique}{seed}.db", measurer, **options).reports
    assert report.best is not None
    return report.best.time_s


def test_the_model_finds_the_best_of_a_valley_that_draws_miss(tmp_path):
    seeds = range(2)
    modelled = [best_after(40, "GaussianProcess", seed, tmp_path) for seed in seeds]
    drawn = [best_after(40, "UniformRandom", seed, tmp_path) for seed in seeds]
    assert modelled == [BEST_S] * 2
    assert min(drawn) > BEST_S


def test_it_learns_from_results_that_others_asked_for(space):
    guided = Guided(space)
    for config in space.sample(random.Random(1), 60):
        guided.add_result(config, valley_s(config))
    proposal = guided.ask()
    assert proposal is not None
    assert np.mean([valley_s(other) < valley_s(proposal) for other in space]) < 0.02


def test_a_failure_is_not_proposed_again_and_its_neighbours_are_avoided(space):
    def half_fails_s(config):
        return float("inf") if config["C"] == 3 else valley_s(config)

    found = list(Guided(space).search(half_fails_s, 60))
    failures = sum(time_s == float("inf") for time_s in found)
    assert min(found) == BEST_S + 1.5e-3
    assert failures < 20


def test_where_next_to_nothing_works_it_goes_on_and_repeats_nothing(space):
    guided, working = Guided(space), set(space.sample(random.Random(8), 40))
    asked = []
    for _ in range(40):
        (config,) = guided.generation(1)
        guided.add_result(config, 1e-3 if config in working else float("inf"))
        asked.append(config)
    assert len(set(asked)) == 40
    assert len(working & set(asked)) < 3


# ----------------------------------------------------------------------------- pending


@pytest.mark.parametrize("results", [0, 1, 30])
def test_proposals_that_wait_for_results_are_not_proposed_again(results, space):
    guided = Guided(space)
    known = space.sample(random.Random(2), results)
    for config in known:
        guided.add_result(config, valley_s(config))
    asked = guided.generation(8)
    assert len({*known, *asked}) == results + 8
    assert all(space.is_legal(config) for config in asked)


# ------------------------------------------------------------------------------- prior


def test_the_favourites_of_a_prior_come_first_in_their_order(space):
    guided = Guided(space, other_device(space, valley_s, device=7.0))
    guided.add_result(space.default, valley_s(space.default))
    asked = guided.generation(3)
    fastest = sorted(map(valley_s, space))[:3]
    assert [valley_s(config) for config in asked] == fastest


def test_favourites_that_fail_are_followed_by_the_next(space):
    guided = Guided(space, other_device(space, valley_s))
    asked = []
    for _ in range(10):
        config = guided.ask()
        assert config is not None
        guided.add_result(config, float("inf"))
        asked.append(valley_s(config))
    assert asked == sorted(map(valley_s, space))[:10]


def test_a_prior_that_misleads_is_dropped_and_the_best_is_found(space):
    guided = Guided(space, other_device(space, inverse_s))
    found = list(guided.search(valley_s, 60))
    assert found[0] == max(map(valley_s, space))
    assert min(found) == BEST_S


def test_a_prior_that_is_right_but_for_its_unit_and_some_noise_is_kept(space):
    rng = random.Random(5)
    transfer = other_device(space, lambda config: 300 * valley_s(config) * rng.uniform(0.7, 1.4))
    guided = Guided(space, transfer)
    found = list(guided.search(valley_s, 20))
    assert min(found) == BEST_S


def test_an_empty_prior_is_no_hindrance(space):
    """All source rows are illegal here."""
    positions = np.array([[10, 15, 0, 0], [10, 14, 0, 0]], dtype=np.int32)
    transfer = TransferData(GIVEN, (SourceTask(positions, np.array([1.0, 2.0])),))
    assert min(Guided(space, transfer).search(valley_s, 60)) == BEST_S


def test_a_space_of_one_point_and_inputs_of_words_has_no_prior():
    one = ConstrainedSpace([Parameter("BLOCK", "ordered", (64,), "launch", 64)])
    tall = SourceTask(one.encode_all([one.default]), np.array([1.0]), Input({"kind": "tall"}))
    guided = Guided(one, TransferData(Input({"kind": "wide"}), (tall,)))
    assert guided.ask() == one.default
    guided.add_result(one.default, 1.0)
    assert guided.ask() is None


# -------------------------------------------------------------------------------- runs


@pytest.mark.parametrize(("seed", "digest"), [(0, "d81b5f225fa3c3bc"), (1, "eaea61d35d44472e")])
def test_auto_proposes_for_a_seed_the_same(seed, digest, tmp_path):
    """Two inputs, of which the second learns from the first. Where a change of the proposals is
    meant, `python -m benchmarks.search` says what it is worth."""
    asked = FormulaMeasurer()
    options = {"technique": ["auto"], "test_limit": 24, "seed": seed}
    ran(make_spec(tmp_path), tmp_path / "r.db", asked, **options)
    text = "".join(f"{problem.json} {config.json}\n" for problem, config in asked.asked)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == digest


def test_a_uniform_draw_has_another_name(tmp_path, monkeypatch):
    monkeypatch.setattr(Memory, "unseen", lambda self, _: self.space.encode_all([]))
    ran(make_spec(tmp_path), tmp_path / "r.db", technique=["GaussianProcess"], test_limit=12)
    drawn = query(tmp_path / "r.db", "select distinct requestor from desired_result")
    assert set(drawn) == {("seed",), ("GaussianProcess (uniform)",)}


# ------------------------------------------------------------------------------ memory


def remembered(space, configs):
    memory = Memory(space, np.random.default_rng(0), None)
    for config in configs:
        memory.add(config, valley_s(config))
    return memory


def test_a_sample_has_all_results_and_of_too_many_the_fastest_and_others(space):
    few, many = (space.sample(random.Random(3), count) for count in (200, 1000))
    assert sorted(remembered(space, few).sample().times_s) == sorted(map(valley_s, few))
    times_s = sorted(map(valley_s, many))
    sample = remembered(space, many).sample()
    assert len(sample.times_s) == len(np.unique(sample.points, axis=0)) == MOST_POINTS
    assert sorted(sample.times_s)[:90] == times_s[:90]
    assert max(sample.times_s) > times_s[700]


def test_points_of_a_sample_are_those_of_their_times(space):
    configs = space.sample(random.Random(4), 300)
    memory = remembered(space, configs)
    points = memory.encoder.points(space.encode_all(configs))
    by_point = {point.tobytes(): valley_s(c) for point, c in zip(points, configs, strict=True)}
    sample = memory.sample()
    found = [by_point[point.tobytes()] for point in sample.points]
    assert found == sample.times_s.tolist()
