"""Each patch of OpenTuner 0.8.8, by a test that fails without it."""

import importlib
import importlib.metadata
import logging
import os
import random
import subprocess
import sys
import time
from logging.config import DictConfigurator
from types import SimpleNamespace

import pytest

from harness.core.errors import HarnessError
from harness.core.records import Input
from harness.search import patches, techniques
from harness.search.manipulator import SpaceManipulator
from harness.space import ConstrainedSpace
from tests import ROOT
from tests.helpers.replays import FormulaMeasurer, make_spec, ran

patches.apply()

# Imported after the patches, as the search package does it.
opentuner = importlib.import_module("opentuner")
technique = opentuner.search.technique


# Techniques that are offered


def test_techniques_that_are_offered_are_registered_once():
    names = [t.name for t in technique.all_techniques()[0]]
    assert [names.count(name) for name in techniques()] == [1] * len(techniques())
    assert "AUCBanditMetaTechniqueA" in techniques()


# The process


def test_another_opentuner_version_is_refused(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "0.8.9")
    with pytest.raises(HarnessError, match=r"0\.8\.8 .*0\.8\.9"):
        patches.apply.__wrapped__()


@pytest.mark.slow
def test_import_leaves_logging_alone_and_warns_of_nothing(tmp_path):
    code = (
        "import logging; before = logging.Formatter\n"
        "from harness.search import patches; patches.apply()\n"
        "logging.getLogger('opentuner.search').warning('must not be printed')\n"
        "assert logging.Formatter is before\n"
        "assert not logging.getLogger().handlers\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-W", "always", "-c", code]
    output = subprocess.check_output(
        words, cwd=tmp_path, env=environment, stderr=subprocess.STDOUT, text=True
    )
    assert "opentuner" not in output
    assert "must not be printed" not in output
    assert list(tmp_path.iterdir()) == []


def test_search_writes_only_its_database(tmp_path, monkeypatch):
    spec, here = make_spec(tmp_path), tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    ran(spec, tmp_path / "r.db", test_limit=5)
    assert list(here.iterdir()) == []
    assert logging.Formatter.__name__ == "Formatter"


# Techniques


@pytest.mark.parametrize("name", ["DifferentialEvolution", "AUCBanditMetaTechniqueA"])
def test_seed_repeats_under_another_clock(name, tmp_path, monkeypatch):
    evolution = next(t for t in technique.the_registry if t.name.startswith("Differential"))
    monkeypatch.setattr(evolution, "population_size", 6)  # for some generations of few tests
    asked = []
    for place in ("one.db", "other.db"):
        measurer = FormulaMeasurer()
        ran(make_spec(tmp_path), tmp_path / place, measurer, technique=[name], test_limit=25)
        asked.append(measurer.asked)
        monkeypatch.setattr(time, "time", lambda: 1.0)
    assert asked[0] == asked[1]


def test_requests_of_harness_driver_are_no_objects_of_the_database():
    values = {"configuration": None, "requestor": "a", "generation": 0, "request_date": None}
    assert type(technique.DesiredResult(**values, tuning_run=None)) is patches.Request


def test_a_configuration_that_was_not_measured_is_the_slowest():
    objective = opentuner.search.objective.MinimizeTime()
    times = {"measured": [SimpleNamespace(time=1.0)], "not measured": []}
    objective.driver = SimpleNamespace(results_query=lambda config: times[config])
    assert objective.config_compare("measured", "not measured") < 0
    assert objective.config_compare("not measured", "measured") > 0
    assert objective.config_compare("not measured", "not measured") == 0


def test_a_swarm_moves_the_particle_and_not_its_parents():
    from opentuner.search.manipulator import EnumParameter

    particle, parent = {"LAYOUT": "row"}, {"LAYOUT": "block"}
    layout = EnumParameter("LAYOUT", ["row", "block"])
    layout.opn_stochastic_mix(particle, [particle, parent], [0, 1])
    assert (particle, parent) == ({"LAYOUT": "block"}, {"LAYOUT": "block"})


def test_a_swarm_sets_booleans_of_python(tmp_path):
    space = ConstrainedSpace.of(make_spec(tmp_path), Input({"m": 64, "n": 4096}), None)
    manipulator = SpaceManipulator(space, random.Random(0))
    (cache,) = [parameter for parameter in manipulator.params if parameter.name == "CACHE"]
    config = manipulator.seed_config()
    cache.op3_swarm(config, manipulator.random(), manipulator.random())
    assert type(config["CACHE"]) is bool


# OpenTuner's own driver; tests/search/test_interface.py runs it


def test_the_times_of_its_log_are_seconds():
    words = opentuner.tuningrunmain.the_logging_config["formatters"]["console"]
    formatter = DictConfigurator({"version": 1}).configure_formatter(words)
    record = logging.makeLogRecord({"msg": "now"})
    record.relativeCreated = 5000.0
    assert formatter.format(record).startswith("[     5s]")
