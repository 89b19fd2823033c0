"""Each patch of OpenTuner 0.8.8, by a test that fails without it."""

from __future__ import annotations

import gc
import importlib
import importlib.metadata
import logging
import math
import os
import random
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

from harness.core.errors import HarnessError
from harness.results.transactions import Transactions
from harness.search import patches

patches.apply()

# Imported after the patches, as the search package does it.
opentuner: Any = importlib.import_module("opentuner")
m = opentuner.search.manipulator
technique = opentuner.search.technique
DurableRun: Any = importlib.import_module("harness.search.durable_run").DurableRun
Request: Any = importlib.import_module("harness.search.rows").Request
Result = opentuner.resultsdb.models.Result

Config = dict[str, Any]

DISTINCT = 34
"""Measurements of a run: more than the 30 of most first populations."""


def mixed_parameters() -> list[Any]:
    return [
        m.BooleanParameter("flag"),
        m.EnumParameter("cache", ["default", "ca", "cg", 4]),
        m.IntegerParameter("unroll", 1, 40),
        m.LogIntegerParameter("tile", 1, 500),
        m.PowerOfTwoParameter("block", 16, 1024),
    ]


class Manipulator(m.ConfigurationManipulator):  # type: ignore[misc]
    """OpenTuner's own, with what our search driver asks besides."""

    def draw_unmeasured(self, _measured: object) -> Config:
        drawn: Config = self.random()
        return drawn


def manipulator_of(parameters: list[Any]) -> Any:
    manipulator = Manipulator()
    for parameter in parameters:
        manipulator.add_parameter(parameter)
    return manipulator


def mixed_time_s(config: Config) -> float:
    """A bowl with its least value at unroll 13, tile 100, block 128; a part of it fails."""
    if config["unroll"] * config["block"] > 16384:
        return math.inf
    away: float = abs(config["unroll"] - 13) / 40 + abs(math.log2(config["tile"] / 100)) / 9
    away += abs(math.log2(config["block"]) - 7) / 6 + (config["cache"] != "cg")
    return 1.0 + away + (0.0 if config["flag"] else 0.25)


class OneInput(opentuner.measurement.inputmanager.FixedInputManager):  # type: ignore[misc]
    """The input of a run, in the session, which SQLAlchemy 2 does not do by itself."""

    def create_input(self, desired: Any) -> Any:
        row = super().create_input(desired)
        self.session.add(row)
        self.session.flush()
        return row


class Recorder(opentuner.measurement.MeasurementInterface):  # type: ignore[misc]
    """Measures with a function and remembers."""

    def __init__(self, args: Any, manipulator: Any, time_s: Any) -> None:
        super().__init__(
            args=args,
            manipulator=manipulator,
            objective=opentuner.search.objective.MinimizeTime(),
            input_manager=OneInput(),
        )
        self.time_s = time_s
        self.is_replay = False
        self.measured: list[Config] = []
        self.proposed: list[tuple[str, str]] = []
        self.requests: set[type] = set()

    def run(self, request: Any, _input: Any, _limit: float) -> Any:
        config = dict(request.configuration.data)
        time_s = self.time_s(config)
        self.measured.append(config)
        self.proposed.append((request.requestor, repr(config)))
        self.requests.add(type(request))
        return Result(time=time_s, state="OK" if math.isfinite(time_s) else "ERROR")

    def on_measured(self) -> None:
        """Report nothing."""

    def write(self, _result_ids: Any) -> None:
        """OpenTuner's own rows are enough."""

    def keep_written(self, _written: None) -> None:
        """Remember nothing."""

    def is_time_up(self) -> bool:
        return False


def search(
    name: str | None = None,
    manipulator: Any = None,
    time_s: Any = mixed_time_s,
    *,
    distinct: int = DISTINCT,
    seed: int = 7,
    options: tuple[str, ...] = (),
) -> Recorder:
    """Run one search in memory under a seed; a warning that it raises is an error."""
    command = ["--quiet", "--bail-threshold=5", f"--test-limit={distinct}", *options]
    command += [f"--technique={name}"] if name else []
    args = opentuner.default_argparser().parse_args(command)
    random.seed(seed)
    numpy.random.seed(seed)
    space = manipulator or manipulator_of(mixed_parameters())
    recorder = Recorder(args, space, time_s)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        engine, _ = opentuner.resultsdb.connect("sqlite://")
        store = Transactions(engine)
        try:
            DurableRun(recorder, args, store).main()
        finally:
            store.close()
            engine.dispose()
    return recorder


