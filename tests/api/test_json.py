"""--json: one document on standard output and nothing else, of the shape that its schema says."""

import errno
import json

import pytest
from jsonschema import Draft202012Validator

import harness
from harness.api.documents import DOCUMENTS, FORMAT, document_schema
from harness.commands.run import run as run_command
from harness.options.others import WITH_JSON
from harness.space_file import load_spec
from tests.golden.make import OUTPUTS
from tests.helpers.dispatch_results import SPACE as DISPATCH_SPACE
from tests.helpers.dispatch_results import always_16, by_size, fill
from tests.helpers.replays import REPLAYED, small_space, write_recording, write_space


def validator_of(command):
    """Check documents of a command; to check its schema as well takes longer, and a test does."""
    return Draft202012Validator(document_schema(command))


@pytest.fixture
def run(capsys):
    """Run a command with --json; return its status and its document, which fits the schema."""

    def of(command, *words):
        capsys.readouterr()
        status = run_command(command, [*map(str, words), "--json"])
        document = json.loads(capsys.readouterr().out)
        validator_of(command).validate(document)
        return status, document

    return of


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A space, its recording, and a database of its search."""
    space, recording = write_recording(tmp_path_factory.mktemp("tuned"), REPLAYED)
    database = space.parent / "r.db"
    harness.replay(recording, space=space, database=database, test_limit=8, progress=False)
    return space, recording, database


def test_commands_with_a_document_are_those_with_the_option():
    assert tuple(sorted(DOCUMENTS)) == WITH_JSON


@pytest.mark.parametrize("command", sorted(DOCUMENTS))
def test_schema_is_printed_and_is_one(command, capsys):
    assert run_command("schema", [command]) == 0
    printed = json.loads(capsys.readouterr().out)
    Draft202012Validator.check_schema(printed)
    assert not Draft202012Validator(printed).is_valid({})


@pytest.mark.parametrize("name", ["analyse", "check", "compare", "replay", "tune"])
def test_a_golden_output_is_one_document_that_fits_its_schema(name):
    line, rest = (OUTPUTS / f"{name}_json.txt").read_text(encoding="utf-8").split("\n", 1)
    document, end = json.JSONDecoder().raw_decode(rest)
    assert rest[end:].startswith("\n--- ")
    validator_of(line.split()[2]).validate(document)


@pytest.mark.parametrize("command", sorted(DOCUMENTS))
@pytest.mark.parametrize("option", ["", " --no-such-option"])
def test_an_error_is_a_document_too(command, option, tmp_path, capsys):
    needed = {"compare": "b.db", "dispatch": "-o out", "report": "-o out.html"}
    line = f"{tmp_path}/none.yaml {needed.get(command, '')}{option} --json"
    try:
        status = run_command(command, line.split())
    except SystemExit as ended:
        status = ended.code
    assert status == 2
    out, err = capsys.readouterr()
    document = json.loads(out)
    validator_of(command).validate(document)
    assert document["format"] == FORMAT
    message = option.strip() or "none.yaml"
    assert message in str(document)
    assert message in err or command == "check"


def test_a_file_that_cannot_be_read_is_an_error_document(tmp_path, monkeypatch, capsys):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device", "r.db")

    monkeypatch.setattr("harness.commands.report.read_results", full)
    assert run_command("report", ["r.db", "-o", str(tmp_path / "p.html"), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"] == "r.db: No space left on device"


SMALL = small_space("BLOCK: {values: [16, 32, 64], default: 64}", 8, 16)


def replayed(folder, rows, default):
    """The words that tune a recording of SMALL with these rows of blocks 16 and 32, by input, and
    with another end of the default."""
    space, recording = write_space(folder, SMALL), folder / "recording.csv"
    head = "n,BLOCK,outcome,time_s,message\n"
    recording.write_text(head + "".join(f"{rows[n]}{n},64,{default}\n" for n in rows))
    return recording, "--spec", space, "--database", folder / "r.db", "--test-limit", "1"


QUIET = "{n},16,ok,1e-3,\n{n},16,ok,1.01e-3,\n{n},16,ok,1.02e-3,\n"
NOISY = "{n},16,ok,1e-3,\n{n},16,ok,3e-3,\n{n},16,ok,9e-3,\n"


def test_tune_says_how_the_default_failed_and_how_sure_times_are(run, tmp_path):
    rows = {n: (QUIET if n == 8 else NOISY).format(n=n) + f"{n},32,ok,1,\n" for n in (8, 16)}
    words = replayed(tmp_path, rows, "wrong_result,,y[3] is 1")
    status, document = run("replay", *words, "--test-limit", "3")
    assert (status, document["has_failed"]) == (0, False)
    failed, everywhere = document["warnings"]
    assert failed == "(n=8): the default failed, wrong_result: y[3] is 1"
    assert "every input" in everywhere
    expected = document["results"]["warnings"]
    assert [warning.count("on 2 of 2 inputs") for warning in expected] == [1, 0]
    assert [warning.count("on 1 of 2 inputs") for warning in expected] == [0, 1]
    first, last = document["results"]["inputs"]
    for one in (first, last):
        ended = (one["default_outcome"], one["default_message"], one["default_s"])
        assert ended == ("wrong_result", "y[3] is 1", None)
        assert one["default_spread_s"] is None
    assert 0 < first["time_spread_s"] < 0.1 * first["time_s"]
    assert last["time_spread_s"] > last["time_s"]
    _, analysed = run("analyse", tmp_path / "r.db")
    assert analysed["analyses"][0]["results"]["warnings"] == expected


def test_tune_lists_the_next_commands_as_words(run, tmp_path):
    rows = {8: QUIET.format(n=8), 16: QUIET.format(n=16)}
    words = replayed(tmp_path, rows, "ok,2e-3,")
    _, document = run("replay", *words)
    look, again = document["next"]
    assert look == ["python", "-m", "harness", "analyse", str(tmp_path / "r.db")]
    assert again[:4] == ["python", "-m", "harness", "replay"]
    assert again[-2:] == ["--test-limit", "2"]
    _, document = run("replay", *again[4:], "--test-limit", "3")
    assert document["next"] == [look], "the search is complete"
    for one in document["results"]["inputs"]:
        assert (one["default_outcome"], one["default_message"]) == ("ok", "")


def test_where_nothing_worked_tune_has_failed(run, tmp_path):
    words = replayed(tmp_path, {8: "", 16: QUIET.format(n=16)}, "crashed,,gone")
    status, document = run("replay", *words, "--test-limit", "3")
    assert (status, document["has_failed"]) == (1, True)


def test_analyse_prints_what_python_returns(run, tuned):
    status, document = run("analyse", tuned[2])
    assert status == 0
    (found,) = document["analyses"]
    (results,) = harness.open_results(tuned[2])
    assert found["results"] == results.to_dict()
    assert {one["outcome"] for one in found["failures"]} == {"crashed"}


def test_the_reason_of_a_failure_is_not_cut(run, tuned, monkeypatch):
    monkeypatch.setattr("harness.analysis.failures.MAX_HEADLINE", 3)
    _, analysed = run("analyse", tuned[2])
    (failure,) = analysed["analyses"][0]["failures"]
    assert len(failure["reason"]) > 3
    assert not failure["reason"].endswith("...")


def test_analyse_refuses_options_of_trees(tuned, capsys):
    assert run_command("analyse", [str(tuned[2]), "--json", "--tree"]) == 2
    out, err = capsys.readouterr()
    assert "--json" in json.loads(out)["error"]
    assert "--json" in err


def test_report_names_its_page(undrawn, run, tuned, tmp_path):
    page = tmp_path / "page.html"
    status, document = run("report", tuned[2], "-o", page)
    assert (status, document["report"]) == (0, str(page))
    assert page.is_file()
    assert document["results"][0]["inputs"] == 4


def test_check_prints_faults_as_data(run, tmp_path):
    space = write_space(tmp_path, REPLAYED.replace("min: 1, max: 8", "min: 9, max: 8"))
    status, document = run("check", space, "--no-compile")
    assert status == 2
    assert not document["is_ok"]
    (fault,) = document["faults"]
    assert (fault["path"], fault["line"]) == (str(space), 5)


@pytest.mark.parametrize("times, status", [(by_size, 0), (always_16, 1)])
def test_dispatch_says_what_it_wrote_or_why_not(run, tmp_path, times, status):
    space = write_space(tmp_path, DISPATCH_SPACE)
    database = fill(tmp_path / "r.db", load_spec(space), times=times)
    out = tmp_path / "out"
    words = (database, "-o", out, "--spec", space, "--choice", "tree")
    calls = tmp_path / "calls.csv"
    calls.write_text("n,calls\n16,10\n64,10\n99999,5\n")
    more = ["--weights", calls, "--require-choice"] if status else []
    found, document = run("dispatch", *words, *more)
    assert found == status
    weights = document["weights"]
    assert (weights is None) == (status == 0)
    if status:
        assert weights["workload"] == str(calls)
        counts = [weights[name] for name in ("calls", "inputs", "measured", "between", "outside")]
        assert counts == [25, 3, 0.8, 0.0, 0.2]
    assert document["choice"]["is_worth_it"] == (status == 0)
    assert all((out / name).is_file() for name in document["files"])
    assert bool(document["files"]) == (status == 0)
    assert bool(document["why_not_written"]) == (status == 1)
    assert document["single"]["config"] == {"BLOCK": 16 if status else 64}
