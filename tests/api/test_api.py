"""`import harness`: the public names, tuning from Python, and what its results show."""

import inspect
import json
import random
import re
import subprocess
import sys
from dataclasses import replace

import pytest

import harness
from harness.commands.run import make_parser
from harness.core.records import Config, Environment, Input, Measurement, Outcome
from harness.display.progress import ProgressDisplay
from harness.options.tune import TuneOptions
from harness.stats.timing import TimeRatio
from tests import ROOT
from tests.helpers.commands import check as check_command
from tests.helpers.commands import replay as replay_command
from tests.helpers.replays import HOST, RECORDED, FormulaMeasurer, ran, write_recording

PUBLIC = [
    "HarnessError",
    "MeasurementInterface",
    "Spec",
    "TuneResults",
    "__version__",
    "check",
    "load_space",
    "make_space",
    "open_results",
    "replay",
    "session",
    "tune",
]
"""What docs/reference/python.md promises; a name that goes breaks people's scripts."""

OPTIONS = [
    "space", "inputs", "inputs_from", "cover", "most_inputs", "mapping", "technique", "test_limit",
    "max_time_s", "seed_configurations", "warm_start", "validate", "parallelism", "seed",
    "database", "label", "fresh", "wait", "progress", "cross", "finalists", "reduce", "repeats",
    "precision", "give_up_at", "backend", "device", "cluster", "insecure",
]  # fmt: skip
MEMBERS = [
    "advice", "best", "dispatcher", "findings", "inputs", "measurements", "plot", "report", "rule",
    "single", "space", "stored", "table", "title", "to_dict", "tree", "verdict",
]  # fmt: skip


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A space and its recording."""
    return write_recording(tmp_path_factory.mktemp("recorded"), RECORDED)


@pytest.fixture(scope="module")
def tune(recorded):
    """Tune the recorded space into the database that all tests of this module share."""
    space, recording = recorded
    database = space.parent / "results.db"

    def tuned(**options):
        defaults = {"space": space, "database": database, "test_limit": 8, "progress": False}
        return harness.replay(recording, **defaults | options)

    return tuned


@pytest.fixture(scope="module")
def results(tune):
    return tune()


# ------------------------------------------------------------------------ the public names


def test_public_names_are_these_and_documented():
    page = (ROOT / "docs/reference/python.md").read_text(encoding="utf-8")
    options = (ROOT / "docs/reference/commands.md").read_text(encoding="utf-8")
    flags = make_parser("tune")._option_string_actions
    named = {flag.lstrip("-").replace("-", "_") for flag in flags}
    assert harness.__all__ == sorted(harness.__all__) == PUBLIC
    assert all(getattr(harness, name) is not None for name in PUBLIC)
    for name in (*PUBLIC, *MEMBERS):
        assert f"`{name}" in page or f".{name}" in page or name == "__version__", name
    for name in OPTIONS:
        assert name in named or f"is `{name}" in options or name == "space", name


def test_arguments_of_tune_and_members_of_results_are_these():
    assert list(inspect.signature(harness.tune).parameters) == OPTIONS
    of_replay = ["recording", *OPTIONS[: OPTIONS.index("reduce")]]
    assert list(inspect.signature(harness.replay).parameters) == of_replay
    members = {name for name in dir(harness.TuneResults) if not name.startswith("_")}
    assert members == set(MEMBERS) - {"stored"}


def test_importing_harness_loads_nothing_else():
    code = (
        "import sys, harness\n"
        "assert not {'numpy', 'pandas', 'pydantic', 'sqlalchemy', 'rich'} & set(sys.modules)\n"
        "import harness.tune\n"
        "assert callable(harness.tune)\n"
        "harness.tuna\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert "module 'harness' has no attribute 'tuna'" in done.stderr


# ------------------------------------------------------------------------------- tuning


def test_python_and_the_command_share_one_database(tune, results, recorded, capsys):
    space, recording = recorded
    database = space.parent / "results.db"
    command = [str(recording), "--spec", str(space), "--database", str(database), "--quiet"]
    assert replay_command([*command, "--test-limit", "8"]) == 0
    assert "tests were answered from the database" in capsys.readouterr().out
    again = tune()
    assert len(again.stored.searched) == len(results.stored.searched), "it resumes"
    (found,) = harness.open_results(database)
    assert found.best == results.best == again.best


def test_callers_random_numbers_stay_as_they_were(tune, results):
    import numpy as np

    before, state = random.getstate(), np.random.get_state()[1]
    tune()
    assert random.getstate() == before
    assert (np.random.get_state()[1] == state).all()


def test_error_is_that_of_the_command(tmp_path):
    with pytest.raises(harness.HarnessError, match=r"missing\.yaml does not exist"):
        harness.tune(tmp_path / "missing.yaml")
    with pytest.raises(harness.HarnessError, match="name a space"):
        harness.tune()
    for option, message in (("replay", "`replay`"), ("max_time", "`max_time_s`")):
        with pytest.raises(TypeError, match=message):
            harness.tune("space.yaml", **{option: 3})


def test_a_space_is_checked_as_by_the_command(recorded, tmp_path, capsys):
    space, _ = recorded
    checked = harness.check(space, no_compile=True)
    assert check_command([space, "--no-compile", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["spaces"] == [checked.model_dump()]
    assert harness.check(harness.load_space(space), no_compile=True) == checked
    assert checked.is_ok
    assert str(checked) == f"{checked.name}: OK"
    broken = checked.model_copy(update={"why_run_failed": "default FAILED on 1 of 2 inputs"})
    assert not broken.is_ok
    assert str(broken) == f"{checked.name}: FAILED\ndefault FAILED on 1 of 2 inputs"
    with pytest.raises(harness.HarnessError, match="`no_compile`"):
        harness.check(space, no_compile=True, run=True)
    with pytest.raises(TypeError, match="`jsn`"):
        harness.check(space, jsn=True)
    space = tmp_path / "bad.yaml"
    space.write_text("kernel: {}")
    with pytest.raises(harness.HarnessError, match=r"bad\.yaml"):
        harness.check(space)


# ------------------------------------------------------------------------------- results


def test_an_error_names_arguments_not_options(recorded, tmp_path):
    space, recording = recorded
    (tmp_path / "own.db").write_bytes(recording.read_bytes())
    with pytest.raises(harness.HarnessError, match="RECORDING and `database`"):
        harness.replay(tmp_path / "own.db", space=space, database=tmp_path / "own.db")
    with pytest.raises(harness.HarnessError, match="seed_configurations"):
        harness.replay(recording, space=space, seed_configurations=[["BLOCK"]])
    command = "run: python -m harness tune x.yaml --database DB; leave out --no-cross or --json"
    assert TuneOptions.in_python(command) == command.replace("--no-cross", "`cross=False`")


def test_ctrl_c_keeps_everything_and_says_how_to_continue(recorded, tmp_path, monkeypatch, capsys):
    space, recording = recorded
    database, real = tmp_path / "r.db", ProgressDisplay.test

    def interrupted(display, progress):
        real(display, progress)
        if progress.plan.problem == Input({"m": 4096, "n": 64}):
            raise KeyboardInterrupt

    monkeypatch.setattr(ProgressDisplay, "test", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        harness.replay(recording, space=space, database=database)
    assert f"in {database}. To continue, call replay again" in str(caught.value)
    assert caught.value.__suppress_context__, "no traceback into the search"
    assert "Best so far" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["r.db"]
    (found,) = harness.open_results(database)
    measured = [report.problem for report in found.inputs if report.measured]
    assert measured == [Input({"m": 64, "n": 4096})]


def test_results_are_short_in_shells_and_a_table_in_notebooks(results, monkeypatch):
    lines = repr(results).splitlines()
    assert lines[0].startswith("formula on recording.csv")
    assert len(lines) == 3, "a title, and a line for each input"
    monkeypatch.setattr(harness.TuneResults, "title", "<script>")
    shown = results._repr_html_()
    assert shown.startswith("<p><b>&lt;script&gt;")
    assert shown.count("<tr") == 3, "a head, and a row for each input"
    assert "4096" in shown


def test_a_best_within_noise_is_the_default_everywhere(results):
    """As in the table that the commands print."""
    default, other = results.stored.default, results.inputs[0].best
    assert other is not None
    assert other.config != default
    slower = Measurement(default, other.input, Outcome.OK, other.timing)
    tie = TimeRatio(1.02, 0.97, 1.07, count=20)
    report = replace(results.inputs[0], baseline=slower, speedup=tie)
    found = harness.TuneResults(results.stored)
    vars(found)["inputs"] = [report]
    assert found.best == {other.input: default}
    assert repr(found).splitlines()[1].endswith(": default  within noise")
    assert found.table().loc[0, list(default)].to_dict() == dict(default)


def test_an_input_prints_as_a_few_lines(results):
    report = results.inputs[0]
    printed = str(report).splitlines()
    head = ["m=64, n=4096", "recommended", "time", "default", "speed-up"]
    assert [line.split(":")[0].strip() for line in printed] == head
    assert max(map(len, printed)) <= 100
    config, time, default, speedup = (line.split(":", 1)[1].strip() for line in printed[1:])
    for name, value in report.recommended.config.items():
        assert (f"{name}={value}" in config) == (value != results.stored.default[name])
    for text in (time, default):
        assert re.fullmatch(r"\S+ (ms|us)( \+- .*)?", text)
    assert re.fullmatch(r"\d+\.\d\dx \[.*\]|within noise|default is best", speedup)


def test_an_input_whose_default_fails_prints_its_outcome(results):
    default = Config(results.stored.default)
    wrong = Measurement(default, results.inputs[0].problem, Outcome.WRONG_RESULT, message="y")
    failed = {"baseline": None, "speedup": None, "failed_baselines": {"default": wrong}}
    printed = str(replace(results.inputs[0], **failed))
    assert "    default:     wrong_result\n" in printed


def test_tables_have_a_row_for_each_input_and_measurement(results):
    table = results.table()
    assert len(table) == 2
    first = results.best[Input({"m": 64, "n": 4096})]
    assert table.loc[0, list(first)].to_dict() == dict(first)
    assert (table["time_s"] > 0).all()
    measured = results.measurements()
    names = [*results.inputs[0].problem, *results.stored.default, "stage", "outcome", "time_s"]
    assert list(measured)[: len(names)] == names
    assert len(measured) == len(results.stored.rows)
    assert set(measured["m"]) == {64, 4096}


def test_columns_of_tables_hide_no_parameter_with_their_name(tmp_path):
    (tmp_path / "kernel.cl").write_text("kernel time_s")
    (tmp_path / "kernel.py").write_text(HOST)
    space = harness.make_space(
        folder=tmp_path,
        name="small",
        kernel={"function": "kernel", "source": "kernel.cl", "host": "kernel.py"},
        parameters={"time_s": [1, 2], "BLOCK": [16, 64]},
        launch={"group": ["BLOCK"], "grid": ["outcome"]},
        inputs={"outcome": [8, 16]},
    )
    database = tmp_path / "r.db"
    ran(space, database, FormulaMeasurer(lambda _, config: 1e-3))
    (results,) = harness.open_results(database)
    measured = results.measurements()
    assert set(measured["config.time_s"]) == {1, 2}
    assert set(measured["input.outcome"]) == {8, 16}
    assert set(measured["time_s"]) == {1e-3}
    assert set(measured["outcome"]) == {"ok"}
    table = results.table()
    assert set(table["outcome"]) == {8, 16}
    assert set(table["config.time_s"]) <= {1, 2}


def test_plots_are_pictures_that_can_be_saved(results, tmp_path):
    environment = Environment("opencl", "a device", "a platform", "1.0", "a compiler")
    campaign = replace(results.stored.campaign, environment=environment)
    timed = harness.TuneResults(replace(results.stored, campaign=campaign))
    for name in ("boxes", "seconds"):
        assert timed.plot(name).svg.startswith("<svg")
        with pytest.raises(harness.HarnessError, match="a recording"):
            results.plot(name)
    picture, path = results.plot("search"), tmp_path / "search.svg"
    assert picture._repr_svg_() == picture.svg
    assert "currentColor" not in picture.svg
    for _ in range(2):  # its own file is replaced
        assert picture.save(path).read_text().endswith(picture.svg)
    with pytest.raises(harness.HarnessError, match=r"\.svg"):
        picture.save(tmp_path / "search.png")
    path.write_text("mine")
    with pytest.raises(harness.HarnessError, match="already exists"):
        picture.save(path)
    assert "<html" in results.report(tmp_path / "page.html").read_text()
    with pytest.raises(harness.HarnessError, match="`search`"):
        results.plot("serch")


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    "name, value",
    [
        ("space", 3), ("inputs", ["n > 3"]), ("technique", None), ("wait", -1), ("wait", NAN),
        *(("max_time_s", value) for value in (10**400, 0, -5, 0.0, True, INF, NAN)),
        ("cover", True), ("precision", INF), ("label", ""), ("label", "\x1b[2J"), ("label", None),
        ("test_limit", 10**400), ("test_limit", NAN), ("seed", None), ("finalists", 1.5),
        ("seed_configurations", None), ("warm_start", [3]), ("fresh", 1),
    ],
)  # fmt: skip
def test_argument_of_another_type_is_an_error_that_names_it(name, value):
    arguments = {"space": "spaces/mvmul.yaml", name: value}
    with pytest.raises(harness.HarnessError, match=f"^{name}: must be .*, but is "):
        harness.tune(**arguments)
