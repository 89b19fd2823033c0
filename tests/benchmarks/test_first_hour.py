"""The parts of benchmarks/first_hour.py that need neither a device nor Kernel Tuner."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from benchmarks import first_hour
from benchmarks.first_hour import PROGRAMS, TUNERS, code_lines, measure, shows_time
from harness.core.errors import HarnessError


def test_lines_with_code_are_counted_and_no_others() -> None:
    source = '"""A docstring.\n\nOf three lines."""\n\n# a comment\nx = [\n    1,  # one\n\n]\n'
    assert code_lines(source) == 3
    assert code_lines("text = '''one\ntwo'''\n") == 2
    assert code_lines("") == 0


@pytest.mark.parametrize(
    ("text", "is_time"),
    [
        ("BLOCK=32, LANES=1, time=1.023ms", True),
        ("n=4096  best 12.3 us", True),
        ("57 to do, 3 s left", False),
        ("spmv.cl: 12 msgs", False),
    ],
)
def test_the_first_result_is_the_first_time_on_the_terminal(text: str, is_time: bool) -> None:
    assert shows_time(text) == is_time


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
