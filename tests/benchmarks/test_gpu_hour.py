"""benchmarks/gpu_hour.py: steps that fail, that are late and that are left out; their figures.

.ci/run rehearses the first plan.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from benchmarks import gpu_hour
from benchmarks.gpu_hour import PLANS, Step, figures_of, run_step


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """A folder of modules that steps can run."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return tmp_path


def run(folder, code, most_s=30, **fields):
    (folder / "tried.py").write_text(code)
    return run_step(Step("tried", most_s, "tried", **fields), folder, most_s, False, {})


def test_figures_are_the_last_line_that_is_a_json_object():
    assert figures_of('a table\n{"held": 0.5}\n') == {"held": 0.5}
    assert figures_of('{\n "held": 0.5\n}\n') == {"held": 0.5}
    assert figures_of("3 passed in 2 s\n") == {"said": ["3 passed in 2 s"]}


def test_late_step_ends_with_all_that_it_started(modules, monkeypatch):
    monkeypatch.setattr(gpu_hour, "_TO_END_S", 0.5)
    started = modules / "started"
    code = f"""
import pathlib, signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path({str(started)!r}).write_text(str(subprocess.Popen(["sleep", "60"]).pid))
print("so far", flush=True)
time.sleep(60)
"""
    ended = run(modules, code, most_s=2)
    assert (ended["status"], ended["reason"]) == ("failed", "it did not end within 2 s")
    assert "so far" in (modules / "log.txt").read_text()
    status = Path("/proc", started.read_text(), "stat")
    deadline_s = time.monotonic() + 10
    while status.exists() and " Z " not in status.read_text() and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert not status.exists() or " Z " in status.read_text()


def test_campaign_with_other_outcomes_than_it_must_have_fails(modules):
    one = {"speedup": None, "outcomes": {"ok": 2}, "energy_j": None}
    results = {"inputs": [one], "advice": "", "choice": None, "why_no_choice": "", "warnings": []}
    code = f"print({json.dumps({'results': results})!r})"
    assert run(modules, code, outcomes={"ok": 2})["status"] == "ok"
    assert run(modules, code, outcomes={"ok": 1, "timeout": 1})["status"] == "failed"


def test_plan_goes_on_after_a_step_that_fails_and_its_figures_are_on_disk(
    modules, monkeypatch, capsys
):
    (modules / "good.py").write_text("print('{\"time_s\": 1.23456789}')")
    plan = [Step("bad", 30, "no_such_module"), Step("good", 30, "good")]
    monkeypatch.setattr(gpu_hour, "PLANS", {1: plan})
    monkeypatch.setattr(gpu_hour, "choose_one", lambda backend: None)
    assert gpu_hour.main(["--out", str(modules)]) == 1
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert figures == json.loads((modules / "plan_1/figures.json").read_text())
    assert [step["status"] for step in figures["steps"].values()] == ["failed", "ok"]
    assert figures["steps"]["good"]["figures"] == {"time_s": 1.2346}


def test_files_that_plans_name_are_there():
    steps = [step for plan in PLANS.values() for step in plan]
    words = [word for step in steps for word in step.command(Path("/out"), True)]
    named = [word for word in words if word.startswith(("spaces/", "tests/", "benchmarks/"))]
    assert len(named) > 10
    assert [word for word in named if not (gpu_hour.ROOT / word).exists()] == []
    assert [word for word in words if "{" in word] == []