def registered(name: str) -> Any:
    """The technique that OpenTuner copies at the start of a run."""
    (found,) = (t for t in technique.the_registry if t.name == name)
    return found


def run_python(code: str, cwd: Path) -> str:
    """Run a fresh interpreter in an empty folder, with warnings shown; return all its output."""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", code],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout + done.stderr


# Techniques that are offered


def test_all_registered_techniques_are_offered_but_those_with_a_reason() -> None:
    offered = patches.offered_techniques()
    assert len(offered) + len(patches.NOT_OFFERED) == 43
    assert list(offered) == sorted(set(offered))
    assert "AUCBanditMetaTechniqueA" in offered
    assert not {"test", "test2"} & set(offered)


def test_technique_registered_by_others_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = type("Ours", (technique.PureRandom,), {})(name="ours")
    monkeypatch.setattr(technique, "the_registry", [*technique.the_registry, ours])
    assert "ours" not in patches.offered_techniques()


# The process


def test_apply_twice_patches_once() -> None:
    move = opentuner.search.pso.HybridParticle.move
    patches.apply()
    assert opentuner.search.pso.HybridParticle.move is move


def test_another_opentuner_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "0.8.9")
    with pytest.raises(HarnessError, match=r"0\.8\.8 is needed, found 0\.8\.9.*pip install"):
        patches.require_version()


def test_missing_opentuner_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", nothing)
    with pytest.raises(HarnessError, match="found none"):
        patches.require_version()


def test_import_leaves_logging_alone_and_warns_of_nothing(tmp_path: Path) -> None:
    code = (
        "import logging; before = logging.Formatter\n"
        "from harness.search import patches; patches.apply()\n"
        "import opentuner; opentuner.init_logging(); opentuner.tuningrunmain.init_logging()\n"
        "logging.getLogger('opentuner.search').warning('must not be printed')\n"
        "assert logging.Formatter is before\n"
        "assert not logging.getLogger().handlers\n"
        "print('done')"
    )
    output = run_python(code, tmp_path)
    assert "done\n" in output
    assert "opentuner" not in output
    assert "must not be printed" not in output
    assert list(tmp_path.iterdir()) == []


def test_search_writes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    search(distinct=5)
    assert list(tmp_path.iterdir()) == []
    assert logging.Formatter.__name__ == "Formatter"


def test_no_file_is_left_open() -> None:
    gc.collect()  # what other tests have left
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert opentuner.measurement.driver._cputype()
        gc.collect()
    assert caught == []


# Aliasing


def test_stochastic_mix_moves_the_child_and_leaves_its_parents() -> None:
    enum = m.EnumParameter("cache", ["a", "b", "c"])
    child, mother, father = {"cache": "a"}, {"cache": "b"}, {"cache": "c"}
    enum.opn_stochastic_mix(child, [child, mother, father], [0, 1, 0])
    assert (child, mother, father) == ({"cache": "b"}, {"cache": "b"}, {"cache": "c"})


def test_particle_remembers_its_best_position() -> None:
    random.seed(1)
    space = manipulator_of(mixed_parameters())
    particle = opentuner.search.pso.HybridParticle(space, "op3_cross_OX1")
    best, before = particle.best, dict(particle.best)
    for _ in range(5):
        particle.move(space.random())
    assert particle.best is best
    assert best == before != particle.position


@pytest.mark.parametrize("name", ["ga-base", "ComposableDiffEvolution"])
def test_second_run_on_the_same_manipulator_repeats_the_first(name: str) -> None:
    space = manipulator_of(mixed_parameters())
    assert search(name, space).proposed == search(name, space).proposed


def test_greedy_composable_technique_leaves_the_order_of_parameters() -> None:
    greedy = opentuner.search.composableevolutionarytechniques.GreedyComposableTechnique()
    params = list(range(20))
    greedy.select_parameters(params)
    assert params == list(range(20))


# Python 3


@pytest.mark.parametrize("name", ["MultiNelderMead", "MultiTorczon"])
def test_recycling_technique_replaces_its_worst(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registered(name), "window", 8)
    requestors = {requestor for requestor, _ in search(name, distinct=80).proposed}
    assert any(requestor.endswith(".R3") for requestor in requestors)


def generated_bandits() -> Iterator[Recorder]:
    for seed in range(4):
        yield search(options=("--generate-bandit-technique",), seed=seed)


