"""--json: one document on standard output and nothing else, of the shape that its schema says."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import harness
from harness.api.documents import DOCUMENTS, FORMAT, document_schema
from harness.commands.run import run as run_command
from harness.options.others import WITH_JSON
from harness.space_file import load_spec
from tests.golden.make import OUTPUTS
from tests.helpers.dispatch_results import SPACE as DISPATCH_SPACE
from tests.helpers.dispatch_results import always_16, by_size, fill
from tests.helpers.replays import REPLAYED, small_space, write_recording, write_space

Capture = pytest.CaptureFixture[str]

Run = Callable[..., tuple[int, dict[str, Any]]]
COMMANDS = {name: partial(run_command, name) for name in DOCUMENTS}


@pytest.fixture
def run(capsys: Capture) -> Run:
    """Run a command with --json; return its status and its document, which fits the schema."""

    def of(command: str, *words: str | Path) -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        status = COMMANDS[command]([*map(str, words), "--json"])
        document = json.loads(capsys.readouterr().out)
        jsonschema.validate(document, document_schema(command))
        return status, document

    return of


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A space, its recording, and a database of its search."""
    space, recording = write_recording(tmp_path_factory.mktemp("tuned"), REPLAYED)
    database = space.parent / "r.db"
    harness.replay(recording, space=space, database=database, test_limit=8, progress=False)
    return space, recording, database


def test_commands_with_a_document_are_those_with_the_option() -> None:
    assert tuple(sorted(DOCUMENTS)) == WITH_JSON


@pytest.mark.parametrize("command", sorted(DOCUMENTS))
def test_schema_is_printed_and_is_one(command: str, capsys: Capture) -> None:
    assert run_command("schema", [command]) == 0
    printed = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(printed)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({}, printed)


@pytest.mark.parametrize("name", ["analyse", "check", "compare", "replay", "tune"])
def test_a_golden_output_is_one_document_that_fits_its_schema(name: str) -> None:
    line, rest = (OUTPUTS / f"{name}_json.txt").read_text(encoding="utf-8").split("\n", 1)
    document, end = json.JSONDecoder().raw_decode(rest)
    assert rest[end:].startswith("\n--- ")
    jsonschema.validate(document, document_schema(line.split()[2]))


@pytest.mark.parametrize("command", sorted(DOCUMENTS))
@pytest.mark.parametrize("words", [["none.yaml"], ["none.yaml", "--no-such-option"]])
def test_an_error_is_a_document_too(
    command: str, words: list[str], tmp_path: Path, capsys: Capture
) -> None:
    needed = {"compare": ["b.db"], "dispatch": ["-o", "out"], "report": ["-o", "out.html"]}
    name, *more = words
    line = [str(tmp_path / name), *needed.get(command, []), *more]
    try:
        status = COMMANDS[command]([*line, "--json"])
    except SystemExit as ended:
        status = int(str(ended.code))
    assert status == 2
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    jsonschema.validate(document, document_schema(command))
    said = "none.yaml" if not more else "unrecognized arguments: --no-such-option"
    assert said in str(document)
    assert document["format"] == FORMAT
    assert said in printed.err or command == "check"


