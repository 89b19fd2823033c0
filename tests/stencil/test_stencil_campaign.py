"""benchmarks/stencil.py: a small campaign, and the errors that stop one."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from benchmarks import stencil, stencil_campaign, stencil_costs
from benchmarks.stencil_campaign import Campaign, only_environment
from harness.commands.run import EXIT_INTERRUPTED
from harness.core.errors import UsageError
from harness.core.records import Environment
from harness.measure.backends.choose import Backend
from harness.stencil import predicted
from harness.stencil.features import PUBLISHED

COMMAND = ["--programs", "gradient", "srad1", "--sizes", "32", "--count", "5", "--repeats", "1"]


def test_campaigns_are_measured_and_judged(
    opencl: Backend, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(stencil_costs, "_POINTS_TO_TIME", 2)
    monkeypatch.setattr(predicted, "_TREES", 10)
    command = [*COMMAND, "--threads", "3", "--campaigns", "2", "--finalists", "2"]
    command += ["--output", str(tmp_path)]
    assert stencil.main(command) == 0
    out = capsys.readouterr().out
    figures = json.loads(out.splitlines()[-1])
    assert figures["campaigns"] == 2
    for name, found in figures["predictors"].items():
        assert found["points"] == 5, name
        assert 1 <= found["runs"]["min"] <= found["runs"]["median"] <= found["runs"]["max"] <= 5
        assert 1 <= found["random_runs"]["median"] <= 3  # (5 + 1) / (1 + 1) at most
    assert figures["most_informative_feature"] in PUBLISHED
    assert all(time_s > 0 for time_s in figures["mean_seconds_a_point"].values())
    assert "forest: medians of 2 campaigns" in " ".join(out.split())
    assert "private_loads" in out
    table = pd.read_csv(tmp_path / "points.csv")
    assert table.groupby(["campaign", "program"]).size().tolist() == [5] * 4
    assert table["global_stores"].nunique() > 1
    first, second = (set(points["point"]) for _, points in table.groupby("campaign"))
    assert first != second

    def not_again(arguments: list[str]) -> int:
        raise AssertionError(f"{arguments} was measured")

    monkeypatch.setattr(stencil_campaign, "tune_command", not_again)
    assert stencil.main([*command, "--count", "6"]) == 2
    assert "was explored with --count 5 --threads 3; use that" in capsys.readouterr().err
    assert stencil.main([*command, "--backend", "cuda"]) == 2
    assert "has times of --backend opencl; name another folder" in capsys.readouterr().err


def test_ctrl_c_ends_the_campaign_not_one_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = []

    def interrupted(arguments: list[str]) -> int:
        begun.append(arguments[0])
        return EXIT_INTERRUPTED

    monkeypatch.setattr(stencil_campaign, "tune_command", interrupted)
    assert stencil.main([*COMMAND, "--output", str(tmp_path)]) == EXIT_INTERRUPTED
    assert len(begun) == 1
    assert "the same command continues from there" in capsys.readouterr().err


def test_times_of_two_devices_are_not_judged_together(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = [Environment(backend, "device", "p", "1", "c") for backend in ("opencl", "cuda")]
    found: list[Any] = [SimpleNamespace(campaign=SimpleNamespace(environment=d)) for d in devices]
    campaigns = [Campaign(Path(name), n) for n, name in enumerate("ab")]
    of_folder = {Path("a"): found[:1], Path("b"): found[1:]}
    monkeypatch.setattr(Campaign, "read", lambda campaign: of_folder[campaign.folder])
    assert only_environment(campaigns[:1]) == devices[0]
    with pytest.raises(
        UsageError, match=r"b.stencil\.db has times of .*, and a.stencil\.db of .*; measure each"
    ):
        only_environment(campaigns)
