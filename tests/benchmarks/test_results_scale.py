"""The benchmark of large databases, on one of 1,200 measurements."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.results_scale import Cost, as_process, main
from benchmarks.resume import main as resume
from harness.commands.analyse import main as analyse
from harness.commands.export import main as export
from harness.commands.report import main as report
from harness.core.errors import HarnessError

COMMANDS = {
    "harness.analyse": analyse,
    "harness.report": report,
    "harness.export": export,
    "benchmarks.resume": resume,
}


def test_a_large_database_is_analysed_reported_and_exported_on_a_small_page(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A page that listed all configurations would have 120 KB more."""
    pages: list[str] = []

    def in_process(words: Sequence[str]) -> Cost:
        if words[0] == "-m" and words[1] != "harness.dispatch":  # which needs four inputs
            assert COMMANDS[words[1]](words[2:]) == 0
            pages.extend(Path(word).read_text() for word in words if word.endswith(".html"))
        return Cost(0.5, 0.25, 100.0)

    shape = ["--measurements", "1200", "--inputs", "2", "--samples", "3", "--campaigns", "2"]
    assert main(shape, in_process) == 0
    out = capsys.readouterr().out
    (page,) = pages
    figures = json.loads(out.splitlines()[-1])
    found = figures["1200"]
    assert figures["resume_s_1200"] == 0.5
    assert figures["size_bytes_1200"] == found["database_bytes"] > 500_000
    assert "2 inputs, 600 tests" in out  # as many as were there: all were found
    assert found["commands"]["analyse"] == {"wall_s": 0.5, "cpu_s": 0.25, "peak_mib": 100.0}
    assert found["page_bytes"] == len(page.encode())
    assert len(page) < 170_000
    for text in (page, " ".join(out.split())):
        assert "configurations with F0=4 and F1=1" in text
    cells = "".join(rf"<td[^>]*>{cell}</td>" for cell in ("F3", "1", "0", "1.[45]\\dx"))
    assert re.search(cells, page)
    assert "no two are known to have the same machine code" in page


def test_a_process_is_measured_and_its_failure_is_reported() -> None:
    assert as_process(["-m", "this"]).peak_mib > 1
    with pytest.raises(HarnessError, match="No module named no_such_module"):
        as_process(["-m", "no_such_module"])
