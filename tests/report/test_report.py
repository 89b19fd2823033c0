"""The report: its figures as numbers, and the page as a browser shows it."""

import io
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness.core.cache import Cache
from harness.core.records import Config, Timing
from harness.dispatch.matrix import make_matrix
from harness.dispatch.study import QUICK, Study
from harness.display.inputs import noise_lines
from harness.report import figures, plots
from harness.report.findings import Findings
from harness.report.page import commands, facts_of, sections, warnings_of
from harness.stats.timing import TimeRatio
from tests.helpers.commands import report as main
from tests.helpers.matrices import table
from tests.helpers.replays import (
    BLOCKS_AND_TILES,
    FormulaMeasurer,
    make_spec,
    ran,
    results_of,
    small_space,
)


@pytest.fixture
def results(sized):
    return sized


def test_search_curves_end_at_the_best_and_have_a_point_per_improvement(results):
    found = figures.search_curves(results)
    assert [curve.label for curve in found] == [f"n={n}" for n in (8, 16, 32, 64, 128, 256)]
    for curve in found:
        assert curve.reached[-1] == 1
        assert curve.tests[-1] == 8
        assert list(curve.reached[:-1]) == sorted(set(curve.reached[:-1]))
        assert list(curve.seconds) == sorted(curve.seconds)
        assert curve.seconds[0] >= 0


def test_boxes_have_the_final_samples_of_the_best_the_default_and_baselines(tmp_path, monkeypatch):
    def formula_s(problem, config):
        return {16: 1e-3, 32: 3e-3, 64: 2e-3, 256: 4e-3}[int(str(config["BLOCK"]))]

    monkeypatch.setattr(figures, "MOST_BOXES", 2)
    text = small_space(BLOCKS_AND_TILES, 1, 2, 3) + "baselines: {middle: {BLOCK: 64}}\n"
    measured = results_of(tmp_path, text, FormulaMeasurer(formula_s), test_limit=8)
    assert figures.final_samples(measured, Findings(measured).reports) == {}  # it is a replay
    measured = replayed_as("opencl", measured)
    samples = figures.final_samples(measured, Findings(measured).reports)
    names = ("BLOCK=16", "default", "middle")
    assert list(samples) == [f"n={n}: {name}" for n in (1, 2) for name in names]
    assert [np.median(samples[f"n=1: {name}"]) for name in names] == pytest.approx([0.25, 1, 0.5])
    assert "n=1: middle" in plots.boxes(samples)


def test_seconds_of_a_search_count_from_its_first_measurement(results):
    rows = [
        replace(row, measured_at=f"2026-01-01T00:00:{number:02}.500+00:00")
        for number, row in enumerate(results.rows.of_stages(["search"])[:8])
    ]
    (curve,) = figures.search_curves(replace(results, all_rows=rows))
    assert curve.seconds == pytest.approx(
        [ended - 1 + rows[0].measurement.wall_s for ended in curve.tests]
    )
    assert plots.best_by_seconds([curve]).startswith("<svg")


def test_heat_map_keeps_what_is_best_or_chosen():
    time = np.full((3, 50), 5.0)
    time[[0, 1, 2], [40, 41, 42]] = 1.0
    found = figures.heat_map(table(time), np.array([40, 41, 7]), Config({"BLOCK": 7}))
    kept = [int(label.removeprefix("BLOCK=").replace("default", "7")) for label in found.labels]
    assert len(kept) == figures.MOST_COLUMNS
    assert {40, 41, 42, 7} <= set(kept)
    assert [kept[index] for index in found.chosen] == [40, 41, 7]
    assert kept.index(40) < kept.index(41) < kept.index(42)
    assert found.slowdowns[0, kept.index(40)] == 1
    assert found.labels[kept.index(7)] == "default"
    assert found.labels[kept.index(40)] == "BLOCK=40"


def test_labels_that_do_not_fit_are_numbers():
    import pandas as pd

    names = [f"parameter_{number}" for number in range(9)]
    configs = [Config(dict.fromkeys(names, value)) for value in (1, 2)]
    matrix = make_matrix(pd.DataFrame({"n": [1]}), configs, np.array([[1.0, 2.0]]))
    found = figures.heat_map(matrix, None, configs[0])
    assert found.labels == ("1", "2")
    assert found.changes == ("default", ", ".join(f"{name}=2" for name in names))


def test_one_point_of_a_search_is_drawn_as_a_dot_and_one_input_as_a_line():
    for tests, reached in (((1,), (1.0,)), ((1, 9), (0.5, 1.0))):
        svg = plots.best_by_tests([figures.SearchCurve("n=1", tests, (0.5, 2.0), reached)])
        assert "stroke-width: 2" in svg
        assert svg.count("<use xlink:href") > len(tests)  # dots, beside the ticks
        assert "stroke-opacity: 0.35" not in svg


