"""What every technique that is offered promises, whoever wrote it: OpenTuner's and our own."""

import itertools
import time
from dataclasses import dataclass

import pytest

from harness.core.records import Config, Input
from harness.results import RunPlan, Store, writing
from harness.results.ledger import Ledger
from harness.search import (
    EndReason,
    InputInterface,
    InputSearch,
    SearchOptions,
    search_input,
    sole_technique,
    techniques,
)
from harness.search.driver import UNMEASURED
from harness.space import ConstrainedSpace
from tests.helpers.replays import SPACE, FormulaMeasurer, Tests, formula_s, make_spec


def space_of(parameters, constraint="n == 1", group="BLOCK", grid="1"):
    """A space of one input, n=1, with these parameters."""
    listed = "".join(f"  {name}: {{{values}}}\n" for name, values in parameters.items())
    return (
        "name: drawn\nkernel: {function: kernel, source: kernel.cl, host: kernel.py}\n"
        f"parameters:\n{listed}constraints: [{constraint}]\n"
        f'launch: {{group: [{group}], grid: ["{grid}"]}}\n'
        "inputs: {features: [n], values: [{n: 1}]}\n"
    )


TO_3 = "type: integer, min: 1, max: 3, default: 1"
SMALL = space_of(
    {"BLOCK": "values: [16, 64, 256], default: 64", "UNROLL": TO_3}, "UNROLL * 16 <= BLOCK"
)
ONE_POINT = space_of(
    {"BLOCK": "values: [64], default: 64", "CACHE": "values: [true], role: choice, default: true"}
)
CONDITIONAL = space_of(
    {
        "BLOCK": "type: power_of_two, min: 16, max: 256, role: launch, default: 64",
        "LAYOUT": "values: [row, column, tiled], role: choice, default: row",
        "TILE": "values: [1, 2, 4, 8], default: 2, when: LAYOUT == 'tiled'",
        "CACHE": "type: boolean, default: false, when: TILE > 2",
        "UNROLL": "type: integer, min: 1, max: 8, default: 1, when: BLOCK >= 64",
        "DEPTH": "type: log_integer, min: 1, max: 64, default: 8, when: LAYOUT != 'row'",
    },
    "UNROLL <= BLOCK / 16",
    grid="n",
)
# No two legal configurations differ in one parameter only, so that one of the nearest is chosen by
# chance in place of an illegal proposal, as in a recording with gaps.
APART = space_of(
    dict.fromkeys(("BLOCK", "TILE", "UNROLL", "DEPTH"), TO_3),
    "abs(BLOCK - TILE) + abs(UNROLL - DEPTH) == 0",
)
KINDS = (
    "type: integer, min: 1, max: 8, default: 1",
    "type: boolean, default: false",
    "values: [row, column, block], default: row",
    "type: power_of_two, min: 1, max: 64, default: 4",
)
HUNDRED = space_of(
    {f"P{number}": KINDS[number % 4] for number in range(100)},
    "P0 * P3 <= P4 * 16",
    group="P0",
    grid=" + ".join(f"P{number}" for number in range(0, 100, 4)),
)

WALK = "HillClimb"
"""It leaves nothing to chance, and ends where no parameter can rise, whatever was not measured."""

# A population that is larger than the test's budget; smaller, it comes to a second generation.
SMALL_POPULATION = {"DifferentialEvolution_20_100": "population_size", "pso-OX1": "N"}


@dataclass(frozen=True)
class Ended:
    """A search that has ended: what it measured, in order, the best, the reason, who asked."""

    configs: list[Config]
    best: Config | None
    reason: EndReason
    counted: int
    requestors: set[str]


class Searches:
    """Searches of one technique, each a run of its own in one database in memory."""

    numbers = itertools.count(1)

    def __init__(self, store, specs, spaces, technique):
        self._store = store
        self._specs = specs
        self._technique = technique
        self.spaces = spaces

    def search(self, name, limit, times=formula_s, seed=0):
        """Search a space from its default, unless the technique starts where it says."""
        spec, space, measurer = self._specs[name], self.spaces[name], FormulaMeasurer(times)
        options = SearchOptions((self._technique,), limit, seed, "contract", parallelism=3)
        plan = RunPlan(
            spec,
            measurer.environment,
            spec.inputs[0],
            self._technique,
            seed,
            limit,
            options.parallelism,
            options.label,
            campaign=next(self.numbers),
        )
        seeds = [] if options.is_self_contained else [space.default]
        tests = Tests()
        interface = InputInterface(spec, plan.problem, space, measurer)
        search = InputSearch(plan, options, interface, self._store, Ledger(), tests.test, seeds)
        done = search_input(search)
        requestors = {answer.requestor for answer in self._store.answers(done.run_id)}
        best = tests[-1].best and tests[-1].best.config
        asked = [config for _, config in measurer.asked]
        return Ended(asked, best, done.ended, done.tests, requestors)


