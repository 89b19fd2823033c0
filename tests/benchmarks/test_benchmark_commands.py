"""Every benchmark runs as `python -m benchmarks.NAME`, and says so."""

import importlib
import importlib.util
import re

import pytest

from benchmarks.first_hour import PROGRAMS, TUNERS
from tests import ROOT

FOLDER = ROOT / "benchmarks"
NAMES = sorted(
    path.stem for path in FOLDER.glob("*.py") if 'if __name__ == "__main__"' in path.read_text()
)


@pytest.mark.parametrize("name", NAMES)
def test_help_and_docstring_say_how_to_run_a_benchmark_and_how_long_it_takes(name, capsys):
    benchmark = importlib.import_module(f"benchmarks.{name}")
    assert f"    python -m benchmarks.{name}" in str(benchmark.__doc__)
    duration = r"\btakes?\b[^.]*\b(seconds|minutes?|hours?)\b"
    assert re.search(duration, str(benchmark.__doc__)), "it says how long it takes"
    with pytest.raises(SystemExit) as ended:
        benchmark.main(["--help"])
    assert not ended.value.code

    assert capsys.readouterr().out.startswith(f"usage: python -m benchmarks.{name} ")


def test_both_programs_tune_the_same_values_and_inputs():
    values = '{"BLOCK": [32, 8, 128, 256], "LANES": [1, 2, 4, 8, 16], "UNROLL": [1, 2, 4]}'
    for program in TUNERS.values():
        text = (PROGRAMS / program).read_text()
        assert values in text
        assert '["LANES <= BLOCK"]' in text
        assert "for k in (4, 5, 6, 7)" in text