def test_a_file_that_cannot_be_read_is_an_error_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "r.db")

    monkeypatch.setattr("harness.commands.report.read_results", full)
    assert run_command("report", ["r.db", "-o", str(tmp_path / "p.html"), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"] == "r.db: No space left on device"


SMALL = small_space("BLOCK: {values: [16, 32, 64], default: 64}", 8, 16)


def replayed(folder: Path, rows: Mapping[int, str], default: str) -> tuple[str | Path, ...]:
    """The words that tune a recording of SMALL with these rows of blocks 16 and 32, by input, and
    with another end of the default."""
    space, recording = write_space(folder, SMALL), folder / "recording.csv"
    head = "n,BLOCK,outcome,time_s,message\n"
    recording.write_text(head + "".join(f"{rows[n]}{n},64,{default}\n" for n in rows))
    return recording, "--spec", space, "--database", folder / "r.db", "--test-limit", "1"


QUIET = "{n},16,ok,1e-3,\n{n},16,ok,1.01e-3,\n{n},16,ok,1.02e-3,\n"
NOISY = "{n},16,ok,1e-3,\n{n},16,ok,3e-3,\n{n},16,ok,9e-3,\n"


def test_tune_says_how_the_default_failed_and_how_sure_times_are(run: Run, tmp_path: Path) -> None:
    rows = {n: (QUIET if n == 8 else NOISY).format(n=n) + f"{n},32,ok,1,\n" for n in (8, 16)}
    words = replayed(tmp_path, rows, "wrong_result,,y[3] is 1")
    status, document = run("replay", *words, "--test-limit", "3")
    assert (status, document["has_failed"]) == (0, False)
    failed, everywhere = document["warnings"]
    assert failed == "(n=8): the default failed, wrong_result: y[3] is 1"
    assert everywhere.startswith("even the default is wrong on every input: the reference may be")
    expected = [
        "The default failed on 2 of 2 inputs, such as (n=8): wrong_result: y[3] is 1",
        "Timings are noisy on 1 of 2 inputs (interval wider than +- 25 %).",
    ]
    assert document["results"]["warnings"] == expected
    first, last = document["results"]["inputs"]
    for one in (first, last):
        ended = (one["default_outcome"], one["default_message"], one["default_s"])
        assert ended == ("wrong_result", "y[3] is 1", None)
        assert one["default_spread_s"] is None
    assert 0 < first["time_spread_s"] < 0.1 * first["time_s"]
    assert last["time_spread_s"] > last["time_s"]
    _, analysed = run("analyse", tmp_path / "r.db")
    assert analysed["analyses"][0]["results"]["warnings"] == expected


def test_tune_lists_the_next_commands_as_words(run: Run, tmp_path: Path) -> None:
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


def test_where_nothing_worked_tune_has_failed(run: Run, tmp_path: Path) -> None:
    words = replayed(tmp_path, {8: "", 16: QUIET.format(n=16)}, "crashed,,gone")
    status, document = run("replay", *words, "--test-limit", "3")
    assert (status, document["has_failed"]) == (1, True)


def test_analyse_prints_what_python_returns(run: Run, tuned: tuple[Path, Path, Path]) -> None:
    status, document = run("analyse", tuned[2])
    assert status == 0
    (found,) = document["analyses"]
    (results,) = harness.open_results(tuned[2])
    assert found["results"] == results.to_dict()
    assert {one["outcome"] for one in found["failures"]} == {"crashed"}


def test_the_reason_of_a_failure_is_not_cut(
    run: Run, tuned: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.analysis.failures.MAX_HEADLINE", 3)
    _, analysed = run("analyse", tuned[2])
    (failure,) = analysed["analyses"][0]["failures"]
    assert len(failure["reason"]) > 3
    assert not failure["reason"].endswith("...")


def test_analyse_refuses_options_of_trees(tuned: tuple[Path, Path, Path], capsys: Capture) -> None:
    assert run_command("analyse", [str(tuned[2]), "--json", "--tree"]) == 2
    captured = capsys.readouterr()
    assert "--json" in json.loads(captured.out)["error"]
    assert "--json" in captured.err


def test_report_names_its_page(run: Run, tuned: tuple[Path, Path, Path], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    status, document = run("report", tuned[2], "-o", page)
    assert (status, document["report"]) == (0, str(page))
    assert page.is_file()
    assert document["results"][0]["inputs"] == 4


def test_check_prints_faults_as_data(run: Run, tmp_path: Path) -> None:
    space = write_space(tmp_path, REPLAYED.replace("min: 1, max: 8", "min: 9, max: 8"))
    status, document = run("check", space, "--no-compile")
    assert status == 2
    assert not document["is_ok"]
    (fault,) = document["faults"]
    assert (fault["path"], fault["line"]) == (str(space), 5)


@pytest.mark.parametrize(
    ("times", "choice", "status"), [(by_size, "tree", 0), (always_16, "auto", 1)]
)
def test_dispatch_says_what_it_wrote_or_why_not(
    run: Run, tmp_path: Path, times: Any, choice: str, status: int
) -> None:
    space = write_space(tmp_path, DISPATCH_SPACE)
    database = fill(tmp_path / "r.db", load_spec(space), times=times)
    out = tmp_path / "out"
    words = (database, "-o", out, "--spec", space, "--choice", choice)
    calls = tmp_path / "calls.csv"
    calls.write_text("n,calls\n16,10\n64,10\n99999,5\n")
    more = ["--weights", calls, "--require-choice"] if status else []
    found, document = run("dispatch", *words, *more)
    assert found == status
    weights = document["weights"]
    assert (weights is not None) == (status == 1)
    if weights is not None:
        assert weights["workload"] == str(calls)
        assert (weights["calls"], weights["inputs"]) == (25, 3)
        shares = [weights[name] for name in ("measured", "between", "outside")]
        assert shares == [0.8, 0.0, 0.2]
    assert document["choice"]["is_worth_it"] == (status == 0)
    assert all((out / name).is_file() for name in document["files"])
    assert bool(document["files"]) == (status == 0)
    assert bool(document["why_not_written"]) == (status == 1)
    assert document["single"]["config"] == {"BLOCK": 16 if status else 64}
