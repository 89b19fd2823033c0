"""The claims of the papers are complete, can be tried, and stand on the page as recorded."""

from __future__ import annotations

import importlib
import json
import re
import shlex
from pathlib import Path

import pandas as pd
import pytest

from benchmarks import published
from benchmarks.papers import nvcc_flags, starchart
from benchmarks.papers.claim import Claim, Figure, NoFigure, Settings, joined, runs, short
from harness.core.errors import UsageError
from harness.models.starchart import published_growth

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "results" / "papers.md").read_text(encoding="utf-8")
CLAIMS = list(published.claims(published.all_papers()))
BY_NAME = {claim.name: claim for claim in CLAIMS}
FROM_RESULTS = [claim for claim in CLAIMS if claim.measure and "published" not in claim.command]
QUICK = ["starchart-share", "starchart-watts", "lift-split"]


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_claim_is_complete_and_its_command_exists(
    claim: Claim, capsys: pytest.CaptureFixture[str]
) -> None:
    assert claim.text
    assert claim.published
    python, dash_m, module, *arguments = shlex.split(claim.command)
    assert (python, dash_m) == ("python", "-m")
    command = importlib.import_module(module.replace("harness.", "harness.commands."))
    with pytest.raises(SystemExit):
        command.main(["--help"])
    options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    assert {argument for argument in arguments if argument.startswith("--")} <= options
    for argument in arguments:
        assert not argument.startswith("spaces/") or (ROOT / argument).is_file()
    if module == "benchmarks.published":
        assert arguments[:2] == ["--claim", claim.name]


def test_names_are_unique() -> None:
    assert len(BY_NAME) == len(CLAIMS)


def test_page_has_the_tables_of_the_recorded_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert published.main(["--recorded"]) == 0
    *tables, last = capsys.readouterr().out.splitlines()
    assert "\n".join(tables) in PAGE
    assert set(json.loads(last)) == set(BY_NAME)


def test_each_claim_that_is_computed_here_has_a_recorded_figure() -> None:
    computed = {c.name for c in CLAIMS if c.measure and c not in FROM_RESULTS}
    recorded = set(published.read_record())
    assert computed <= recorded
    assert not {c.name for c in CLAIMS if c.measure is None} & recorded


@pytest.mark.parametrize("claim", FROM_RESULTS, ids=lambda claim: claim.name)
def test_recorded_figure_is_that_of_the_benchmarks_results(claim: Claim) -> None:
    assert claim.measure is not None
    try:
        found = claim.measure(Settings())
    except NoFigure:
        assert claim.name not in published.read_record()
    else:
        assert found == published.read_record()[claim.name]


@pytest.mark.parametrize("name", QUICK)
def test_recorded_figure_is_what_is_computed_now(name: str) -> None:
    measure = BY_NAME[name].measure
    assert measure is not None
    assert measure(Settings()).ours == published.read_record()[name].ours


def test_command_prints_a_table_and_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["--quick", "--claim", "lift-split", "--claim", "nvcc-matmul-1", "--claim"]
    assert published.main([*command, "lift-full"]) == 0
    printed = capsys.readouterr()
    *lines, last = printed.out.splitlines()
    figures = json.loads(last)
    assert figures["lift-split"]["ours"].startswith("1, 2, 4, 32 for")
    assert figures["lift-full"] is figures["nvcc-matmul-1"] is None
    assert sum(line.startswith("**") for line in lines) == 2  # a title for each paper
    assert any("| **needs a GPU** | - |" in line for line in lines)
    assert any("| 9.2 % |" not in line and "| not measured | - |" in line for line in lines)
    assert "nvcc-matmul-1 has no figure: it needs flags/baseline.csv.gz" in printed.err


def test_record_keeps_the_figures_of_other_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(published, "RECORD", tmp_path / "published.jsonl")
    assert published.main(["--claim", "starchart-share", "--record"]) == 0
    assert published.main(["--claim", "lift-split", "--record"]) == 0
    assert list(published.read_record()) == ["starchart-share", "lift-split"]
    assert published.main(["--quick", "--record"]) == 2
    assert "leave out --quick" in capsys.readouterr().err
    (tmp_path / "published.jsonl").write_text('{"claim": "lift-split", "other": 1}\n')
    with pytest.raises(UsageError, match="is not a record of figures"):
        published.read_record()


def test_smaller_trees_of_the_authors_samples_are_as_good_as_published() -> None:
    found, leaves = starchart.errors("wattage", published_growth(), draws=2)
    assert max(found) < 0.04
    assert max(leaves) <= 50


def test_saved_time_is_that_of_the_logs(tmp_path: Path) -> None:
    """Half of the time of -O2 is saved on one GPU; another has no tuned program of this size."""
    times = json.dumps([2.0, 2.02, 1.98])
    baseline = [("GTX-680", "App", "size_64_baseline", level, times) for level in (0, 2)]
    baseline.append(("Tesla-K20", "App", "size_64_baseline", 2, times))
    tuned = [("GTX-680", "App", "size_64_time_3600", "run_0", json.dumps([1.0, 1.01, 0.99]))]
    (tmp_path / "flags").mkdir()
    columns = ["gpu", "app", "exp"]
    pd.DataFrame(baseline, columns=[*columns, "opt_level", "times_json"]).to_csv(
        tmp_path / nvcc_flags.BASELINE, index=False
    )
    pd.DataFrame(tuned, columns=[*columns, "run", "times_json"]).to_csv(
        tmp_path / nvcc_flags.TUNED, index=False
    )
    found = nvcc_flags.saved(Settings(tmp_path), "App", 64)
    assert re.fullmatch(r"GTX 680 50\.0 % \[4\d\.\d, 5\d\.\d\]", found.ours)
    assert found.device == "GTX 680, the authors' logs"


def test_last_row_of_a_kernel_counts(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    lines = [
        {"device": "NVIDIA A, 1", "date": "2026-01-01", "rows": [{"kernel": "b", "n": 1}]},
        {"device": "NVIDIA B, 1", "date": "2026-01-02", "rows": [{"kernel": "b", "n": 2}]},
        {"device": "NVIDIA B, 1", "date": "2026-01-02", "rows": [{"kernel": "a", "n": 3}]},
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    found = list(runs(path, "rows"))
    assert [row["n"] for row, _ in found] == [3, 2]
    assert joined([("x", figure) for _, figure in found]).device == "NVIDIA B"
    path.write_text('{"device": "A"}')
    with pytest.raises(UsageError, match="JSON lines of its benchmark"):
        list(runs(path, "rows"))
    with pytest.raises(NoFigure, match="has no result yet"):
        joined([])


def test_devices_are_shortened() -> None:
    long = "pthread-AMD EPYC, 2 compute units (Portable Computing Language, driver 3.0-rc2)"
    assert short(long) == "AMD EPYC (CPU), PoCL"
    assert short("NVIDIA H100, driver 580") == "NVIDIA H100"
    assert Figure("1", "any", "2026-01-01").device == "any"
