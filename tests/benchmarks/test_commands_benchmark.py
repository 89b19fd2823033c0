"""The benchmark of the commands, with commands that cost nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.commands import main
from benchmarks.results_scale import Cost


def test_the_first_run_of_each_command_is_apart_from_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path))  # so that it is restored
    costs = iter([Cost(9.0, 8.0, 1.0), *(Cost(s, s / 2, 1.0) for s in (1.0, 2.0, 4.0))] * 4)
    seen: list[Sequence[str]] = []

    def run(words: Sequence[str]) -> Cost:
        seen.append(words)
        assert Path(
            words[words.index("--database") + 1] if "tune" in words[1] else words[2]
        ).is_file()
        return next(costs)

    database = tmp_path / "x.db"
    database.write_bytes(b"a database")
    assert main([str(database), "--space", "x.yaml"], run) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    figures = {"first_wall_s": 9.0, "first_cpu_s": 8.0, "wall_s": 2.0, "cpu_s": 1.0}
    assert found == dict.fromkeys(("tune", "analyse", "report", "dispatch"), figures)
    assert len(seen) == 16
    assert not any(str(database) in words for words in seen), "the copy is worked on"
