"""Programs by devices: failures, and speed-ups over each baseline, of merged databases."""

import json
import math
import re
from dataclasses import replace

import pytest

from harness.analysis.coverage import input_reports
from harness.analysis.inputs import InputReport
from harness.analysis.summary import summarize
from harness.core.records import Input, Outcome
from harness.results.view import read_results
from harness.space_file.baselines import level_of
from harness.stats.timing import TimeRatio
from tests.helpers.commands import analyse, merge, report
from tests.helpers.replays import FormulaMeasurer, make_spec, ran, small_space

MORE = """\
flags: {nvcc: {level: {values: [0, 1, 2], option: "-Xptxas --opt-level={value}"}}}
baselines: {few: {BLOCK: 24}}
measure: {repeats: 6}
"""
SLOW, FAST = "a slow GPU", "a fast GPU"


def formula_s(problem, config):
    """Level 2 takes 1.12 times the default's time, a block of 64 0.8 times; level 0 fails."""
    time_s = {0: math.inf, 1: 2.2e-3, 2: 1.12e-3, None: 1e-3}[config["level"]]
    return time_s * (0.8 if config["BLOCK"] == 64 else 1.0)


def fill(folder, name, device, *inputs):
    """Tune one program on one device, and return the database."""
    text = small_space("BLOCK: {values: [24, 32, 64], default: 32}", *inputs, more=MORE, name=name)
    spec = replace(make_spec(folder, text), functions=(name,))  # each a program
    measurer = FormulaMeasurer(formula_s, interleaves=True)
    measurer.compiler = "nvcc"
    measurer.environment = replace(measurer.environment, device=device)
    path = folder / f"{name} {device}.db"
    ran(spec, path, measurer, cross=False, ablate=False)
    return path


@pytest.fixture(scope="module")
def merged(tmp_path_factory):
    """Two programs on one device, and one of them on another, in one database."""
    folder = tmp_path_factory.mktemp("merged")
    parts = [
        fill(folder, "product", SLOW, 8, 16),
        fill(folder, "product", FAST, 8),
        fill(folder, "sum", FAST, 8),
    ]
    assert merge([folder / "all.db", *map(str, parts)]) == 0
    return str(folder / "all.db")


def test_tables_have_programs_as_rows_and_devices_as_columns(merged, capsys):
    assert analyse([merged, "--summary"]) == 0
    failed, *speedups = re.split("^Failed tests|^Speed-up ", capsys.readouterr().out, flags=re.M)[
        1:
    ]
    over = ["over -O2", "over the default", "over -O1", "over few"]
    assert [table.splitlines()[0] for table in speedups] == over
    for table in (failed, *speedups):
        _, _, head, _, product, of_sum = table.splitlines()[:6]
        assert head.index("program") < head.index(FAST) < head.index(SLOW)
        assert (product.split()[0], of_sum.split()[0]) == ("product", "sum")
        assert of_sum.endswith("not tuned")
    assert re.search(
        r"product +3 of 12 .25 %.: 3 build_failed +6 of 24 .25 %.: 6 build_failed", failed
    )
    for table, ratio in zip(speedups, ("1.40x [1.", "1.25x [1."), strict=False):
        assert ratio in table


def test_plain_analysis_ends_with_the_tables_and_json_and_report_have_them(
    undrawn, merged, tmp_path, capsys
):
    assert analyse([merged]) == 0
    assert "Speed-up over -O2" in capsys.readouterr().out.split("Programs and devices")[1]
    assert analyse([merged, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)["summary"]
    cells = {(cell["program"], cell["device"]): cell for cell in summary}
    assert set(cells) == {("product", SLOW), ("product", FAST), ("sum", FAST)}
    slow = cells["product", SLOW]
    assert (slow["tests"], slow["failures"], slow["inputs"]["-O2"]) == (24, {"build_failed": 6}, 2)
    assert slow["speedups"]["-O2"]["value"] == pytest.approx(1.12 / 0.8)
    assert slow["speedups"]["-O2"]["is_faster"]
    page = tmp_path / "page.html"
    assert report([merged, "-o", page]) == 0
    text = page.read_text()
    titles = ("Programs and devices", "Speed-up over -O2", "Best configuration per input")
    places = [text.index(title) for title in titles]
    assert places == sorted(places)


def test_options_of_trees_do_not_go_with_the_summary(merged, capsys):
    for more in ("--tree", "--platforms", "--json"):
        assert analyse([merged, "--summary", more]) == 2
        assert "--summary" in capsys.readouterr().err


def names(*results):
    """The names of programs, and of devices."""
    cells = summarize((one, input_reports(one)) for one in results)
    return [cell.program for cell in cells], [cell.device for cell in cells]


def with_key(results, **changes):
    key = replace(results.campaign.key, **changes)
    return replace(results, campaign=replace(results.campaign, key=key))


def test_names_say_what_else_differs(merged):
    both = read_results(merged, "product")
    fast = next(r for r in both if r.campaign.environment.device == FAST)
    newer = replace(fast.campaign.environment, driver="580")
    campaign = replace(fast.campaign, environment=newer)
    other = replace(fast, campaign=campaign)
    assert sorted(names(*both, other)[1]) == [f"{FAST}, 580", f"{FAST}, recorded", SLOW]
    again = with_key(fast, campaign=2)
    assert names(fast, again)[0] == ["product, campaign 1", "product, campaign 2"]
    edited = with_key(fast, program_sha256="f" * 64)
    assert names(fast, edited)[0][1] == "product, version ffffffff"


def test_mean_over_inputs_is_geometric_and_narrower_than_each(merged):
    (results,) = read_results(merged, "sum")
    reports = []
    for n, value in enumerate((2.0, 0.5, 8.0, 8.0)):
        speedup = TimeRatio(value, value / 1.1, value * 1.1, 6)
        reports.append(InputReport(Input({"n": n}), None, None, speedup, 0, {Outcome.OK: 1}, None))
    mean = summarize([(results, reports)])[0].speedups["default"]
    assert mean.value == pytest.approx(64**0.25)
    assert mean.high / mean.value == pytest.approx(1.1**0.5)
    assert mean.low * mean.high == pytest.approx(mean.value**2)
    assert mean.count == 4
    assert mean.is_significant


def test_levels_are_recognised_however_they_are_spelled():
    for name in ("-O2", "-Xptxas -O2", "-Xptxas --opt-level=2", "-cl-nv-opt-level=2"):
        assert level_of(name) == "-O2"
    for name in ("-cl-opt-disable", "few", "-O22", "-foo-O2"):
        assert level_of(name) is None
