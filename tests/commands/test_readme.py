"""The README stays true: its commands, options, files, space and query are tried here."""

from __future__ import annotations

import argparse
import dataclasses
import json
import pkgutil
import re
import shlex
import sqlite3
import statistics
from pathlib import Path

import pytest

from harness.commands import check
from harness.commands.run import make_parser, model_of
from harness.core.records import Config, Input
from harness.display.inputs import times_note
from tests.helpers.replays import FormulaMeasurer, formula_s, make_spec, opened

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {
    page: (ROOT / page).read_text(encoding="utf-8")
    for page in (
        "README.md",
        "CONTRIBUTING.md",
        "docs/spaces.md",
        "docs/measuring.md",
        "docs/devices.md",
        "docs/fleet.md",
        "docs/pragmas.md",
        "docs/techniques.md",
        "docs/recordings.md",
        "docs/analysis.md",
        "docs/ci.md",
        "docs/flags.md",
        "docs/programs.md",
        "docs/stencil.md",
        "docs/dispatch.md",
        "docs/python.md",
        "docs/suite.md",
        "docs/papers.md",
        "docs/reproduction.md",
        "results/README.md",
        "results/papers.md",
    )
}


def _blocks(language: str, page: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


def _commands() -> list[list[str]]:
    """The harness commands of shell blocks and sentences, as argument lists from the module's name
    on."""
    found = _shell_commands(README)
    found += re.findall(r"`python -m (harness\.\w+[^`]*)`", README)
    return [shlex.split(command) for command in found]


def _shell_commands(page: str) -> list[str]:
    """The harness commands of shell blocks and of indented lines, up to `>`, `&&` or a comment."""
    shell = "".join(_blocks("sh", page)) + "\n".join(
        re.findall(r"^    (python .*)$", page, re.MULTILINE)
    )
    found = re.findall(r"python -m (harness\.\w+.*)", shell)
    return [re.split(r" (?:>|&&|\||#) ?", command)[0].rstrip() for command in found]


def _commands_of_docs() -> list[list[str]]:
    found = {
        command for page in PAGES if page != "README.md" for command in _shell_commands(PAGES[page])
    }
    return [shlex.split(command) for command in sorted(found)]


def _parser(command: str) -> argparse.ArgumentParser:
    """The parser of a command such as `harness.tune`."""
    name = command.removeprefix("harness.")
    return make_parser(name, model_of(name))


@pytest.mark.parametrize("command", [*_commands(), *_commands_of_docs()], ids=" ".join)
def test_a_command_of_the_pages_parses(command: list[str]) -> None:
    assert _parser(command[0]).parse_args(command[1:])


def test_every_option_that_the_readme_names_exists() -> None:
    names = {command[0] for command in _commands()}
    there = {option for name in names for option in _parser(name)._option_string_actions}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z_-]+", README))
    assert not named - there


def test_the_figures_of_searches_are_those_on_record() -> None:
    folder = ROOT / "results" / "search"
    record = json.loads((folder / "overall.json").read_text(encoding="utf-8"))
    warm = json.loads((folder / "warm_start" / "overall.json").read_text(encoding="utf-8"))
    record["one other device"] = warm["auto"]
    rows = re.findall(r"^\| ([^|]+) ((?:\| \d+\.\d % ){3}\| [^|]+)\|$", README, re.MULTILINE)
    shown = {re.findall(r"\w+", name)[-1]: re.findall(r"[\d.]+", cells) for name, cells in rows}
    assert len(shown) == 7
    for name, found in record.items():
        key = {"opentuner": "AUCBanditMetaTechniqueA"}.get(name, re.findall(r"\w+", name)[-1])
        if key in shown:
            *percentages, tests = map(float, shown.pop(key))
            expected = [100 * found[at] for at in ("at_25", "at_100", "at_200")]
            assert percentages == pytest.approx(expected, abs=0.06)
            assert tests == pytest.approx(found["tests_to_5pct"] or 400, abs=0.5)
    assert not shown


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_links_to_exists(page: str) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", PAGES[page])
    missing = [link for link in links if not ((ROOT / page).parent / link).exists()]
    assert not missing


