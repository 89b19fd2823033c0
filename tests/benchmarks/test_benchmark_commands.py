"""Every benchmark runs as `python -m benchmarks.NAME`, and says so; those of the commands and of
the first hour, where they cost nothing."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks import commands, first_hour
from benchmarks.commands import Cost, as_process
from benchmarks.first_hour import PROGRAMS, TUNERS, measure
from harness.core.errors import HarnessError

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
NAMES = sorted(
    path.stem for path in FOLDER.glob("*.py") if 'if __name__ == "__main__"' in path.read_text()
)


@pytest.mark.parametrize("name", NAMES)
def test_help_and_docstring_say_how_to_run_a_benchmark_and_how_long_it_takes(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark = importlib.import_module(f"benchmarks.{name}")
    assert f"    python -m benchmarks.{name}" in str(benchmark.__doc__)
    duration = r"\btakes?\b[^.]*\b(seconds|minutes?|hours?)\b"
    assert re.search(duration, str(benchmark.__doc__)), "it says how long it takes"
    with pytest.raises(SystemExit) as ended:
        benchmark.main(["--help"])
    assert not ended.value.code

    assert capsys.readouterr().out.startswith(f"usage: python -m benchmarks.{name} ")


# ---------------------------------- The benchmark of the commands, with commands that cost nothing


@pytest.mark.parametrize(("part", "runs", "names"), [("work", 4, 4), ("large", 1, 6)])
def test_the_first_run_of_each_command_is_apart_from_the_others(
    part: str,
    runs: int,
    names: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path))  # so that it is restored
    costs = [Cost(9.0, 8.0, 1.0), *(Cost(s, s / 2, 1.0) for s in (1.0, 2.0, 4.0))][:runs] * names
    seen: list[Sequence[str]] = []

    def run(words: Sequence[str]) -> Cost:
        seen.append(words)
        return costs[len(seen) - 1]

    monkeypatch.setattr(commands, "as_process", run)
    assert commands.main([part]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert len(found) == names
    assert len(seen) == names * runs
    figures = {"first_wall_s": 9.0, "first_cpu_s": 8.0, "first_peak_mib": 1.0}
    figures |= {"wall_s": 2.0, "cpu_s": 1.0} if runs > 1 else {}
    assert list(found.values()) == [figures] * names


def test_a_process_is_measured_and_its_failure_is_reported() -> None:
    assert as_process(["-m", "this"]).peak_mib > 1
    with pytest.raises(HarnessError, match="No module named no_such_module"):
        as_process(["-m", "no_such_module"])


# ------------------------------- The loop from production back to tuning, in a short form, on PoCL


# --------------- The parts of benchmarks/first_hour.py that need neither a device nor Kernel Tuner


def test_both_programs_tune_the_same_values_and_inputs() -> None:
    values = '{"BLOCK": [32, 8, 128, 256], "LANES": [1, 2, 4, 8, 16], "UNROLL": [1, 2, 4]}'
    for program in TUNERS.values():
        text = (PROGRAMS / program).read_text()
        assert values in text
        assert '["LANES <= BLOCK"]' in text
        assert "for k in (4, 5, 6, 7)" in text


def test_a_run_has_the_seconds_of_a_program_and_its_error_where_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "results").mkdir()
    program = tmp_path / "results" / "program.py"
    program.write_text("print('first 1.5 ms')\n")
    run = measure("program.py", tmp_path)
    assert 0 < run.first_s <= run.total_s
    program.write_text("raise SystemExit('no device')\n")
    with pytest.raises(HarnessError, match=r"program\.py failed:\s+no device"):
        measure("program.py", tmp_path)


def test_without_kernel_tuner_it_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert first_hour.main([]) == 2
    assert "pip install -e '.[bench]'" in capsys.readouterr().err
