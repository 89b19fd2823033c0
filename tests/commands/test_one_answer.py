"""All commands give one answer from one database, whatever was edited, cut short or merged."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import harness
from harness.commands.run import run
from harness.tuning.state import State
from tests.golden.formula import FormulaGpu
from tests.golden.make import INPUTS, OPENED
from tests.golden.texts import text_of_page

Capture = pytest.CaptureFixture[str]

POINTS = ({"m": 64, "n": 64}, {"m": 512, "n": 2048})
ALL_BLOCKS = "BLOCK: {values: [16, 64, 256], role: launch, default: 64}"
EDITS = {
    "values": (ALL_BLOCKS, ALL_BLOCKS.replace(", 256", "")),
    "constraint": ("BLOCK * TILE <= 512", "BLOCK * TILE <= 128"),
}
"""Each rules BLOCK=256 out, which is the fastest where n is 2048."""


class Folder:
    """A folder with the space of the golden outputs, where commands run on the GPU by formula."""

    def __init__(self, path: Path, capsys: Capture) -> None:
        self.path, self._capsys = path, capsys
        for file in INPUTS.glob("rows.*"):
            shutil.copy(file, path)

    def space(self, name: str, *edits: tuple[str, str], points: Sequence[Any] = POINTS) -> str:
        """Write the space with these edits on a few inputs."""
        text = (INPUTS / "rows.yaml").read_text()
        values = f"  values: {json.dumps(list(points))}\n"
        text = re.sub(r"  values:\n(?:    - .*\n)+", values, text)
        for old, new in edits:
            assert old in text
            text = text.replace(old, new)
        (self.path / f"{name}.yaml").write_text(text)
        return f"{name}.yaml"

    def run(self, line: str, code: int = 0) -> str:
        """Run a command; return what it prints."""
        command, *words = line.split()
        assert run(command, words) == code
        return self.output()

    def output(self) -> str:
        """Return what was printed since the last call."""
        return self._capsys.readouterr().out

    def json(self, line: str) -> Any:
        """Run a command with --json; return its document."""
        return json.loads(self.run(f"{line} --json"))


@pytest.fixture
def folder(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(OPENED, lambda *_: ({"": FormulaGpu("one")}, "by formula"))
    monkeypatch.setenv("COLUMNS", "150")
    return Folder(tmp_path, capsys)


FACTS = ("input", "best", "recommended", "time_s", "speedup", "measured", "legal", "outcomes")


def facts(results: Mapping[str, Any]) -> dict[str, Any]:
    """What a document says of each input."""
    inputs = sorted(results["inputs"], key=lambda document: json.dumps(document["input"]))
    return {json.dumps(i["input"]): {name: i[name] for name in FACTS} for i in inputs}


# ---------------------------------------------------------------------------- an edited space


@pytest.mark.parametrize("edit", EDITS)
def test_the_space_that_is_given_or_was_tuned_last_decides(folder: Folder, edit: str) -> None:
    first, second = folder.space("first"), folder.space("second", EDITS[edit])
    options = "--database r.db --quiet"
    of_first = folder.json(f"tune {first} {options}")["results"]
    of_second = folder.json(f"tune {second} {options}")["results"]
    long_rows = json.dumps(POINTS[1])
    assert facts(of_first)[long_rows]["best"]["BLOCK"] == 256
    assert facts(of_second)[long_rows]["best"]["BLOCK"] != 256
    (analysed,) = folder.json("analyse r.db")["analyses"]
    assert facts(analysed["results"]) == facts(of_second)
    assert analysed["results"]["advice"] == of_second["advice"]
    (sentence,) = [w for w in of_second["warnings"] if "another version of the space" in w]
    assert sentence in analysed["results"]["warnings"]
    for options, results in (("", of_second), (f"--spec {first}", of_first)):
        document = folder.json(f"dispatch r.db -o out {options}")
        assert document["single"]["config"] == results["single"]["config"]
        assert (sentence in document["notices"]) is (results is of_second)


def test_measurements_of_a_wider_space_count_where_the_last_one_allows_them(folder: Folder) -> None:
    narrow, wide = folder.space("narrow", EDITS["values"]), folder.space("wide")
    for space in (wide, narrow):
        folder.run(f"tune {space} --database r.db --quiet --test-limit 60")
    (analysed,) = folder.json("analyse r.db")["analyses"]
    for of_input in analysed["results"]["inputs"]:
        assert of_input["measured"] == of_input["legal"]
    again = folder.json(f"tune {wide} --database r.db --quiet --test-limit 60")
    assert "another version" not in json.dumps(again["results"]["warnings"])
    (analysed,) = folder.json("analyse r.db")["analyses"]
    assert facts(analysed["results"]) == facts(again["results"])


def test_a_condition_that_is_new_leaves_out_what_it_makes_irrelevant(folder: Folder) -> None:
    edit = ("TILE: {values: [1, 2, 4], default: 1}",
            "TILE: {values: [1, 2, 4], default: 1, when: BLOCK < 256}")  # fmt: skip
    folder.run(f"tune {folder.space('first')} --database r.db --quiet --test-limit 60")
    tuned = folder.json(f"tune {folder.space('second', edit)} --database r.db --quiet")
    (analysed,) = folder.json("analyse r.db")["analyses"]
    assert facts(analysed["results"]) == facts(tuned["results"])
    assert "that its constraints do not allow" in json.dumps(analysed["results"]["warnings"])


# ------------------------------------------------------------------------------ confidence


def test_the_confidence_of_the_space_counts_in_every_command(
    folder: Folder, tmp_path: Path
) -> None:
    wide = ("measure: {", "measure: {confidence: 0.9999, ")
    space = folder.space("rows", wide)
    usual = folder.json(f"tune {folder.space('usual')} --database usual.db --quiet --no-reduce")[
        "results"
    ]
    printed = folder.run(f"tune {space} --database r.db --quiet --no-reduce --report page.html")
    document = folder.json(f"tune {space} --database r.db --quiet --no-reduce")["results"]
    (analysed,) = folder.json("analyse r.db")["analyses"]
    assert document["confidence"] == analysed["results"]["confidence"] == 0.9999
    assert facts(analysed["results"]) == facts(document)
    page = text_of_page((tmp_path / "page.html").read_text())
    texts = (printed, folder.run("analyse r.db"), page)
    (opened,) = harness.open_results("r.db")
    for of_input, narrower, report in zip(
        document["inputs"], usual["inputs"], opened.inputs, strict=True
    ):
        ratio, narrow = of_input["speedup"], narrower["speedup"]
        assert ratio["value"] == narrow["value"]
        assert ratio["low"] < narrow["low"] < narrow["high"] < ratio["high"]
        assert of_input["time_spread_s"] > narrower["time_spread_s"]
        assert report.speedup is not None
        assert (report.speedup.low, report.speedup.high) == (ratio["low"], ratio["high"])
        interval = f"[{ratio['low']:.2f}, {ratio['high']:.2f}]"
        assert all(interval in text for text in texts)
    assert all("half the 99.99 % confidence interval" in " ".join(text.split()) for text in texts)
    assert document["single"]["speedup"]["low"] < usual["single"]["speedup"]["low"]
    assert document["advice"] != usual["advice"]


def test_a_changed_confidence_counts_though_nothing_is_measured_again(folder: Folder) -> None:
    folder.run(f"tune {folder.space('rows')} --database r.db --quiet")
    space = folder.space("rows", ("measure: {", "measure: {confidence: 0.9999, "))
    document = folder.json(f"tune {space} --database r.db --quiet")["results"]
    (analysed,) = folder.json("analyse r.db")["analyses"]
    assert analysed["results"]["confidence"] == 0.9999
    assert facts(analysed["results"]) == facts(document)


# --------------------------------------------------------------------------------- counts


def test_failures_are_counted_by_what_was_measured(folder: Folder) -> None:
    space = folder.space("rows")
    results = folder.json(f"tune {space} --database r.db --quiet --test-limit 4")["results"]
    measured = sum(of_input["measured"] for of_input in results["inputs"])
    assert measured > 8
    counts = f"of 8 tests and {measured - 8} measurements across inputs, "
    assert counts in results["health"]
    every = folder.json(f"tune {space} --database all.db --quiet --test-limit 100")["results"]
    legal = sum(of_input["legal"] for of_input in every["inputs"])
    assert f"; of {legal} tests, " in every["health"]


# ------------------------------------------------------------------------------ any history

STEPS = st.fixed_dictionaries(
    {
        "edits": st.sets(st.sampled_from(sorted(EDITS))),
        "points": st.sampled_from([POINTS, POINTS[:1], POINTS[1:]]),
        "limit": st.integers(1, 12),
        "database": st.sampled_from(["a.db", "b.db"]),
        "inputs": st.sampled_from([1, 2, 2]),
    }
)
"""Commands that tune: an edited space or not, on which inputs, and after how many of them the time
is up."""


def tune(folder: Folder, step: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Carry out a command that tunes; return its results."""
    space = folder.space("rows", *(EDITS[edit] for edit in step["edits"]), points=step["points"])
    monkeypatch.setattr(State, "is_time_up", lambda state: len(state.runs) >= step["inputs"])
    line = f"tune {space} --database {step['database']} --quiet --test-limit {step['limit']}"
    command, *words = f"{line} --json".split()
    run(command, words)  # where nothing works, it says so
    return json.loads(folder.output())["results"]


@settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],  # an example takes a second
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(STEPS, min_size=1, max_size=3), STEPS)
def test_all_commands_agree_after_any_history(
    folder: Folder, steps: list[dict[str, Any]], last: dict[str, Any]
) -> None:
    for old in folder.path.glob("*.db*"):
        old.unlink()
    folder.output()
    with pytest.MonkeyPatch.context() as patched:
        for step in steps:
            tune(folder, step, patched)
        used = sorted({step["database"] for step in steps})
        folder.run(f"merge all.db {' '.join(used)}")
        tuned = tune(folder, {**last, "database": "all.db"}, patched)
    (analysed,) = folder.json("analyse all.db")["analyses"]
    assert facts(analysed["results"]) == facts(tuned)
    for name in ("advice", "health", "single", "choice", "confidence", "default"):
        assert analysed["results"][name] == tuned[name]
    if tuned["single"] is None:
        folder.run("dispatch all.db -o out", code=2)
    else:
        assert folder.json("dispatch all.db -o out")["single"] == tuned["single"]
    (reported,) = folder.json("report all.db -o page.html")["results"]
    measured = [of_input for of_input in tuned["inputs"] if of_input["measured"]]
    assert reported["inputs"] == len(measured)
    page = text_of_page((folder.path / "page.html").read_text())
    tests = sum(of_input["measured"] for of_input in measured)
    assert str(tests) in page
    for of_input in measured:
        if of_input["speedup"] and of_input["speedup"]["is_faster"]:
            assert f"[{of_input['speedup']['low']:.2f}, {of_input['speedup']['high']:.2f}]" in page
