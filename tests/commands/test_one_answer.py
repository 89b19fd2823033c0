"""All commands give one answer from one database, whatever was edited, cut short or merged."""

import json
import re
import shutil

import pytest

import harness
from harness.commands.run import run
from harness.tuning.state import State
from tests.golden.formula import FormulaGpu
from tests.golden.make import INPUTS, OPENED
from tests.golden.texts import text_of_page

POINTS = ({"m": 64, "n": 64}, {"m": 512, "n": 2048})
ALL_BLOCKS = "BLOCK: {values: [16, 64, 256], role: launch, default: 64}"
EDITS = {
    "values": (ALL_BLOCKS, ALL_BLOCKS.replace(", 256", "")),
    "constraint": ("BLOCK * TILE <= 512", "BLOCK * TILE <= 128"),
}
"""Each rules BLOCK=256 out, which is the fastest where n is 2048."""


class Folder:
    """A folder with the space of the golden outputs, where commands run on the GPU by formula."""

    def __init__(self, path, capsys):
        self.path, self._capsys = path, capsys
        for file in INPUTS.glob("rows.*"):
            shutil.copy(file, path)

    def space(self, name, *edits, points=POINTS):
        """Write the space with these edits on a few inputs."""
        text = (INPUTS / "rows.yaml").read_text()
        values = f"  values: {json.dumps(list(points))}\n"
        text = re.sub(r"  values:\n(?:    - .*\n)+", values, text)
        for old, new in edits:
            assert old in text
            text = text.replace(old, new)
        (self.path / f"{name}.yaml").write_text(text)
        return f"{name}.yaml"

    def run(self, line, code=0):
        """Run a command; return what it prints."""
        command, *words = line.split()
        assert run(command, words) == code
        return self.output()

    def output(self):
        """Return what was printed since the last call."""
        return self._capsys.readouterr().out

    def json(self, line):
        """Run a command with --json; return its document."""
        return json.loads(self.run(f"{line} --json"))


@pytest.fixture
def folder(undrawn, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(OPENED, lambda *_: ({"": FormulaGpu("one")}, "by formula"))
    monkeypatch.setenv("COLUMNS", "150")
    return Folder(tmp_path, capsys)


FACTS = ("input", "best", "recommended", "time_s", "speedup", "measured", "legal", "outcomes")


def facts(results):
    """What a document says of each input."""
    inputs = sorted(results["inputs"], key=lambda document: json.dumps(document["input"]))
    return {json.dumps(i["input"]): {name: i[name] for name in FACTS} for i in inputs}


# ---------------------------------------------------------------------------- an edited space


@pytest.mark.parametrize("edit", EDITS)
def test_the_space_that_is_given_or_was_tuned_last_decides(folder, edit):
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


# ------------------------------------------------------------------------------ confidence


def test_a_changed_confidence_counts_in_every_command_and_nothing_is_measured_again(
    folder, tmp_path
):
    options = "--database r.db --quiet --no-reduce"
    usual = folder.json(f"tune {folder.space('rows')} {options}")["results"]
    space = folder.space("rows", ("measure: {", "measure: {confidence: 0.9999, "))
    printed = folder.run(f"tune {space} {options} --report page.html")
    (analysed,) = folder.json("analyse r.db")["analyses"]
    results = analysed["results"]
    assert results["confidence"] == 0.9999
    assert results["single"]["speedup"]["low"] < usual["single"]["speedup"]["low"]
    assert results["advice"] != usual["advice"]
    page = text_of_page((tmp_path / "page.html").read_text())
    texts = (printed, folder.run("analyse r.db"), page)
    (opened,) = harness.open_results("r.db")
    for of_input, narrower, report in zip(
        results["inputs"], usual["inputs"], opened.inputs, strict=True
    ):
        ratio, narrow = of_input["speedup"], narrower["speedup"]
        assert ratio["value"] == narrow["value"]
        assert ratio["low"] < narrow["low"] < narrow["high"] < ratio["high"]
        assert of_input["time_spread_s"] > narrower["time_spread_s"]
        assert (report.speedup.low, report.speedup.high) == (ratio["low"], ratio["high"])
        for text in texts:
            assert f"[{ratio['low']:.2f}, {ratio['high']:.2f}]" in text
            assert "99.99 %" in text


# --------------------------------------------------------------------------------- counts


def test_failures_are_counted_by_what_was_measured(folder):
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


def step(database, limit, *edits, points=POINTS, inputs=2):
    """A command that tunes an edited space; after so many inputs the time is up."""
    return {"edits": edits, "points": points, "limit": limit, "database": database,
            "inputs": inputs}  # fmt: skip


HISTORIES = [
    ([step("a.db", 2), step("b.db", 12, "values", points=POINTS[1:])],
     step("all.db", 5, "constraint", inputs=1)),
    ([step("a.db", 9, "values", "constraint"), step("a.db", 1, points=POINTS[:1]),
      step("b.db", 6, "constraint", inputs=1)], step("all.db", 8)),
]  # fmt: skip
"""Commands that tune, and the last one, after their databases were merged."""


def tune(folder, step, monkeypatch):
    """Carry out a command that tunes; return its results."""
    space = folder.space("rows", *(EDITS[edit] for edit in step["edits"]), points=step["points"])
    monkeypatch.setattr(State, "is_time_up", lambda state: len(state.runs) >= step["inputs"])
    line = f"tune {space} --database {step['database']} --quiet --test-limit {step['limit']}"
    command, *words = f"{line} --json".split()
    run(command, words)  # where nothing works, it says so
    return json.loads(folder.output())["results"]


@pytest.mark.parametrize("steps, last", HISTORIES)
def test_all_commands_agree_after_any_history(folder, steps, last, monkeypatch):
    for step in steps:
        tune(folder, step, monkeypatch)
    used = sorted({step["database"] for step in steps})
    folder.run(f"merge all.db {' '.join(used)}")
    tuned = tune(folder, last, monkeypatch)
    (analysed,) = folder.json("analyse all.db")["analyses"]
    assert facts(analysed["results"]) == facts(tuned)
    for name in ("advice", "health", "single", "choice", "confidence", "default"):
        assert analysed["results"][name] == tuned[name]
    assert folder.json("dispatch all.db -o out")["single"] == tuned["single"]
    (reported,) = folder.json("report all.db -o page.html")["results"]
    measured = [of_input for of_input in tuned["inputs"] if of_input["measured"]]
    assert reported["inputs"] == len(measured)
    page = text_of_page((folder.path / "page.html").read_text())
    assert str(sum(of_input["measured"] for of_input in measured)) in page
    for of_input in measured:
        speedup = of_input["speedup"]
        if speedup and speedup["is_faster"]:
            assert f"[{speedup['low']:.2f}, {speedup['high']:.2f}]" in page
