"""The claims of the papers are complete, can be tried, and stand on the page as recorded."""

from __future__ import annotations

import importlib
import json
import re
import shlex
from pathlib import Path

import pytest

from benchmarks import papers, published
from harness.models.starchart import published_growth

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "results" / "papers.md").read_text(encoding="utf-8")
CLAIMS = [claim for paper in published.read_papers() for claim in paper["claims"]]
COMMANDS = sorted({published.ours(claim, {})[2] for claim in CLAIMS if "ours" not in claim})
QUICK = ["starchart-share", "starchart-watts", "lift-split", "lift-best"]


@pytest.mark.parametrize("line", COMMANDS)
def test_command_of_a_claim_exists(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    python, dash_m, module, *arguments = shlex.split(line)
    assert (python, dash_m) == ("python", "-m")
    command = importlib.import_module(module.replace("harness.", "harness.commands."))
    with pytest.raises(SystemExit):
        command.main(["--help"])
    options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    assert {argument for argument in arguments if argument.startswith("--")} <= options
    for argument in arguments:
        assert not argument.startswith("spaces/") or (ROOT / argument).is_file()


def test_names_are_unique_and_those_of_the_computed_figures() -> None:
    names = [claim["name"] for claim in CLAIMS]
    assert len(set(names)) == len(names)
    computed = {c["name"] for c in CLAIMS if "device" in c and "ours" not in c}
    assert computed == set(papers.COMPUTED) == set(published.read_record())


def test_page_has_the_tables_of_the_recorded_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert published.main([]) == 0
    *tables, last = capsys.readouterr().out.splitlines()
    assert "\n".join(tables) in PAGE
    assert "not measured | -" not in PAGE
    assert json.loads(last)["lift-full"] == "**needs a GPU**"


@pytest.mark.parametrize("name", QUICK)
def test_recorded_figure_is_what_is_computed_now(name: str) -> None:
    assert papers.COMPUTED[name]() == published.read_record()[name]["ours"]


def test_record_keeps_the_figures_of_other_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "published.jsonl"
    record.write_text('{"claim": "lift-best", "ours": "kept", "date": "2026-01-01"}\n')
    monkeypatch.setattr(published, "RECORD", record)
    assert published.main(["--claim", "lift-split"]) == 0
    found = published.read_record()
    assert found["lift-best"]["ours"] == "kept"
    assert found["lift-split"]["ours"].startswith("1, 2, 4, 32 for")


def test_smaller_trees_of_the_authors_samples_are_as_good_as_published() -> None:
    found, leaves = papers.errors("wattage", published_growth(), draws=2)
    assert max(found) < 0.04
    assert max(leaves) <= 50


def test_last_row_of_a_kernel_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        {"device": "NVIDIA A, 1", "date": "2026-01-01", "rows": [{"kernel": "b", "n": 1}]},
        {"device": "NVIDIA B, 1", "date": "2026-01-02", "rows": [{"kernel": "b", "n": 2}]},
        {"device": "NVIDIA B, 1", "date": "2026-01-02", "rows": [{"kernel": "a", "n": None}]},
    ]
    (tmp_path / "runs.jsonl").write_text("\n".join(map(json.dumps, lines)))
    monkeypatch.setattr(published, "RESULTS", tmp_path)
    claim = {"file": "runs.jsonl", "rows": "rows", "show": "{n:.1f}"}
    assert published.recorded(claim) == ("a not measured; b 2.0", "NVIDIA B; 2026-01-02")


def test_devices_are_shortened() -> None:
    long = "pthread-AMD EPYC, 2 compute units (Portable Computing Language, driver 3.0-rc2)"
    assert published.short(long) == "AMD EPYC (CPU), PoCL"
    assert published.short("NVIDIA H100, driver 580") == "NVIDIA H100"
