"""The benchmark of large sweeps, on one of 300 configurations of 30 flags."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.scale import Cost, as_process, main
from harness.commands.analyse import main as analyse
from harness.commands.report import main as report
from harness.commands.tune import main as tune
from harness.core.errors import HarnessError

COMMANDS = {"harness.tune": tune, "harness.analyse": analyse, "harness.report": report}


def test_a_sweep_of_thirty_flags_is_tuned_analysed_and_reported_on_a_small_page(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A page that listed all configurations would have 120 KB more."""
    pages: list[str] = []

    def in_process(words: Sequence[str]) -> Cost:
        assert COMMANDS[words[0]](words[1:]) == 0
        pages.extend(Path(word).read_text() for word in words if word.endswith(".html"))
        return Cost(0.5, 0.25, 100.0)

    assert main(["--configurations", "300"], in_process) == 0
    out = capsys.readouterr().out
    (page,) = pages
    found = json.loads(out.splitlines()[-1])["300"]
    assert found["commands"]["analyse"] == {"wall_s": 0.5, "cpu_s": 0.25, "peak_mib": 100.0}
    assert found["page_bytes"] == len(page.encode())
    assert len(page) < 150_000
    for text in (page, " ".join(out.split())):
        assert "configurations with F0=4 and F1=1" in text
    cells = "".join(rf"<td[^>]*>{cell}</td>" for cell in ("F3", "0", "1", "0.6[67]x"))
    assert re.search(cells, page)
    assert "no two are known to have the same machine code" in page


def test_a_process_is_measured_and_its_failure_is_reported() -> None:
    assert as_process(["this"]).peak_mib > 1
    with pytest.raises(HarnessError, match="No module named no_such_module"):
        as_process(["no_such_module"])
