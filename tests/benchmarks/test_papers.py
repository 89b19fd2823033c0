"""The claims of the papers are complete, can be tried, and stand on the page as recorded."""

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
from tests import ROOT

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


@pytest.mark.parametrize("line", COMMANDS)
def test_command_of_a_claim_exists(line, capsys):
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


def test_names_are_unique_and_those_of_the_computed_figures():
    names = [claim["name"] for claim in CLAIMS]
    assert len(set(names)) == len(names)
    computed = {c["name"] for c in CLAIMS if "device" in c and "ours" not in c}
    assert computed == set(papers.COMPUTED) == set(papers.read_record())


def test_page_is_what_the_command_prints_below_its_head(capsys):
    assert papers.main([]) == 0
    *tables, last = capsys.readouterr().out.splitlines()
    head, first, below = PAGE.partition("**G-ADAPT (")
    assert first + below == "\n".join(tables) + "\n"
    assert head.startswith("# Claims of the papers")
    assert json.loads(last)["lift-runs"] == "**needs a GPU**"


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.slow
def test_recorded_figure_is_what_is_computed_now(name):
    assert paper_figures.COMPUTED[name]() == papers.read_record()[name]["ours"]


def test_trees_of_the_authors_samples_are_as_good_and_as_large_as_published():
    found, _ = paper_figures.errors("wattage", Growth(paper_figures.PUBLISHED_THRESHOLD), draws=2)
    assert max(found) < 0.04
    _, leaves = paper_figures.errors("runtime", Growth(paper_figures.PUBLISHED_THRESHOLD), draws=2)
    assert max(leaves) <= 50


@pytest.mark.parametrize("name", sorted({*public_data.COMPUTED} - {"starchart-recordings"}))
def test_recorded_figure_is_that_of_the_public_measurements(name):
    folder = Path(os.environ.get("HARNESS_RECORDINGS", "")).parent
    if not (folder / "flags").is_dir():
        pytest.skip("HARNESS_RECORDINGS names no folder beside the logs of nvcc's flags")
    record = papers.read_record()[name]
    assert public_data.COMPUTED[name](folder).items() <= record.items()