def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_every_section_that_a_page_links_to_exists(page: str) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", PAGES[page])
    here = ROOT / page
    missing = [
        f"{file}#{anchor}"
        for file, anchor in links
        if anchor not in _anchors(here.parent / file if file else here)
    ]
    assert not missing


@pytest.mark.parametrize("page", PAGES)
def test_every_path_and_module_that_a_page_names_exists(page: str) -> None:
    paths = re.findall(r"`((?:harness|tests|benchmarks|examples)/[\w./]+)`", PAGES[page])
    assert not [path for path in paths if "NAME" not in path and not (ROOT / path).exists()]
    for name in set(re.findall(r"`(harness\.[\w.]+)`", PAGES[page])):
        pkgutil.resolve_name(name)


@pytest.mark.usefixtures("opencl")
@pytest.mark.parametrize(
    ("page", "name", "inputs"), [("README.md", "sums", 4), ("docs/spaces.md", "scale", 2)]
)
def test_the_three_files_of_a_page_are_a_space_whose_default_is_right_on_each_input(
    page: str, name: str, inputs: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for language, suffix in (("c", "cl"), ("python", "py"), ("yaml", "yaml")):
        block = _blocks(language, PAGES[page])[0]
        (tmp_path / f"{name}.{suffix}").write_text(block)
    assert check.main([str(tmp_path / f"{name}.yaml"), "--run", "--backend", "opencl"]) == 0
    printed = capsys.readouterr().out
    assert printed.count(": OK, ") == inputs
    assert "verify is weak" not in printed


def _answers(database: Path) -> list[sqlite3.Row]:
    (query,) = _blocks("sql")
    with sqlite3.connect(database) as connection:
        connection.row_factory = sqlite3.Row
        return connection.execute(query).fetchall()


def test_the_query_answers_with_the_best_configuration_and_its_samples(tmp_path: Path) -> None:
    spec = make_spec(tmp_path)
    with opened(spec, tmp_path / "r.db", FormulaMeasurer()) as (campaign, _):
        campaign.run()
        times = campaign.times()
    rows = _answers(tmp_path / "r.db")
    assert len(rows) == len(spec.inputs)
    for row, problem in zip(rows, spec.inputs, strict=True):
        best = Config(json.loads(row["best"]))
        assert Input(json.loads(row["input"])) == problem
        assert row["median_s"] == times[problem][best] == min(times[problem].values())
        samples_s = [float(sample) for sample in row["samples_s"].split(",")]
        assert statistics.median(samples_s) == pytest.approx(row["median_s"])
        assert len(samples_s) == 3


def test_the_query_answers_for_the_kernel_as_it_now_is(tmp_path: Path) -> None:
    spec = make_spec(tmp_path)
    with opened(spec, tmp_path / "r.db", FormulaMeasurer()) as (campaign, _):
        campaign.run()
    edited = dataclasses.replace(spec, functions=("edited",))
    slower = FormulaMeasurer(lambda problem, config: 10 * formula_s(problem, config))
    with opened(edited, tmp_path / "r.db", slower) as (campaign, _):
        campaign.run()
        times = campaign.times()
    found = [row["median_s"] for row in _answers(tmp_path / "r.db")]
    assert found == [min(times[problem].values()) for problem in spec.inputs]


def test_the_ci_script_runs_the_readmes_own_test_command() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    found = re.search(r"grep -m 1 -E '([^']+)' README\.md", script)
    assert found is not None
    (line,) = [line for line in README.splitlines() if re.search(found[1], line)]
    assert line in "".join(_blocks("sh"))


def test_the_output_shown_has_the_rule_the_table_and_the_next_step() -> None:
    (output,) = _blocks("text")
    legend = times_note(Config({"THRD": 256, "LU": 1, "X_CACHE": 1}), ())
    for text in ("held-out inputs", "speed-up", legend, "harness.dispatch", "harness.analyse"):
        assert text in " ".join(output.split())
