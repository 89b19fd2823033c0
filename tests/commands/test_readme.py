"""The pages stay true: their commands parse, links lead somewhere, figures are on record.

tests/commands/test_docs.py runs the README, the tutorial and the how-to pages.
"""

import json
import pkgutil
import re
import shlex
import sqlite3
import statistics
from dataclasses import replace

import pytest

from harness.commands.run import make_parser
from harness.core.records import Config, Input
from harness.display.inputs import PAIRED, times_note
from tests.helpers.pages import ROOT, blocks, read_page
from tests.helpers.replays import FormulaMeasurer, formula_s, make_spec, ran

README = read_page("README.md")
PAGES = {
    str(page.relative_to(ROOT)): page.read_text(encoding="utf-8")
    for pattern in ("*.md", "docs/README.md", "docs/t*.md", "docs/*/*.md", "results/*.md")
    for page in sorted(ROOT.glob(pattern))
    if page.name != "CHANGELOG.md"
}


def _commands(page):
    """The harness commands of shell blocks and indented lines."""
    shell = "".join(block.commands for block in blocks(page, "sh", "console"))
    shell = re.sub(r"\\\n", "", shell) + "\n".join(
        re.findall(r"^    (python .*)$", page, re.MULTILINE)
    )
    names = re.findall(
        r"(?:python -m harness\.|(?:^|[ /(])harness )([a-z]+(?: .*)?)$", shell, re.MULTILINE
    )
    return [re.split(r" (?:>|&&|&$|\|+|#) ?", command)[0].strip() for command in names]


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_a_page_parse(page):
    for command in _commands(PAGES[page]):
        name, *words = shlex.split(command)
        assert make_parser(name).parse_args(words), command


def test_the_figures_of_searches_are_those_on_record():
    folder = ROOT / "results" / "search"
    record = json.loads((folder / "overall.json").read_text(encoding="utf-8"))
    warm = json.loads((folder / "warm_start" / "overall.json").read_text(encoding="utf-8"))
    record["one other device"] = warm["auto"]
    page = PAGES["docs/explanation/search.md"]
    rows = re.findall(r"^\| ([^|]+) ((?:\| \d+\.\d % ){3}\| [^|]+)\|$", page, re.MULTILINE)
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


def _links(page):
    """The files and the anchors of a page's links; `kernel[grid](x)` in a block is none."""
    prose = re.sub(r"^ *```.*?^ *```", "", PAGES[page], flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", prose)


def test_the_contents_list_every_page():
    folder = ROOT / "docs"
    listed = {(folder / file).resolve() for file, _ in _links("docs/README.md")}
    own = {folder / "README.md", folder / "index.md"}  # the list itself, and Sphinx's root
    assert not {*folder.glob("**/*.md")} - listed - own


def _anchors(page):
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_every_file_and_section_that_a_page_links_to_exists(page):
    for file, anchor in _links(page):
        target = (ROOT / page).parent / file if file else ROOT / page
        assert target.exists(), file
        assert not anchor or anchor in _anchors(target), f"{file}#{anchor}"


@pytest.mark.parametrize("page", PAGES)
def test_every_path_and_module_that_a_page_names_exists(page):
    paths = re.findall(r"`((?:harness|tests|benchmarks|examples)/[\w./]+)`", PAGES[page])
    assert not [path for path in paths if "NAME" not in path and not (ROOT / path).exists()]
    for name in set(re.findall(r"`(harness\.[\w.]+)`", PAGES[page])):
        pkgutil.resolve_name(name)


def _answers(database):
    query = blocks(PAGES["docs/reference/sql.md"], "sql")[0].text
    with sqlite3.connect(database) as connection:
        connection.row_factory = sqlite3.Row
        return connection.execute(query).fetchall()


def test_the_query_answers_with_the_best_of_the_kernel_as_it_is(tmp_path):
    spec, database = make_spec(tmp_path), tmp_path / "r.db"
    slower = FormulaMeasurer(lambda problem, config: 10 * formula_s(problem, config))
    for kernel, measurer in ((spec, None), (replace(spec, functions=("edited",)), slower)):
        campaign = ran(kernel, database, measurer).campaign
        rows = _answers(database)
        assert len(rows) == len(spec.inputs)
        for row, problem in zip(rows, spec.inputs, strict=True):
            best = Config(json.loads(row["best"]))
            assert Input(json.loads(row["input"])) == problem
            assert (
                row["time_s"]
                == campaign.ledger.searched(problem)[best].time_s
                == campaign.best(problem).time_s
            )
            samples_s = [float(sample) for sample in row["samples_s"].split(",")]
            assert statistics.median(samples_s) == pytest.approx(row["time_s"])
            assert len(samples_s) == 3


def test_the_output_shown_has_the_rule_the_table_and_the_next_step():
    ((_, output),) = blocks(README, "text")
    legend, _ = times_note(Config({"THRD": 256, "LU": 1, "X_CACHE": 1}), ()).split(";")
    for text in ("held-out inputs", f"{legend}; {PAIRED}.", "harness dispatch", "harness analyse"):
        assert text in " ".join(output.split())
