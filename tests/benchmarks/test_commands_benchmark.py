"""The benchmark of the commands, with commands that cost nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks import commands
from benchmarks.commands import Cost, as_process
from harness.core.errors import HarnessError


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
