"""Which small faults tests notice: on a small project, and on tests that a busy machine fails."""

import json
import shutil
import subprocess
import sys

import pytest

from tests import ROOT
from tests.tools import mutation
from tests.tools.mutants import Mutant
from tests.tools.mutation import Ended, Journal

TRIAL = """
def above(a, b):
    return a > b

def untested(a):
    return a + 1
"""
TEST = """
from harness.measure.trial import above

def test_above():
    assert above(2, 1) and not above(1, 1) and not above(1, 2)
"""


@pytest.fixture
def project(tmp_path):
    """A clone in which harness/measure/ has one module."""
    for name in (
        "tests/__init__.py",
        "tests/tools/__init__.py",
        "tests/tools/mutants.py",
        "tests/tools/mutation.py",
        "harness/__init__.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name, text in {"harness/measure/trial.py": TRIAL, "tests/measure/test_it.py": TEST}.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    _commit(tmp_path)
    return tmp_path


def _commit(project):
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "a", "--allow-empty"]):
        subprocess.run(["git", *command], cwd=project, check=True)


def _mutation(project, *options):
    command = [sys.executable, "-m", "tests.tools.mutation", "--out", "found.jsonl", *options]
    return subprocess.run(command, cwd=project, capture_output=True, text=True)


@pytest.mark.slow
def test_a_run_goes_on_where_it_stopped_on_the_same_commit(project):
    out = project / "found.jsonl"
    assert _mutation(project, "--group", "measuring", "--count", "1").returncode == 0
    start = out.read_text()
    out.write_text(start + '{"group": "cut')
    done = _mutation(project, "--group", "measuring", "--count", "9")
    assert done.returncode == 0, done.stderr
    assert out.read_text().startswith(start)
    mutants = [json.loads(line) for line in out.read_text().splitlines()[2:]]
    assert sorted((each["line"], each["by"]) for each in mutants) == [
        (3, "tests/measure/test_it.py::test_above"), (6, ""), (6, ""),
    ]  # fmt: skip
    figures = json.loads(done.stdout.splitlines()[-1])["measuring"]
    assert (figures["mutants"], figures["noticed"]) == (3, 1)
    assert "-    return a + 1\n+    return a - 1\n" in done.stdout

    _commit(project)
    refused = _mutation(project)
    assert refused.returncode == 1
    assert refused.stderr.startswith("found.jsonl is of commit ")


def _fake_runs(monkeypatch, ends):
    """Replace the runs of tests by these."""
    left = iter(ends)
    monkeypatch.setattr(mutation, "run_tests", lambda *_: next(left))


@pytest.mark.parametrize(
    "ends, by",
    [
        ([Ended(False, ["a"], ""), Ended(True, [], "")], "a"),
        ([Ended(False, ["a"], ""), Ended(False, ["a"], ""), Ended(True, [], "")], ""),
        ([Ended(False, ["a"], "")] * 4, ""),
        ([Ended(False, [], "pytest ends with 4")] * 2, "pytest ends with 4"),
        ([Ended(False, [], "no end within 1 s", late=True)], "no end within 1 s"),
    ],
)
def test_a_test_that_fails_without_the_mutant_does_not_notice_it(ends, by, tmp_path, monkeypatch):
    for tree in (tmp_path / mutation.ORIGINAL, tmp_path / "0"):
        (tree / "harness" / "measure").mkdir(parents=True)
        (tree / "harness" / "measure" / "trial.py").write_text(TRIAL)
    _fake_runs(monkeypatch, ends)
    mutant = Mutant("harness/measure/trial.py", 0, 0, "")
    assert mutation.noticed_by(mutant, tmp_path / "0", 1.0) == by


def test_a_project_of_which_a_test_fails_twice_is_not_tried(tmp_path, monkeypatch):
    journal = Journal(tmp_path / "found.jsonl", "a", 0)
    _fake_runs(monkeypatch, [Ended(False, ["a", "b"], ""), Ended(False, ["b"], "")])
    with pytest.raises(SystemExit, match=r"fail without a mutant.*\nb$"):
        mutation.check(journal, tmp_path, 1.0)
    _fake_runs(monkeypatch, [Ended(False, ["a"], ""), Ended(False, ["b"], "")])
    assert mutation.check(journal, tmp_path, 1.0) < 1
    assert mutation.check(journal, tmp_path, 1.0) < 1, "they were checked"
