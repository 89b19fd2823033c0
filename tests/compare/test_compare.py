"""harness.compare as a command: exit status, text, JSON and JUnit."""

from __future__ import annotations

import dataclasses
import re
import shutil
import uuid
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.compare.reading import read_kernel_results
from harness.results import FINAL
from tests.helpers.commands import compare as main
from tests.helpers.commands import tune
from tests.helpers.compared import ENVIRONMENT, SPACE, Device, run, tuned
from tests.helpers.pages import ROOT
from tests.helpers.replays import make_spec
from tests.helpers.results_examples import begin_search, make_plan, opened, tamper

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tuned(tmp_path_factory.mktemp("base"), "base.db", seed=1)


@pytest.fixture(scope="module")
def slower(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with one input slower by 5 %, and one faster."""
    folder = tmp_path_factory.mktemp("slower")
    return tuned(folder, "slower.db", seed=2, slower={16: 1.05, 64: 0.9}, function="edited")


def verdicts(data: Any, of: str = "best") -> dict[int, str]:
    return {c["input"]["n"]: c["verdict"] for c in data["comparisons"] if c["of"] == of}


def test_slower_rows_show_their_interval(
    base: str, slower: str, tmp_path: Path, capsys: Capture
) -> None:
    status, data = run(base, slower)
    expected = {8: "within noise", 16: "slower", 32: "within noise", 64: "faster"}
    assert (status, data["status"]) == (1, 1)
    assert verdicts(data) == verdicts(data, "default") == expected
    (found,) = [c for c in data["comparisons"] if c["verdict"] == "slower" and c["of"] == "best"]
    assert 1.01 < found["low"] < 1.05 < found["high"] < 1.09
    assert found["base"]["configuration"] == {"BLOCK": 16}
    text = capsys.readouterr().err
    assert "small on a device" in text
    assert "small: sources differ" in text
    assert "2 slower, 2 faster, 4 within noise" in text
    assert "%" not in text, "ratios alone"


def test_a_green_comparison_says_what_it_missed(base: str, tmp_path: Path, capsys: Capture) -> None:
    again, junit = tuned(tmp_path, "again.db", seed=3), tmp_path / "j.xml"
    words = ("--of", "default", "--junit", str(junit))
    status, data = run(base, again, *words)
    assert (status, data["counts"]) == (0, {"within noise": 4})
    limits = {c["input"]["n"]: c["upper_limit"] for c in data["comparisons"]}
    assert limits == {c["input"]["n"]: c["high"] for c in data["comparisons"]}
    assert data["upper_limit"] == max(limits.values())
    assert 1 < data["upper_limit"] < 1.02
    least = max(limits, key=limits.__getitem__)
    missed = (
        f"slowdowns of up to {data['upper_limit']:.3f}x could have been missed (small, n={least}, "
    )
    out = " ".join(capsys.readouterr().err.split())
    assert f"4 within noise; {missed}default)" in out
    suite = ET.fromstring(junit.read_text())[0]
    assert missed in suite.findtext("system-out", "")
    cases = {
        case.attrib["name"]: case.findtext("system-out", "") for case in suite.iter("testcase")
    }
    for n, limit in limits.items():
        assert f"; not slower than {limit:.3f}x" in cases[f"n={n} (default)"]


def test_limits_are_of_open_tests(base: str, slower: str, tmp_path: Path, capsys: Capture) -> None:
    _, data = run(base, slower)
    none = [c["input"]["n"] for c in data["comparisons"] if c["upper_limit"] is None]
    assert none == [16, 16, 64, 64], "those that are clear"
    assert 1 < data["upper_limit"] < 1.02
    status, data = run(base, base)
    assert (status, data["tested"], data["upper_limit"]) == (0, 0, None)
    assert "8 not measured again; nothing was tested" in capsys.readouterr().err


def test_a_row_names_a_best_that_the_other_side_never_measured(base: str, tmp_path: Path) -> None:
    every = dict.fromkeys((8, 16, 32, 64), 1.2)
    in_finals = tuned(tmp_path, "finals.db", 2, every, function="edited", searched=(64,))
    status, data = run(base, in_finals, "--of", "best")
    assert (status, data["counts"]) == (1, {"slower": 4})
    assert [c["notes"] for c in data["comparisons"]] == [[]] * 4
    assert {c["candidate"]["configuration"]["BLOCK"] for c in data["comparisons"]} == {16}
    never = tuned(tmp_path, "never.db", 3, searched=(64,), finals=(64,))
    _, data = run(base, never, "--of", "best")
    notes = ["CANDIDATE did not try the best of BASE (BLOCK=16)"]
    assert [c["notes"] for c in data["comparisons"]] == [notes] * 4


def test_a_baseline_in_the_finals_is_not_taken_for_the_winner(tmp_path: Path) -> None:
    space = SPACE.replace("[16, 64]", "[16, 32, 64, 128]") + "baselines: {slow: {BLOCK: 32}}\n"
    every = dict.fromkeys((8, 16, 32, 64), 2.0)
    sides = [
        tuned(
            tmp_path,
            name,
            1,
            factors,
            function=name,
            space=space,
            searched=(16, 64, 128),
            chosen=(16, 128),
            finals=(16, 32, 64),
        )
        for name, factors in (("base", {}), ("edited", every))
    ]
    status, data = run(*sides, "--of", "best")
    assert (status, data["counts"]) == (1, {"slower": 4})
    for side in ("base", "candidate"):
        assert [c[side]["configuration"] for c in data["comparisons"]] == [{"BLOCK": 16}] * 4


def test_a_database_carried_on_holds_the_same_measurements(base: str, tmp_path: Path) -> None:
    carried = shutil.copy(base, tmp_path / "carried.db")
    assert run(base, str(carried))[1]["counts"] == {"not measured again": 8}
    place = tuned(tmp_path, "carried.db", seed=4, slower={8: 1.2}, function="edited")
    status, data = run(base, place)
    assert status == 1
    assert verdicts(data)[8] == "slower"


def test_an_input_that_works_no_more_is_a_regression(base: str, tmp_path: Path) -> None:
    broken = tuned(tmp_path, "broken.db", seed=5, slower={32: float("inf")})
    junit = tmp_path / "j.xml"
    status, data = run(base, broken, "--junit", str(junit))
    assert status == 1
    assert verdicts(data)[32] == "works no more"
    root = ET.fromstring(junit.read_text())
    failures = root.findall("testsuite/testcase/failure")
    assert all("build_failed: ?[31mno: 100%" in str(failure.text) for failure in failures)
    assert (root[0].attrib["tests"], root[0].attrib["failures"]) == ("8", "2")
    assert len(failures) == 2
    assert run(broken, base)[0] == 0  # it works again


WHY = "the default configuration (BLOCK=64) does not work: wrong_result: exit status 5"


@pytest.mark.parametrize("broken", [(8,), (8, 16, 32, 64)])
def test_an_input_that_the_last_command_left_out_works_no_more(
    base: str, tmp_path: Path, capsys: Capture, broken: Sequence[int]
) -> None:
    left_out = dict.fromkeys(broken, f"left out: {WHY}")
    place = tuned(tmp_path, "now.db", seed=5, function="edited", left_out=left_out)
    junit = tmp_path / "j.xml"
    words = (base, place, "--junit", str(junit))
    for more in ((), ("--space", "small")):
        status, data = run(*words, *more)
        assert status == 1
        assert data["counts"]["works no more"] == 2 * len(broken)
        assert {n for n, verdict in verdicts(data).items() if verdict == "works no more"} == {
            *broken
        }
        assert data["comparisons"][0]["notes"] == [WHY]
    failures = ET.fromstring(junit.read_text()).findall("testsuite/testcase/failure")
    assert [WHY in str(failure.text) for failure in failures] == [True] * 2 * len(broken)
    status, data = run(place, base)
    assert (status, data["counts"]["works now"]) == (0, 2 * len(broken))


def test_an_input_that_was_left_out_by_a_crash_may_be_chance(base: str, tmp_path: Path) -> None:
    why = "left out: the default does not work: crashed: it died of SIGSEGV"
    place = tuned(tmp_path, "now.db", seed=5, left_out={8: why})
    status, data = run(base, place, "--of", "default")
    note = f"{why.removeprefix('left out: ')} (may be chance)"
    assert (status, data["comparisons"][0]["notes"]) == (1, [note])


def test_what_no_command_had_time_for_is_not_compared_so_far(base: str, tmp_path: Path) -> None:
    left_out = {8: "not measured: the time was up", 16: f"left out: {WHY}"}
    place = tuned(tmp_path, "now.db", seed=5, left_out=left_out)
    tamper(Path(place), 'UPDATE commands SET inputs = \'[{"n": 8}, {"n": 64}]\'')
    status, data = run(base, place)
    assert (status, data["counts"]) == (0, {"within noise": 4, "not compared": 2})
    tuned(tmp_path, "now.db", seed=6)
    tamper(Path(place), "UPDATE commands SET started_at = '2000' WHERE id = 1")
    status, data = run(base, place)
    assert (status, data["counts"]) == (0, {"within noise": 8})


def test_another_environment_is_refused_in_every_output(
    base: str, tmp_path: Path, capsys: Capture
) -> None:
    other = dataclasses.replace(ENVIRONMENT, driver="2.0")
    place = tuned(tmp_path, "other.db", seed=7, environment=other)
    junit = tmp_path / "j.xml"
    status, data = run(base, place, "--junit", str(junit))
    assert status == 2
    printed = capsys.readouterr()
    error = ET.fromstring(junit.read_text()).find("testsuite/testcase/error")
    for text in (data["error"], error.text, printed.err):
        assert "driver: 1.0 -> 2.0" in str(text)
        assert "--across-environments" in str(text)
    assert run(base, place, "--across-environments", "--of", "best")[0] == 0


def test_what_was_tuned_last_is_compared_after_a_revert(tmp_path: Path) -> None:
    every = dict.fromkeys((8, 16, 32, 64), 1.0)
    tuned(tmp_path, "main.db", seed=1)
    tuned(tmp_path, "main.db", seed=2, slower=dict.fromkeys(every, 1.4), function="slow")
    main_branch = tuned(tmp_path, "main.db", seed=3)  # the first version again
    request = tuned(tmp_path, "pr.db", 4, dict.fromkeys(every, 1.15), function="request")
    status, data = run(main_branch, request)
    assert (status, data["counts"]) == (1, {"slower": 8})


def test_environments_that_base_lacks_are_left_out_beside_one(base: str, tmp_path: Path) -> None:
    older = dataclasses.replace(ENVIRONMENT, driver="0.9")
    tuned(tmp_path, "both.db", seed=7, environment=older)
    both = tuned(tmp_path, "both.db", seed=8)
    status, data = run(base, both)
    assert (status, data["counts"]) == (0, {"within noise": 8})
    assert data["notes"] == ["only in CANDIDATE: small with driver 0.9"]
    status, data = run(both, base)
    assert (status, data["counts"], data["notes"]) == (0, {"within noise": 8}, [])


def test_copies_beside_a_new_environment_are_no_comparison(base: str, tmp_path: Path) -> None:
    shutil.copy(base, tmp_path / "carried.db")
    updated = dataclasses.replace(ENVIRONMENT, driver="2.0")
    carried = tuned(tmp_path, "carried.db", seed=9, environment=updated)
    status, data = run(base, carried)
    assert status == 2
    assert "driver: 1.0 -> 2.0" in data["error"]


@pytest.mark.parametrize(("backend", "occasions"), [("replay", 1), ("opencl", 2)])
def test_replayed_samples_are_one_occasion(tmp_path: Path, backend: str, occasions: int) -> None:
    spec, environment = (
        make_spec(tmp_path, SPACE),
        dataclasses.replace(ENVIRONMENT, backend=backend),
    )
    plan = make_plan(spec.inputs[0], spec=spec, environment=environment)
    default = Device(0, {}).measure(plan.problem, 64)
    with opened(tmp_path / "r.db") as store:
        search = begin_search(store, plan)
        search.test(default)
        store.add_measurements(search.run_id, plan, FINAL, [default], group=uuid.uuid4().hex)
        store.commit()
    (results,) = read_kernel_results(str(tmp_path / "r.db"))
    (of_default,) = results.inputs[plan.problem].groups
    assert len(of_default) == occasions


def test_a_default_that_is_the_best_is_one_row_that_says_so(tmp_path: Path) -> None:
    sides = [tuned(tmp_path, f"{k}.db", k, searched=(64,), finals=(64,)) for k in (1, 2)]
    for one, other in (sides, sides[:1] * 2):
        data = run(one, other)[1]
        notes = [(c["of"], c["notes"]) for c in data["comparisons"]]
        assert notes == [("best", ["the default is the best"])] * 4


def test_results_of_other_sources_than_the_space_has_now_are_refused(
    base: str, slower: str, tmp_path: Path, capsys: Capture
) -> None:
    spec = make_spec(tmp_path, SPACE)
    assert main([base, slower, "--spec", str(spec.path)]) == 2
    assert "has no results of small with the current sources" in capsys.readouterr().err


def test_inputs_that_one_side_lacks_are_listed(base: str, tmp_path: Path, capsys: Capture) -> None:
    fewer = tuned(tmp_path, "fewer.db", seed=8)
    tamper(Path(fewer), "UPDATE runs SET campaign = 9 WHERE input_id != 1")
    long_ago = "'2000-01-01 00:00:00'"
    earlier = f"UPDATE tuning_run SET start_date = {long_ago}, end_date = {long_ago}"
    tamper(Path(fewer), f"{earlier} WHERE id IN (SELECT id FROM runs WHERE input_id != 1)")
    status, data = run(base, fewer)
    assert (status, data["counts"]) == (0, {"within noise": 2, "not compared": 3})
    assert "not compared, measured only in BASE: (n=16), (n=32), (n=64)" in capsys.readouterr().err


def test_nothing_in_common_is_no_comparison(base: str, tmp_path: Path, capsys: Capture) -> None:
    assert main([base, str(tmp_path / "none.db")]) == 2
    assert main([base, base, "--space", "other"]) == 2
    assert main([base, base, "--junit", str(tmp_path / "no" / "c.xml")]) == 2
    assert "no such database" in capsys.readouterr().err


def test_the_examples_for_ci_are_yaml_and_name_options_that_there_are(capsys: Capture) -> None:
    folder = ROOT / "examples" / "ci"
    github, gitlab = (
        yaml.safe_load((folder / name).read_text()) for name in ("github.yml", "gitlab.yml")
    )
    steps = [step.get("run", "") for step in github["jobs"]["performance"]["steps"]]
    uploaded = [s["with"]["path"] for s in github["jobs"]["performance"]["steps"] if "with" in s]
    kept = gitlab["performance"]["artifacts"]["paths"]
    assert "results/*.html" in kept
    assert any("results/*.html" in path.split() for path in uploaded)
    there = {"compare": _options(main, capsys), "tune": _options(tune, capsys)}
    for script in ("\n".join(steps), "\n".join(gitlab["performance"]["script"])):
        commands = re.findall(r"\.venv/bin/harness (\w+) (.*)", script.replace("\\\n", ""))
        assert [name for name, _ in commands] == ["tune", "compare"]
        assert " --report " in commands[0][1]
        for name, words in commands:
            assert set(re.findall(r"--[a-z][a-z-]+", words)) <= there[name]


def _options(command: Callable[[Sequence[str]], int], capsys: Capture) -> set[str]:
    with pytest.raises(SystemExit):
        command(["--help"])
    return set(re.findall(r"--[a-z][a-z-]+", capsys.readouterr().out))


def test_equal_sources_are_no_regression_ever(base: str, tmp_path: Path, capsys: Capture) -> None:
    every = dict.fromkeys((8, 16, 32, 64), 1.3)
    status, data = run(base, tuned(tmp_path, "same.db", 9, every))
    assert (status, data["counts"]) == (0, {"the machine changed": 8})
    assert "the same code, in the same environment" in capsys.readouterr().err
    edited = tuned(tmp_path, "edited.db", 9, every, function="edited")
    assert run(base, edited)[0] == 1


def test_a_worse_winner_of_equal_sources_meets_the_default(base: str, tmp_path: Path) -> None:
    for slower in (1.0, 1.3):
        every = dict.fromkeys((8, 16, 32, 64), slower)
        place = tuned(tmp_path, f"{slower}.db", 9, every, searched=(64,), finals=(64,))
        status, data = run(base, place)
        assert (status, verdicts(data)[8]) == (1, "slower")
    assert verdicts(data, "default")[8] == "the machine changed"
