"""Every benchmark runs as `python -m benchmarks.NAME`, and says so."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

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


def test_no_text_runs_a_benchmark_as_a_script() -> None:
    texts = [*FOLDER.rglob("*.py"), *FOLDER.parent.glob("*/*.md"), *FOLDER.rglob("*.md")]
    assert not [path for path in texts if "python benchmarks/" in path.read_text()]
