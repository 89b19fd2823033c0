"""The examples of Python: a notebook, an analysis, and a check for continuous integration."""

import json
import linecache
from contextlib import closing
from pathlib import Path

import pytest

import harness
from harness.core.errors import UsageError
from harness.core.modules import load_module
from harness.core.records import Input, Outcome
from harness.measure.devices import Backend
from harness.measure.kernels.measurer import KernelMeasurer
from harness.space import ConstrainedSpace
from tests import ROOT
from tests.helpers.replays import RECORDED, SPACE, FormulaMeasurer, write_recording, write_space

EXAMPLES = ROOT / "examples"
NOTEBOOK = EXAMPLES / "tune_in_a_notebook.ipynb"


def cells(kind):
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    return ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == kind]


def run_cell(number, text, names):
    """Run a cell as IPython does, which keeps its lines for `inspect`."""
    file = f"<cell {number} of the notebook>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), names)


def example(name):
    module = load_module(EXAMPLES / name, "example")
    assert module is not None
    return module


@pytest.fixture
def measure_by(monkeypatch):
    """Makes all that tunes measure by this measurer."""

    def measure(measurer):
        opened = {"": measurer}, "a test"
        monkeypatch.setattr("harness.api.running.open_measurers", lambda *_: opened)

    return measure


def test_a_plot_says_that_everything_fails(tmp_path, measure_by):
    measure_by(FormulaMeasurer(lambda *_: float("inf")))
    space, database = write_space(tmp_path, SPACE), tmp_path / "r.db"
    results = harness.tune(space, test_limit=2, database=database, progress=False)
    with pytest.raises(UsageError, match="too few configurations"):
        results.plot("speed-ups")


def test_no_device_leaves_no_database(tmp_path, monkeypatch):
    space = write_space(tmp_path, SPACE.replace("source: kernel.cl", "source: {cuda: kernel.cl}"))
    only_opencl = Backend("opencl", "opencl", "no GPU was found")
    monkeypatch.setattr("harness.measure.choose.choose_devices", lambda *_: (only_opencl,))
    database = tmp_path / "r.db"
    with pytest.raises(UsageError, match=r"no GPU was found.*--arch sm_90") as error:
        harness.tune(space, database=database, progress=False)
    assert "has no opencl source, only cuda" in str(error.value)
    assert not database.exists()


def test_notebook_tunes_a_kernel_in_25_lines():
    code = "\n".join(cells("code"))
    until_tuned = code[: code.index("harness.tune(")].splitlines()
    assert sum(bool(line.strip()) for line in until_tuned) <= 25


def test_cells_of_the_notebook_run_and_its_kernel_is_right(
    tmp_path, monkeypatch, measure_by, opencl
):
    def times(problem, config):
        return 1e-3 * (1 + (config["BLOCK"] == 64) + (config["STEP"] == 1))

    measure_by(FormulaMeasurer(times, interleaves=True))
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for number, text in enumerate(cells("code")):
        run_cell(number, text, names)
    found = names["results"]
    assert isinstance(found, harness.TuneResults)
    assert {config["BLOCK"] for config in found.best.values()} <= {16, 256}
    assert Path("results/row_sums.db").is_file()

    spec = names["space"].with_measure({"repeats": 2, "min_repeats": 2})
    problem = Input({"m": 16, "n": 16384})
    with closing(KernelMeasurer(spec, opencl)) as real:
        space = ConstrainedSpace.of(spec, problem, real.limits, real.compiler)
        assert real.measure(space, problem, space.default, None).outcome is Outcome.OK


def test_analysis_prints_every_space_and_draws_it(tmp_path, capsys):
    space, recording = write_recording(tmp_path, RECORDED)
    database = tmp_path / "r.db"
    harness.replay(recording, space=space, database=database, test_limit=8, progress=False)
    assert example("analyse_results.py").main(str(database), str(tmp_path / "out")) == 0
    assert (tmp_path / "out" / "search-0.svg").is_file()
    assert "formula on " in capsys.readouterr().out


@pytest.mark.parametrize("slower, status", [(1.0, 0), (2.0, 1)])
def test_check_fails_where_the_default_is_certain_to_be_slow(
    tmp_path, measure_by, capsys, slower, status
):
    def times(problem, config):
        return 1e-3 * (slower if config["BLOCK"] == 256 else 1.0)

    space = write_space(tmp_path, SPACE.replace("test_limit: 40", "test_limit: 6"))
    measure_by(FormulaMeasurer(times, interleaves=True))
    assert example("check_in_ci.py").main(str(space), str(tmp_path / "r.db")) == status
    assert ("2.00x [2.00, 2.00]\n" in capsys.readouterr().out) == bool(status)