def test_pictures_are_drawn_once(results, monkeypatch):
    def pictures():
        every = sections(Findings(results))
        return [section.picture for section in every if section is not None]

    drawn = pictures()
    assert sum("<svg" in picture for picture in drawn) >= 5
    monkeypatch.setattr(plots, "_svg", lambda _figure: pytest.fail("it is drawn again"))
    assert pictures() == drawn


def test_a_picture_of_other_data_is_another_one(results, tmp_path):
    found = Findings(results, cache=Cache(tmp_path))
    one, other = (
        found.picture(
            plots.best_by_tests, [figures.SearchCurve("n=1", (1, 9), (1, 2), (reached, 1))]
        )
        for reached in (0.3, 0.5)
    )
    assert one != other


def test_the_page_warns_of_noise_as_the_console_does(results):
    assert list(warnings_of(Findings(results))) == []
    rows = tuple(replace(row, measurement=noisy(row.measurement)) for row in results.rows)
    findings = Findings(replace(results, all_rows=rows))
    (warning,) = warnings_of(findings)
    assert warning.startswith("Timings are noisy on 6 of 6 inputs")
    assert [warning] == list(noise_lines(findings.reports))


def noisy(measurement):
    if measurement.timing is None:
        return measurement
    times = tuple(measurement.time_s * factor for factor in (0.1, 1, 9))
    return replace(measurement, timing=Timing(times))


@pytest.mark.parametrize("pays", [True, False])
def test_tree_and_verdict_are_shown_only_where_choosing_by_input_pays(
    undrawn, results, monkeypatch, pays
):
    monkeypatch.setattr(Study, "has_choice", pays)
    findings = Findings(results, learners=QUICK)
    by_anchor = {section.anchor: section for section in sections(findings) if section is not None}
    choice = by_anchor["choice"]
    assert ("verdict" in by_anchor) == bool(choice.lines) == pays
    assert ("Rings" in by_anchor["heat-map"].texts[0]) == pays
    assert choice.texts[0].startswith("Which configuration") == pays


def test_a_program_has_no_backend(results):
    assert ("device", "formula") in facts_of(replayed_as("command", results))
    assert ("device", "formula (opencl)") in facts_of(replayed_as("opencl", results))


def test_the_commands_are_as_they_were_typed(results):
    """The fixture tuned from Python, where nobody typed a command."""
    assert [line.split()[3] for line in commands(results)] == ["analyse", "dispatch", "report"]
    (command,) = results.commands
    typed = [("x.yaml", "--inputs", "n > 7"), ("x.yaml",), ("x.yaml",)]
    repeated = tuple(replace(command, arguments=words) for words in typed)
    replayed = replace(results, commands=repeated)
    assert next(commands(replayed)) == "python -m harness replay x.yaml --inputs 'n > 7'"
    lines = list(commands(replayed_as("opencl", replayed)))
    assert lines[:2] == [
        "python -m harness tune x.yaml --inputs 'n > 7'",
        "python -m harness tune x.yaml",
    ]
    runs = tuple(replace(run, notes={}) for run in results.runs)
    elsewhere = replace(results, commands=repeated, runs=runs)
    assert next(commands(elsewhere)) == "# in the folder where you tuned:"
    in_python = (replace(runs[0], notes={"space_file": "<x>"}),)
    found = list(commands(replace(results, runs=in_python)))
    assert found[1] == 'harness.tune(space, ...).dispatcher("out")'


def replayed_as(backend, results):
    environment = replace(results.campaign.environment, backend=backend)
    campaign = replace(results.campaign, environment=environment)
    return replace(results, campaign=campaign)


def test_when_is_from_the_first_begin_to_the_last_end(results):
    first, *others, last = results.runs
    first = replace(first, started_at="2026-03-01T22:10:00.000+00:00")
    last = replace(last, last_at="2126-03-02T01:20:59.999+00:00")
    runs = [last, *others, first]
    measured = dict(facts_of(replace(results, runs=runs)))["measured"]
    assert measured == "2026-03-01 22:10 to 2126-03-02 01:20 UTC"
    assert dict(facts_of(replace(results, runs=())))["measured"] == "unknown"


def test_shared_samples_count_once(results):
    row = next(row for row in results.rows if row.measurement.timing)
    copy = replace(row.measurement, shared_with=row.measurement.config.digest)
    shared = replace(row, measurement=copy)
    assert figures.sample_count(replace(results, all_rows=(row, shared))) == 3


# --------------------------------------------------------------------------- in a browser


