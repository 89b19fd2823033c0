"""harness.compare as a command: exit status, text, JSON and JUnit."""

import re
import shutil
import uuid
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

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


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tuned(tmp_path_factory.mktemp("base"), "base.db", seed=1)


@pytest.fixture(scope="module")
def slower(tmp_path_factory):
    """A database with one input slower by 5 %, and one faster."""
    folder = tmp_path_factory.mktemp("slower")
    return tuned(folder, "slower.db", seed=2, slower={16: 1.05, 64: 0.9}, function="edited")


def verdicts(data, of="best"):
    return {c["input"]["n"]: c["verdict"] for c in data["comparisons"] if c["of"] == of}


def everywhere(factor):
    return dict.fromkeys((8, 16, 32, 64), factor)


def test_slower_rows_show_their_interval(base, slower, tmp_path, capsys):
    status, data = run(base, slower)
    expected = {8: "within noise", 16: "slower", 32: "within noise", 64: "faster"}
    assert (status, data["status"]) == (1, 1)
    assert verdicts(data) == verdicts(data, "default") == expected
    for row in data["comparisons"]:
        assert (row["upper_limit"] is None) == (row["verdict"] != "within noise")
        if (row["verdict"], row["of"]) == ("slower", "best"):
            assert 1.01 < row["low"] < 1.05 < row["high"] < 1.09
            assert row["base"]["configuration"] == {"BLOCK": 16}
    text = capsys.readouterr().err
    assert "small: sources differ" in text
    assert "2 slower, 2 faster, 4 within noise" in text


def test_a_green_comparison_says_what_it_missed(base, tmp_path, capsys):
    again, junit = tuned(tmp_path, "again.db", seed=3), tmp_path / "j.xml"
    status, data = run(base, again, "--of", "default", "--junit", str(junit))
    assert (status, data["counts"]) == (0, {"within noise": 4})
    limits = {c["input"]["n"]: c["upper_limit"] for c in data["comparisons"]}
    assert limits == {c["input"]["n"]: c["high"] for c in data["comparisons"]}
    least = max(limits, key=limits.__getitem__)
    assert 1 < data["upper_limit"] == limits[least] < 1.02
    missed = f"{data['upper_limit']:.3f}x could have been missed (small, n={least}, default)"
    assert missed in " ".join(capsys.readouterr().err.split())
    suite = ET.fromstring(junit.read_text())[0]
    assert missed in suite.findtext("system-out")
    for case, limit in zip(suite.iter("testcase"), limits.values(), strict=True):
        assert f"{limit:.3f}x" in case.findtext("system-out")


def test_a_best_that_the_other_side_measured_in_its_finals_alone_is_compared(base, tmp_path):
    slower = everywhere(1.2)
    in_finals = tuned(tmp_path, "finals.db", 2, slower, function="edited", searched=(64,))
    status, data = run(base, in_finals, "--of", "best")
    assert (status, data["counts"]) == (1, {"slower": 4})
    assert [c["notes"] for c in data["comparisons"]] == [[]] * 4
    assert {c["candidate"]["configuration"]["BLOCK"] for c in data["comparisons"]} == {16}


def test_a_baseline_in_the_finals_is_not_taken_for_the_winner(tmp_path):
    space = SPACE.replace("[16, 64]", "[16, 32, 64, 128]") + "baselines: {slow: {BLOCK: 32}}\n"
    blocks = {"searched": (16, 64, 128), "chosen": (16, 128), "finals": (16, 32, 64)}
    sides = [
        tuned(tmp_path, name, 1, everywhere(factor), function=name, space=space, **blocks)
        for name, factor in (("base", 1.0), ("edited", 2.0))
    ]
    status, data = run(*sides, "--of", "best")
    assert (status, data["counts"]) == (1, {"slower": 4})
    for row in data["comparisons"]:
        both = row["base"]["configuration"], row["candidate"]["configuration"]
        assert both == ({"BLOCK": 16},) * 2