@pytest.fixture(scope="module")
def store():
    with writing("sqlite://") as engine:
        store = Store(engine)
        yield store
        store.close()


@pytest.fixture(scope="module")
def specs(tmp_path_factory):
    texts = {
        "formula": SPACE,
        "small": SMALL,
        "apart": APART,
        "one": ONE_POINT,
        "conditional": CONDITIONAL,
        "hundred": HUNDRED,
    }
    with pytest.MonkeyPatch.context() as patch:
        names = " ".join(f"P{number}" for number in range(100))
        patch.setattr(
            "tests.helpers.replays.KERNEL", f"kernel BLOCK TILE UNROLL DEPTH LAYOUT CACHE {names}"
        )
        return {
            name: make_spec(tmp_path_factory.mktemp(name), text) for name, text in texts.items()
        }


@pytest.fixture(scope="module")
def spaces(specs):
    """The legal configurations of the first input of each space."""
    return {name: ConstrainedSpace.of(spec, spec.inputs[0], None) for name, spec in specs.items()}


VARIANTS = {
    *("NormalGreedyMutation10", "NormalGreedyMutation20", "UniformGreedyMutation10"),
    *("UniformGreedyMutation20", "DifferentialEvolutionAlt", "RightTorczon", "RegularNelderMead"),
    *("ga-CX", "ga-OX3", "ga-PMX", "ga-PX", "pso-CX", "pso-OX3", "pso-PMX", "pso-PX", "test2"),
}
"""OpenTuner's techniques that differ from another one in a number, a start or an operator."""


def offered():
    """The names of all techniques; those of the variants are marked slow."""
    for name in techniques():
        marks = [pytest.mark.slow] if name in VARIANTS else []
        yield pytest.param(name, marks=marks)


@pytest.fixture(params=offered())
def technique(request, monkeypatch):
    from opentuner.search.technique import the_registry  # patched, since harness.search is here

    name = request.param
    registered = next((t for t in the_registry if t.name == name), None)
    if name in SMALL_POPULATION:
        monkeypatch.setattr(registered, SMALL_POPULATION[name], 8)
    return name


@pytest.fixture
def searches(store, specs, spaces, technique):
    return Searches(store, specs, spaces, technique)


def smooth_s(_, config):
    """Any order of any configurations."""
    return 1e-3 * (1 + int(config.digest[:6], 16) / 0x1000000)


def failing_s(*_):
    return float("inf")


# --------------------------------------------------------------------------------------------


def test_configurations_are_legal_and_repeat_by_seed(searches, technique):
    space = searches.spaces["formula"]
    first, again = (searches.search("formula", 10) for _ in range(2))
    assert first.configs == again.configs
    with_another_seed = searches.search("formula", 5, seed=1)
    assert (with_another_seed.configs == first.configs[:5]) == (technique == WALK)
    assert first.reason is EndReason.LIMIT
    assert first.counted == 10
    assert len(first.configs) == len(set(first.configs))
    problem = Input({"m": 64, "n": 4096})
    assert first.best == min(first.configs, key=lambda config: formula_s(problem, config))
    assert all(space.is_legal(config) for config in first.configs)
    # It is kept who asked.
    if sole_technique([technique]):
        assert first.requestors == {technique}
    else:
        assert "seed" in first.requestors
        assert first.requestors - {"seed", UNMEASURED}


@pytest.mark.parametrize("name, times", [("small", failing_s), ("apart", smooth_s)])
def test_a_small_space_is_measured_whole_and_then_the_run_ends(searches, technique, name, times):
    space, ended = searches.spaces[name], searches.search(name, 1000, times)
    assert len(ended.configs) == len(set(ended.configs))
    if technique == WALK:
        assert set(ended.configs) < set(space)
        assert ended.reason is EndReason.TECHNIQUE
    else:
        assert set(ended.configs) == set(space)
        assert ended.reason is EndReason.EXHAUSTED


def test_a_space_of_one_point_is_done_after_one_test(searches):
    ended = searches.search("one", 10, smooth_s)
    assert ended.configs == list(searches.spaces["one"])
    assert ended.reason is EndReason.EXHAUSTED


def test_a_hundred_parameters_are_no_burden(searches):
    """4 tests take 0.1 s or so; the bound is for what grows with the space."""
    space, begun_s = searches.spaces["hundred"], time.process_time()
    ended = searches.search("hundred", 4, smooth_s)
    assert time.process_time() - begun_s < 15
    assert len(set(ended.configs)) == len(ended.configs) == 4
    assert all(space.is_legal(config) for config in ended.configs)


def test_configurations_that_differ_in_nothing_that_matters_are_one(searches):
    space, ended = searches.spaces["conditional"], searches.search("conditional", 8, smooth_s)
    assert len(ended.configs) == len(set(ended.configs)) == 8
    assert all(space.canonical(config) == config for config in ended.configs)
    assert all(space.is_legal(config) for config in ended.configs)
