"""A written dispatcher, measured again: which choices hold, lost, or are wrong."""

import dataclasses
import shutil
from types import SimpleNamespace

import pytest

from harness.api import rechecking
from harness.core.records import Outcome
from harness.space_file.workload import read_workload
from tests.helpers.commands import dispatch
from tests.helpers.commands import recheck as recheck_command
from tests.helpers.replays import BLOCKS_AND_TILES, FormulaMeasurer, make_spec, ran, small_space

INPUTS = [2**power for power in range(1, 9)]
SPACE = small_space(BLOCKS_AND_TILES, *INPUTS)


def time_s(problem, config):
    """Small inputs are fastest with BLOCK=16, large ones with 64."""
    best = 16 if problem["n"] < 20 else 64
    return 1e-4 * (1 if config["BLOCK"] == best else 2) * config["TILE"]


def later_s(problem, config):
    """A new driver makes BLOCK=16 slower by 1.3, and everything slower on large inputs."""
    if config["BLOCK"] == 16:
        return 1.3 * time_s(problem, config)
    return time_s(problem, config) * (0.5 if problem["n"] < 20 else 2)


class WrongMeasurer(FormulaMeasurer):
    """A new compiler makes BLOCK=16 wrong."""

    def measure_interleaved(self, *args, **options):
        """Return the same again, with wrong results."""
        measurements = super().measure_interleaved(*args, **options)
        for index, measured in enumerate(measurements):
            if measured.config["BLOCK"] == 16:
                wrong = {"outcome": Outcome.WRONG_RESULT, "timing": None, "message": "y[0] is 1"}
                measurements[index] = dataclasses.replace(measured, **wrong)
        return measurements


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a space and `out`, its dispatcher: BLOCK=16 for small inputs, 64 for others."""
    folder = tmp_path_factory.mktemp("recheck")
    ran(make_spec(folder, SPACE), folder / "r.db", FormulaMeasurer(time_s, interleaves=True))
    words = f"{folder}/r.db --choice tree -o {folder}/out --spec {folder}/space.yaml".split()
    assert dispatch(words) == 0
    return folder


@pytest.fixture
def recheck(folder, monkeypatch, capsys):
    """Checks the dispatcher again by a measurer; returns the exit code and what is printed."""

    def of(measurer, *more):
        monkeypatch.setattr(rechecking, "open_measurer", lambda *_: (measurer, "a test"))
        words = f"{folder}/out", "--spec", f"{folder}/space.yaml"
        return recheck_command([*words, *more]), capsys.readouterr().out

    return of


def test_unchanged_times_hold_on_each_leaf(recheck, monkeypatch):
    """Private names of the folder's module may change: earlier folders have the earlier ones."""
    load = rechecking.load_module

    def load_public(*args):
        names = vars(load(*args)).items()
        return SimpleNamespace(**{name: value for name, value in names if name[0] != "_"})

    monkeypatch.setattr(rechecking, "load_module", load_public)
    status, printed = recheck(FormulaMeasurer(time_s, interleaves=True))
    assert (status, printed.count("holds")) == (0, 2)
    assert "2 to 16" in printed
    assert "32 to 256" in printed


def test_its_calls_are_not_counted(recheck, tmp_path, monkeypatch):
    load, loaded = rechecking.load_module, []

    def load_and_note(*args):
        loaded.append(load(*args))
        return loaded[-1]

    monkeypatch.setattr(rechecking, "load_module", load_and_note)
    monkeypatch.setenv("HARNESS_WORKLOAD", str(tmp_path))
    recheck(FormulaMeasurer(time_s, interleaves=True))
    loaded[0].flush_calls()
    assert list(tmp_path.iterdir()) == []


def test_what_lost_is_named_and_becomes_a_workload(recheck, tmp_path):
    fallen = tmp_path / "fallen.csv"
    status, printed = recheck(FormulaMeasurer(later_s, interleaves=True), "-o", str(fallen))
    assert (status, printed.count("holds")) == (1, 1)
    assert "1.30x lost to BLOCK=64" in printed
    assert f"--inputs-from {fallen} --cover 1" in printed
    spec = make_spec(tmp_path, SPACE)
    calls = read_workload(fallen, spec.name, spec.features, spec.inputs).calls
    assert [problem["n"] for problem in calls] == [2, 4, 8, 16]


def test_wrong_results_are_named(recheck):
    status, printed = recheck(WrongMeasurer(time_s, interleaves=True))
    assert status == 1
    assert "wrong on (n=" in printed


def test_a_leaf_without_time_is_not_measured_and_does_not_fall(recheck):
    measurer = FormulaMeasurer(later_s, interleaves=True)
    status, printed = recheck(measurer, "--max-time", "0.000001s")
    assert (status, printed.count("not measured")) == (0, 2)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["{moved}"], "--spec FILE"),
        (["{folder}"], "no folder of a dispatcher"),
        (["{folder}/out", "--spec", "{other}/space.yaml"], "is not what"),
        (["{folder}/out", "-o", "{folder}/space.yaml"], "space.yaml"),
    ],
)
def test_what_cannot_be_rechecked_is_refused(words, expected, folder, tmp_path, capsys):
    make_spec(tmp_path, SPACE)
    (tmp_path / "kernel.cl").write_text("kernel BLOCK TILE of another kind")
    moved = tmp_path / "moved"
    shutil.copytree(folder / "out", moved)
    document = next(moved.glob("*/*.json"))
    document.write_text(document.read_text().replace("/r.db", "/gone.db"))
    named = [word.format(folder=folder, other=tmp_path, moved=moved) for word in words]
    assert recheck_command(named) == 2
    assert expected in capsys.readouterr().err