def test_a_database_carried_on_holds_the_same_measurements(base, tmp_path):
    carried = shutil.copy(base, tmp_path / "carried.db")
    assert run(base, str(carried))[1]["counts"] == {"not measured again": 8}
    place = tuned(tmp_path, "carried.db", seed=4, slower={8: 1.2}, function="edited")
    status, data = run(base, place)
    assert status == 1
    assert verdicts(data)[8] == "slower"


def test_an_input_that_works_no_more_is_a_regression(base, tmp_path):
    broken = tuned(tmp_path, "broken.db", seed=5, slower={32: float("inf")})
    junit = tmp_path / "j.xml"
    status, data = run(base, broken, "--junit", str(junit))
    assert status == 1
    assert verdicts(data)[32] == "works no more"
    (suite,) = ET.fromstring(junit.read_text())
    failures = [failure.text for failure in suite.iter("failure")]
    assert ["build_failed: ?[31mno: 100%" in text for text in failures] == [True, True]
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("8", "2")
    assert run(broken, base)[0] == 0  # it works again


WHY = "the default configuration (BLOCK=64) does not work: wrong_result: exit status 5"


@pytest.mark.parametrize("broken", [(8,), (8, 16, 32, 64)])
def test_an_input_that_the_last_command_left_out_works_no_more(base, tmp_path, broken):
    left_out = dict.fromkeys(broken, f"left out: {WHY}")
    place = tuned(tmp_path, "now.db", seed=5, function="edited", left_out=left_out)
    junit = tmp_path / "j.xml"
    status, data = run(base, place, "--junit", str(junit), "--space", "small")
    assert (status, data["counts"]["works no more"]) == (1, 2 * len(broken))
    assert [verdicts(data)[n] for n in broken] == ["works no more"] * len(broken)
    assert data["comparisons"][0]["notes"] == [WHY]
    failures = ET.fromstring(junit.read_text()).iter("failure")
    assert [WHY in failure.text for failure in failures] == [True] * 2 * len(broken)
    status, data = run(place, base)
    assert (status, data["counts"]["works now"]) == (0, 2 * len(broken))


def test_an_input_that_was_left_out_by_a_crash_may_be_chance(base, tmp_path):
    why = "the default does not work: crashed: it died of SIGSEGV"
    place = tuned(tmp_path, "now.db", seed=5, left_out={8: f"left out: {why}"})
    status, data = run(base, place, "--of", "default")
    assert (status, data["comparisons"][0]["notes"]) == (1, [f"{why} (may be chance)"])


def test_what_no_command_had_time_for_is_not_compared_so_far(base, tmp_path):
    left_out = {8: "not measured: the time was up", 16: f"left out: {WHY}"}
    place = tuned(tmp_path, "now.db", seed=5, left_out=left_out)
    tamper(Path(place), 'UPDATE commands SET inputs = \'[{"n": 8}, {"n": 64}]\'')
    status, data = run(base, place)
    assert (status, data["counts"]) == (0, {"within noise": 4, "not compared": 2})
    tuned(tmp_path, "now.db", seed=6)
    tamper(Path(place), "UPDATE commands SET started_at = '2000' WHERE id = 1")
    status, data = run(base, place)
    assert (status, data["counts"]) == (0, {"within noise": 8})


def test_another_environment_is_refused_in_every_output(base, tmp_path, capsys):
    other = replace(ENVIRONMENT, driver="2.0")
    place = tuned(tmp_path, "other.db", seed=7, environment=other)
    junit = tmp_path / "j.xml"
    status, data = run(base, place, "--junit", str(junit))
    assert status == 2
    error = ET.fromstring(junit.read_text()).findtext("testsuite/testcase/error")
    for text in (data["error"], error, capsys.readouterr().err):
        assert "driver: 1.0 -> 2.0" in text
        assert "--across-environments" in text
    assert run(base, place, "--across-environments", "--of", "best")[0] == 0


def test_what_was_tuned_last_is_compared_after_a_revert(tmp_path):
    tuned(tmp_path, "main.db", seed=1)
    tuned(tmp_path, "main.db", seed=2, slower=everywhere(1.4), function="slow")
    main_branch = tuned(tmp_path, "main.db", seed=3)  # the first version again
    request = tuned(tmp_path, "pr.db", 4, everywhere(1.15), function="request")
    status, data = run(main_branch, request)
    assert (status, data["counts"]) == (1, {"slower": 8})


