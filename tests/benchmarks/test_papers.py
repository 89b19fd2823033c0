"""The claims of the papers are complete, can be tried, and stand on the page as recorded."""

from __future__ import annotations

import gzip
import importlib
import json
import os
import re
import shlex
from functools import partial
from pathlib import Path

import pytest

from benchmarks import paper_figures, papers, public_data
from harness.commands.run import run
from harness.models.starchart import Growth
from harness.space_file import load_spec

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "results" / "papers.md").read_text(encoding="utf-8")
CLAIMS = papers.all_claims()
COMMANDS = sorted({papers.ours(claim, {})[2] for claim in CLAIMS})
QUICK = [
    "gadapt-tests",
    "gadapt-labels",
    "starchart-share",
    "starchart-threads",
    "starchart-watts",
    "starchart-split",
    "starchart-range",
    "starchart-order",
    "lift-split",
    "lift-best",
]
TABLE_1 = {
    "convolution": "100 %; 200; 2825 s",
    "matmul": "100 %; 196; 2539 s",
    "mvmul": "93.3 %; 124; 124 s",
    "reduction": "80 %; 75; 29 s",
    "scalarprod": "100 %; 93; 237 s",
    "transpose": "100 %; 54; 1639 s",
    "transpose_coalesced": "100 %; 54; 631 s",
}


@pytest.mark.parametrize("line", COMMANDS)
def test_command_of_a_claim_exists(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    for part in line.split(" && "):
        python, dash_m, module, *arguments = shlex.split(part)
        assert (python, dash_m) == ("python", "-m")
        room, _, name = module.partition(".")
        if module == "harness":
            name, *arguments = arguments
        own = partial(run, name) if room == "harness" else importlib.import_module(module).main
        with pytest.raises(SystemExit):
            own(["--help"])
        options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
        assert {argument for argument in arguments if argument.startswith("--")} <= options
        for argument in arguments:
            assert not argument.startswith("spaces/") or (ROOT / argument).is_file()


def test_names_are_unique_and_those_of_the_computed_figures() -> None:
    names = [claim["name"] for claim in CLAIMS]
    assert len(set(names)) == len(names)
    computed = {c["name"] for c in CLAIMS if "device" in c and "ours" not in c}
    assert computed == set(papers.COMPUTED) == set(papers.read_record())


def test_table_1_of_g_adapt_is_whole() -> None:
    shown = {claim["name"]: claim["paper"] for claim in CLAIMS}
    for prefix in ("gadapt-table", "gadapt-cpu-table"):
        assert {kernel: shown[f"{prefix}-{kernel}"] for kernel in TABLE_1} == TABLE_1


def test_printed_bound_of_mvmul_allows_the_124_tests_of_the_paper(tmp_path: Path) -> None:
    path = tmp_path / "sides_8_12_16.yaml"
    path.write_text(
        f"extends: {ROOT / 'spaces' / 'gadapt' / 'mvmul.yaml'}\nname: sides_8_12_16\n"
        "title: Blocks of 8 x 8, 12 x 12 and 16 x 16\n"
        "parameters:\n"
        "  THRD: {values: [64, 144, 256], role: launch, default: 256}\n"
        "  LU: {type: integer, min: 1, max: 4, role: source, default: 1}\n"
        "constraints: [LU <= sqrt(THRD) / 4]\n"
    )
    assert paper_figures.fewest_and_most_tests(load_spec(path)) == (120, 135)


def test_page_is_what_the_command_prints_below_its_head(capsys: pytest.CaptureFixture[str]) -> None:
    assert papers.main([]) == 0
    *tables, last = capsys.readouterr().out.splitlines()
    head, first, below = PAGE.partition("**G-ADAPT (")
    assert first + below == "\n".join(tables) + "\n"
    assert head.startswith("# Claims of the papers")
    assert json.loads(last)["lift-runs"] == "**needs a GPU**"


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.slow
def test_recorded_figure_is_what_is_computed_now(name: str) -> None:
    assert paper_figures.COMPUTED[name]() == papers.read_record()[name]["ours"]


def test_record_keeps_the_figures_of_other_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, page = tmp_path / "published.jsonl", tmp_path / "papers.md"
    record.write_text('{"claim": "lift-best", "ours": "kept", "date": "2026-01-01"}\n')
    page.write_text("The head.\n\n**Old tables**\n")
    monkeypatch.setattr(papers, "RECORD", record)
    monkeypatch.setattr(papers, "PAGE", page)
    assert papers.main(["--compute", "lift-split"]) == 0
    assert page.read_text().startswith("The head.\n\n**G-ADAPT (")
    found = papers.read_record()
    assert found["lift-best"]["ours"] == "kept"
    assert found["lift-split"]["ours"].startswith("1, 2, 4, 32 for")


def test_trees_of_the_authors_samples_are_as_good_and_as_large_as_published() -> None:
    found, _ = paper_figures.errors("wattage", Growth(paper_figures.PUBLISHED_THRESHOLD), draws=2)
    assert max(found) < 0.04
    _, leaves = paper_figures.errors("runtime", Growth(paper_figures.PUBLISHED_THRESHOLD), draws=2)
    assert max(leaves) <= 50


@pytest.mark.parametrize("name", sorted({*public_data.COMPUTED} - {"starchart-recordings"}))
def test_recorded_figure_is_that_of_the_public_measurements(name: str) -> None:
    folder = Path(os.environ.get("HARNESS_RECORDINGS", "")).parent
    if not (folder / "flags").is_dir():
        pytest.skip("HARNESS_RECORDINGS names no folder beside the logs of nvcc's flags")
    record = papers.read_record()[name]
    assert public_data.COMPUTED[name](folder).items() <= record.items()


def test_folder_of_measurements_is_asked_for_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(papers, "RECORD", tmp_path / "published.jsonl")
    (tmp_path / "published.jsonl").touch()
    for folder in ([], ["--data", str(tmp_path / "none")]):
        assert papers.main(["--compute", "lift-split", "nvcc-failures", *folder]) != 0
        assert "public data for nvcc-failures: give --data" in capsys.readouterr().err
    assert not (tmp_path / "published.jsonl").read_text()


def test_copies_in_a_log_count_once(tmp_path: Path) -> None:
    (tmp_path / "flags").mkdir()
    lines = ["gpu,app,exp,run,i,elapsed_s,time_s"]
    for app, seconds in (("a", 1.0), ("copy of a", 1.0), ("b", 9999.0)):
        lines.append(f"GTX-680,{app},size_1_time_9,run_0,0,2.5,{seconds}")
    (tmp_path / "flags" / "trajectories.csv.gz").write_bytes(
        gzip.compress("\n".join(lines).encode())
    )
    found = public_data.failures(tmp_path)["ours"]
    assert found.startswith("50% of 2 tests, 0% to 100% by program and GPU")