def test_generated_techniques_run_and_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    # Those of the project's own techniques need its manipulator.
    stock = [t for t in technique.the_registry if type(t).__module__.startswith("opentuner.")]
    monkeypatch.setattr(technique, "the_registry", stock)
    first, second = list(generated_bandits()), list(generated_bandits())
    assert [run.proposed for run in first] == [run.proposed for run in second]
    requestors = {requestor for run in first for requestor, _ in run.proposed}
    assert any(name.startswith("GreedyComposableTechnique;") for name in requestors)
    assert any(name.startswith("RandomThreeParentsComposable") for name in requestors)


def test_operators_are_found_by_the_number_of_their_parents() -> None:
    assert m.composable_operators(m.BooleanParameter, 2) == ["op1_flip", "op1_nop", "op1_randomize"]
    assert "op3_swarm" in m.composable_operators(m.IntegerParameter, 4)
    assert "op1_scale" not in m.composable_operators(m.IntegerParameter, 4)
    assert m.composable_operators(m.IntegerParameter, 0) == []


@pytest.mark.parametrize(
    "name", ["DifferentialEvolution", "ComposableDiffEvolution", "AUCBanditMetaTechniqueA"]
)
def test_seed_repeats_under_another_clock(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = search(name, distinct=60)
    monkeypatch.setattr(time, "time", lambda: 1.0)
    assert search(name, distinct=60).proposed == first.proposed


def test_generated_technique_does_not_depend_on_addresses() -> None:
    composable = opentuner.search.composableevolutionarytechniques
    alive, names = [], set()
    for _ in range(20):
        types = [type(f"Parameter{n}", (m.IntegerParameter,), {}) for n in range(8)]
        alive.append(types)
        space = manipulator_of([t(t.__name__, 1, 9) for t in types])
        random.seed(3)
        names.add(composable.GreedyComposableTechnique.generate_technique(space).name)
    assert len(names) == 1


# Techniques


def test_pattern_search_measures_the_point_it_starts_from() -> None:
    found = search("PatternSearch", distinct=12)
    first, second = found.measured[:2]
    assert sum(first[name] != second[name] for name in first) == 1


def test_binary_ga_runs_on_a_space_of_one_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registered("BinaryGA"), "population_size", 6)
    space = manipulator_of([m.IntegerParameter("x", 1, 300)])
    assert len(search("BinaryGA", space, lambda config: config["x"], distinct=12).measured) >= 12


def test_requests_are_no_objects_of_the_database() -> None:
    assert search(distinct=5).requests == {Request}


# Parameters


def test_boolean_stays_a_python_boolean_under_a_swarm() -> None:
    flag = m.BooleanParameter("flag")
    config = {"flag": True}
    flag.op3_swarm(config, {"flag": False}, {"flag": True})
    assert type(config["flag"]) is bool
    flag.set_value(config, numpy.bool_(False))
    assert config["flag"] is False


@pytest.mark.parametrize(
    "parameter", [m.IntegerParameter("x", 0, 1), m.BooleanParameter("x")], ids=["int", "bool"]
)
def test_fast_particle_raises_no_warning(parameter: Any) -> None:
    config = {"x": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parameter.op3_swarm(config, {"x": 0}, {"x": 0}, velocity=-1e6, sigma=0.0)
    assert config["x"] == 0


def test_log_integer_starts_whole_and_counts_its_values() -> None:
    tile = m.LogIntegerParameter("tile", 3, 500)
    assert repr(tile.seed_value()) == "3"
    assert tile.search_space_size() == 498


@pytest.mark.parametrize("exponent", range(63))
def test_every_power_of_two_is_a_legal_bound(exponent: int) -> None:
    block = m.PowerOfTwoParameter("block", 1, 2**exponent)
    config = {"block": 1}
    block.set_value(config, exponent)
    assert config == {"block": 2**exponent}
    assert block.get_value(config) == exponent
    assert block.legal_range(config) == (0, exponent)
    assert block.search_space_size() == exponent + 1


@pytest.mark.parametrize("bounds", [(0, 8), (3, 8), (1, 12)])
def test_bound_that_is_no_power_of_two_is_refused(bounds: tuple[int, int]) -> None:
    with pytest.raises(HarnessError, match="is not a power of two"):
        m.PowerOfTwoParameter("block", *bounds)


def test_scaled_parameter_is_clamped_on_the_scale_it_is_searched_on() -> None:
    block = m.PowerOfTwoParameter("block", 16, 1024)
    config = {"block": 16}
    block.op3_difference(config, {"block": 1024}, {"block": 16})
    assert config == {"block": 16}
    block.op1_scale(config, 9)
    assert config == {"block": 1024}
    block.opn_sum(config, {"block": 16}, {"block": 16})
    assert config == {"block": 256}