def test_environments_that_base_lacks_are_left_out_beside_one(base, tmp_path):
    older = replace(ENVIRONMENT, driver="0.9")
    tuned(tmp_path, "both.db", seed=7, environment=older)
    both = tuned(tmp_path, "both.db", seed=8)
    status, data = run(base, both)
    assert (status, data["counts"]) == (0, {"within noise": 8})
    assert data["notes"] == ["only in CANDIDATE: small with driver 0.9"]
    status, data = run(both, base)
    assert (status, data["counts"], data["notes"]) == (0, {"within noise": 8}, [])


@pytest.mark.parametrize("backend, occasions", [("replay", 1), ("opencl", 2)])
def test_replayed_samples_are_one_occasion(tmp_path, backend, occasions):
    spec = make_spec(tmp_path, SPACE)
    environment = replace(ENVIRONMENT, backend=backend)
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


def test_a_default_that_is_the_best_is_one_row_that_says_so(tmp_path):
    sides = [tuned(tmp_path, f"{k}.db", k, searched=(64,), finals=(64,)) for k in (1, 2)]
    for both in (sides, sides[:1] * 2):
        _, data = run(*both)
        notes = [(c["of"], c["notes"]) for c in data["comparisons"]]
        assert notes == [("best", ["the default is the best"])] * 4


def test_results_of_other_sources_than_the_space_has_now_are_refused(
    base, slower, tmp_path, capsys
):
    spec = make_spec(tmp_path, SPACE)
    assert main([base, slower, "--spec", spec.path]) == 2
    assert "no results of small" in capsys.readouterr().err


def test_nothing_in_common_is_no_comparison(base, tmp_path, capsys):
    for words, name in (
        ([str(tmp_path / "none.db")], "none.db"),
        ([base, "--space", "other"], "other"),
        ([base, "--junit", str(tmp_path / "no" / "c.xml")], "c.xml"),
    ):
        assert main([base, *words]) == 2
        assert name in capsys.readouterr().err


def test_the_examples_for_ci_are_yaml_and_name_options_that_there_are(capsys):
    there = {}
    for name, command in (("compare", main), ("tune", tune)):
        with pytest.raises(SystemExit):
            command(["--help"])
        there[name] = _options(capsys.readouterr().out)
    for name in ("github.yml", "gitlab.yml"):
        text = (ROOT / "examples" / "ci" / name).read_text()
        jobs = yaml.safe_load(text)
        job = jobs.get("jobs", jobs)["performance"]
        script = "\n".join(job.get("script", [])) or "\n".join(
            s.get("run", "") for s in job["steps"]
        )
        assert "results/*.html" in text
        commands = re.findall(r"\.venv/bin/harness (\w+) (.*)", script.replace("\\\n", ""))
        assert [command for command, _ in commands] == ["tune", "compare"]
        assert " --report " in commands[0][1]
        for command, words in commands:
            assert _options(words) <= there[command]


def _options(text):
    return set(re.findall(r"--[a-z][a-z-]+", text))


def test_equal_sources_are_no_regression_ever(base, tmp_path, capsys):
    slower = everywhere(1.3)
    status, data = run(base, tuned(tmp_path, "same.db", 9, slower))
    assert (status, data["counts"]) == (0, {"the machine changed": 8})
    assert "the same code" in capsys.readouterr().err
    edited = tuned(tmp_path, "edited.db", 9, slower, function="edited")
    assert run(base, edited)[0] == 1


def test_a_worse_winner_of_equal_sources_meets_the_default(base, tmp_path):
    for factor in (1.0, 1.3):
        slower = everywhere(factor)
        place = tuned(tmp_path, f"{factor}.db", 9, slower, searched=(64,), finals=(64,))
        status, data = run(base, place)
        assert (status, verdicts(data)[8]) == (1, "slower")
    assert verdicts(data, "default")[8] == "the machine changed"
