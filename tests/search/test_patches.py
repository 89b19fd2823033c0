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
DurableRun: Any = importlib.import_module("harness.search.drivers").DurableRun
Request: Any = importlib.import_module("harness.search.rows").Request
Result = opentuner.resultsdb.models.Result

Config = dict[str, Any]


class Manipulator(m.ConfigurationManipulator):  # type: ignore[misc]
    """OpenTuner's own, with what our search driver asks besides."""

    def draw_unmeasured(self, _measured: object) -> Config:
        drawn: Config = self.random()
        return drawn


def mixed_space() -> Any:
    manipulator = Manipulator()
    for parameter in (
        m.BooleanParameter("flag"),
        m.EnumParameter("cache", ["default", "ca", "cg", 4]),
        m.IntegerParameter("unroll", 1, 40),
        m.LogIntegerParameter("tile", 1, 500),
        m.PowerOfTwoParameter("block", 16, 1024),
    ):
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

    def __init__(self, args: Any, manipulator: Any) -> None:
        super().__init__(
            args=args,
            manipulator=manipulator,
            objective=opentuner.search.objective.MinimizeTime(),
            input_manager=OneInput(),
        )
        self.is_replay = False
        self.proposed: list[tuple[str, str]] = []
        self.requests: set[type] = set()

    def run(self, request: Any, _input: Any, _limit: float) -> Any:
        config = dict(request.configuration.data)
        time_s = mixed_time_s(config)
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


def search(name: str | None = None, *, distinct: int) -> Recorder:
    """Run one search in memory under a seed; a warning that it raises is an error."""
    command = ["--quiet", "--bail-threshold=5", f"--test-limit={distinct}"]
    command += [f"--technique={name}"] if name else []
    args = opentuner.default_argparser().parse_args(command)
    random.seed(7)
    numpy.random.seed(7)
    recorder = Recorder(args, mixed_space())
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


def test_techniques_that_are_offered_are_registered_once() -> None:
    names = [t.name for t in technique.all_techniques()[0]]
    assert [names.count(name) for name in patches.OFFERED] == [1] * len(patches.OFFERED)
    assert "AUCBanditMetaTechniqueA" in patches.OFFERED


# The process


def test_apply_twice_patches_once() -> None:
    count = opentuner.search.differentialevolution.time
    patches.apply()
    assert opentuner.search.differentialevolution.time is count


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


# Techniques


@pytest.mark.parametrize(
    "name", ["DifferentialEvolution", "AUCBanditMetaTechniqueA", "AUCBanditMetaTechniqueB"]
)
def test_seed_repeats_under_another_clock(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = search(name, distinct=60)
    monkeypatch.setattr(time, "time", lambda: 1.0)
    assert search(name, distinct=60).proposed == first.proposed


def test_requests_are_no_objects_of_the_database() -> None:
    assert search(distinct=5).requests == {Request}
