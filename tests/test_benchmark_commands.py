"""Every benchmark runs as `python -m benchmarks.NAME`, and says so."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if "__main__" in path.read_text())


@pytest.mark.parametrize("name", NAMES)
def test_help_and_docstring_name_the_one_way_to_run_a_benchmark(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark = importlib.import_module(f"benchmarks.{name}")
    assert f"    python -m benchmarks.{name}" in str(benchmark.__doc__)
    with pytest.raises(SystemExit) as ended:
        benchmark.main(["--help"])
    assert not ended.value.code
    parsed_by = "search" if name == "study" else name
    assert capsys.readouterr().out.startswith(f"usage: python -m benchmarks.{parsed_by} ")


def test_no_text_runs_a_benchmark_as_a_script() -> None:
    texts = [*FOLDER.rglob("*.py"), *FOLDER.parent.glob("*/*.md"), *FOLDER.rglob("*.md")]
    assert not [path for path in texts if "python benchmarks/" in path.read_text()]
