"""benchmarks/stencil.py: a small campaign, and the errors that stop one."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import stencil
from harness.commands.run import EXIT_INTERRUPTED
from harness.core.errors import UsageError
from harness.core.records import Environment
from harness.measure.backends.choose import Backend
from harness.stencil import predicted

COMMAND = ["--programs", "gradient", "srad1", "--sizes", "32", "--count", "6", "--repeats", "1"]


def test_a_campaign_is_measured_judged_and_drawn(
    opencl: Backend, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(stencil, "_POINTS_TO_TIME", 2)
    monkeypatch.setattr(predicted, "_TREES", 10)
    command = [*COMMAND, "--finalists", "2", "--output", str(tmp_path)]
    assert stencil.main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    for name, figures in json.loads(lines[-1])["predictors"].items():
        assert figures["points"] == 6, name
        assert 1 <= figures["median_runs"] <= 6
        assert 1 <= figures["median_random_runs"] <= 3.5  # (6 + 1) / (1 + 1) at most
    assert (tmp_path / "predictions.png").stat().st_size > 10_000
    assert len((tmp_path / "points.csv").read_text().splitlines()) == 13

    def not_again(arguments: list[str]) -> int:
        raise AssertionError(f"{arguments} was measured")

    monkeypatch.setattr(stencil, "tune_command", not_again)
    assert stencil.main([*command, "--count", "5"]) == 2
    assert "was explored with --count 6; use that, or name" in capsys.readouterr().err
    assert stencil.main([*command, "--backend", "cuda"]) == 2
    assert "has times of --backend opencl; name another folder" in capsys.readouterr().err


def test_ctrl_c_ends_the_campaign_not_one_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = []

    def interrupted(arguments: list[str]) -> int:
        begun.append(arguments[0])
        return EXIT_INTERRUPTED

    monkeypatch.setattr(stencil, "tune_command", interrupted)
    assert stencil.main([*COMMAND, "--output", str(tmp_path)]) == EXIT_INTERRUPTED
    assert len(begun) == 1
    assert "the same command continues from there" in capsys.readouterr().err


def test_times_of_two_devices_are_not_judged_together() -> None:
    devices = [Environment(backend, "device", "p", "1", "c") for backend in ("opencl", "cuda")]
    found: list[Any] = [SimpleNamespace(campaign=SimpleNamespace(environment=d)) for d in devices]
    with pytest.raises(UsageError, match=r"a\.db has times of .* and of .*; measure each into its"):
        stencil._environment(found, Path("a.db"))
    assert stencil._environment(found[:1], Path("a.db")) == devices[0]