@pytest.fixture(scope="module")
def browser():
    path = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
    if path is None:
        pytest.skip("no Chromium: install it, on Debian with apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened_browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened_browser
        opened_browser.close()


@pytest.fixture(scope="module")
def report(sized):
    (database,) = sized.databases
    path = Path(database).with_name("small.html")
    assert main([database, "-o", path]) == 0
    return path


@pytest.mark.slow
def test_the_page_shows_every_section(report, browser):
    opened_page = browser.new_page(viewport={"width": 1000, "height": 800}, device_scale_factor=1)
    messages = []
    requests = []
    opened_page.on("console", lambda message: messages.append(message.text))
    opened_page.on("pageerror", lambda error: messages.append(str(error)))
    opened_page.on("request", lambda request: requests.append(request.url))
    opened_page.goto(report.as_uri())
    assert messages == []
    assert [url for url in requests if not url.startswith("data:")] == [report.as_uri()]
    assert opened_page.locator("h1").inner_text() == "<b>A small</b> space"
    titles = opened_page.locator("section h2").all_inner_texts()
    assert len(titles) == len(set(titles)) == opened_page.locator("section").count() == 12
    assert opened_page.locator("nav a").all_inner_texts() == titles
    assert titles[-1] == "What was measured"
    first = opened_page.locator("p.verdict").first.inner_text()
    assert first.startswith(("Use ", "Choose by ", "Keep the default"))
    assert cut(opened_page, ".wide") == [], "tables stay within the text"
    pictures = opened_page.locator("figure").all()
    assert len(pictures) >= 5
    for picture in pictures:
        assert _has_colours(picture.screenshot()), picture.get_attribute("aria-label")
    assert_fits(opened_page, 1000)
    opened_page.emulate_media(color_scheme="dark")
    opened_page.set_viewport_size({"width": 390, "height": 800})
    assert _has_colours(pictures[0].screenshot())
    assert_fits(opened_page, 390)
    opened_page.close()


def assert_fits(opened_page, width):
    """No text is wider than the page, but for two large pictures."""
    assert opened_page.evaluate("document.documentElement.scrollWidth") <= width
    assert cut(opened_page, "pre") == []
    assert set(cut(opened_page, "figure")) <= {"Inputs and configurations", "Tree of the slowdown"}


LONG = """\
name: long
kernel: {function: kernel, source: kernel.cl, host: kernel.py}
parameters:
  BLOCK: {values: [16, 64], default: 64}
PARAMETERS
launch: {group: [BLOCK], grid: ["batch * SIZES"]}
inputs:
  features: [batch, channels, resolution]
  values: [{batch: 128, channels: 1024, resolution: 224}, {batch: 8, channels: 64, resolution: 56}]
"""


@pytest.mark.slow
def test_long_names_fit_the_page_and_no_label_is_cut(tmp_path, browser):
    names = [f"ELEMENTS_PER_THREAD_{letter}" for letter in "ABCDEFG"]
    parameters = "\n".join(f"  {name}: {{values: [1, 16], default: 1}}" for name in names)
    text = LONG.replace("PARAMETERS", parameters).replace("SIZES", " * ".join(names))

    def formula_s(problem, config):
        return 7.345e-3 * (1 + 1.5 * list(config.values()).count(1))

    every = tuple(Config({"BLOCK": 16, **dict.fromkeys(names, number)}) for number in (1, 16))
    measurer, page = FormulaMeasurer(formula_s), tmp_path / "r.html"
    ran(make_spec(tmp_path, text), tmp_path / "r.db", measurer, seeds=every, test_limit=20)
    assert main([tmp_path / "r.db", "-o", page]) == 0
    opened_page = browser.new_page(viewport={"width": 1280, "height": 800})
    opened_page.goto(page.as_uri())
    assert "ELEMENTS_PER_THREAD_G=16" in opened_page.locator("td").all_inner_texts()[1]
    assert "Best configuration per input" not in cut(opened_page, ".wide")
    outside = """[...document.querySelectorAll("figure svg text")].filter(text => {
        const [own, all] = [text, text.closest("svg")].map(one => one.getBoundingClientRect());
        return own.left < all.left - 1 || own.right > all.right + 1;
    }).map(text => text.textContent)"""
    assert opened_page.evaluate(outside) == []
    opened_page.close()


def cut(opened_page, selector):
    """Return the sections with elements that are narrower than their content."""
    return opened_page.evaluate(
        """selector => [...document.querySelectorAll(selector)]
            .filter(one => one.scrollWidth > one.clientWidth)
            .map(one => one.closest("section").querySelector("h2").innerText)""",
        selector,
    )


def _has_colours(png):
    """Return whether a picture has more than ten colours."""
    return Image.open(io.BytesIO(png)).convert("RGB").getcolors(10) is None


# ---------- axes of pictures


@pytest.mark.parametrize("low, high", [(0.95, 1.06), (0.16, 11), (1, 1.02), (1, 500)])
def test_ticks_of_logarithms_are_plain_numbers_and_several(low, high):
    svg = plots.gains({"n": TimeRatio((low * high) ** 0.5, low, high, 20)})
    ticks = [float(text) for text in re.findall(r">([\d.]+)</text>", svg)]
    assert 3 <= len(ticks) <= 12
    assert ticks == sorted(ticks)
