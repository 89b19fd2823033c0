"""The command over databases that a search by formula has filled."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import harness
from harness.commands.analyse import main
from harness.core.records import Config, Input, shown
from tests.helpers.replays import SPACE, FormulaMeasurer, formula_s, make_spec, opened

Capture = pytest.CaptureFixture[str]

SMALL = """\
name: NAME
kernel: {function: kernel, source: kernel.cl, host: kernel.py}
parameters:
  BLOCK: {values: [16, 64, 256], default: 256}
  TILE: {values: [1, 2], default: 1}
launch: {group: [BLOCK], grid: [n]}
inputs: {features: [n], values: [{n: 8}, {n: 16}, {n: 32}, {n: 64}, {n: 128}, {n: 256}]}
"""


def block_by_size(problem: Input, config: Config) -> float:
    """Small inputs want BLOCK=16, large ones BLOCK=64; TILE=2 costs a little, 256 does not work."""
    if config["BLOCK"] == 256 and config["TILE"] == 2:
        return float("inf")
    best = 16 if problem["n"] < 50 else 64  # type: ignore[operator]
    tile = config["TILE"]
    assert isinstance(tile, int)
    return 1e-3 * (1 if config["BLOCK"] == best else 2) * (1 + 0.1 * tile)


def fill(folder: Path, database: str, name: str = "small", fresh: bool = False) -> str:
    """Run a campaign to its end; return the path of its database."""
    spec = make_spec(folder, SMALL.replace("NAME", name))
    with opened(spec, folder / database, FormulaMeasurer(block_by_size), fresh) as (campaign, _):
        campaign.run()
    return str(folder / database)


def test_the_best_of_each_input_and_the_tree_are_printed(tmp_path: Path, capsys: Capture) -> None:
    path = fill(tmp_path, "r.db")
    assert main([path]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("small on formula (none, driver recorded), from ")
    (found,) = harness.open_results(path)
    assert lines[2].startswith("Use ")
    assert " ".join(lines[2:]).startswith(found.advice), "what to use comes first"
    rows = {line.split()[0]: line for line in lines if line.startswith(" n=")}
    assert list(rows) == [f"n={n}" for n in (8, 16, 32, 64, 128, 256)]
    for n in (8, 16, 32):
        assert " BLOCK=16 " in rows[f"n={n}"]
        assert "1.10 ms +- " in rows[f"n={n}"]
        assert "2.20 ms +- " in rows[f"n={n}"]
        assert "2.00x [" in rows[f"n={n}"]
    assert " BLOCK=64 " in rows["n=128"]
    failure = next(index for index, line in enumerate(lines) if "6 build_failed: " in line)
    assert lines[failure].strip() == "6 build_failed: as the formula has it"
    assert lines[failure + 1].strip() == "for example TILE=2 on (n=8)"
    tree = lines.index("    if n <= 50:")
    assert lines[tree + 1].strip() == "BLOCK=16   (3 inputs)"
    assert lines[tree + 3].strip() == "BLOCK=64   (3 inputs)"
    assert any("G-ADAPT's model" in line for line in lines)
    assert "Failed: 6 build_failed" in " ".join(" ".join(lines).split())


def test_few_inputs_are_reported_as_too_few(tmp_path: Path, capsys: Capture) -> None:
    with opened(make_spec(tmp_path), tmp_path / "r.db", FormulaMeasurer()) as (campaign, _):
        reports = campaign.run()
    assert main([str(tmp_path / "r.db")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "can be learnt from 4 inputs, and judged with some 16; there are 2." in out
    for report in reports:
        assert report.best
        assert report.best.time_s == formula_s(report.problem, report.best.config)
        default = campaign.space(report.problem).default
        for name, value in report.best.config.items():
            assert (f"{name}={shown(value)}" in out) or value == default[name]


def test_several_databases_are_printed_one_after_the_other(tmp_path: Path, capsys: Capture) -> None:
    first, second = fill(tmp_path, "a.db", "one"), fill(tmp_path, "b.db", "two")
    assert main([first, second]) == 0
    out = capsys.readouterr().out
    assert out.index("one on formula") < out.index("two on formula")
    assert main([first, second, "--space", "two"]) == 0
    out = capsys.readouterr().out
    assert "one on formula" not in out
    assert "two on formula" in out


def test_an_unknown_space_is_answered_with_those_there_are(tmp_path: Path, capsys: Capture) -> None:
    first, second = fill(tmp_path, "a.db", "one"), fill(tmp_path, "b.db", "two")
    assert main([first, second, "--space", "three"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (
        f"error: {first}, {second}: no results of a space `three`; there are one, two\n"
    )


def test_a_database_without_runs_says_so(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "empty.db"
    with opened(make_spec(tmp_path), path, FormulaMeasurer()):
        pass
    assert main([str(path)]) == 2
    assert "no runs yet" in capsys.readouterr().err


def test_a_foreign_file_is_one_clear_error(tmp_path: Path, capsys: Capture) -> None:
    text, foreign = tmp_path / "notes.txt", tmp_path / "foreign.db"
    text.write_text("not a database, but long enough to be taken for one\n" * 40)
    with sqlite3.connect(foreign) as connection:
        connection.execute("create table shopping (item text)")
    for path in (tmp_path / "missing.db", text, foreign, tmp_path):
        assert main([str(path)]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith("error: ")
        assert path.name in printed.err
        assert printed.err.count("\n") == 1
    assert not (tmp_path / "missing.db").exists()


def test_only_the_last_campaign_is_printed_unless_all_are_asked_for(
    tmp_path: Path, capsys: Capture
) -> None:
    fill(tmp_path, "r.db")
    path = fill(tmp_path, "r.db", fresh=True)
    assert main([path]) == 0
    out = capsys.readouterr().out
    assert out.count("small on formula") == 1
    assert ", campaign " not in out
    assert main([path, "--all-campaigns"]) == 0
    titles = [x for x in capsys.readouterr().out.splitlines() if x.startswith("small on formula")]
    assert [title.split(", campaign ")[1][:19] for title in titles] == [
        "2 of kernel version",
        "1 of kernel version",
    ]


def test_flags_of_other_compilers_do_not_hide_the_default(tmp_path: Path, capsys: Capture) -> None:
    text = SPACE.replace("constraints:", "flags: {nvcc: {use_fast_math: boolean}}\nconstraints:")
    with opened(make_spec(tmp_path, text), tmp_path / "r.db", FormulaMeasurer()) as (campaign, _):
        (report, _) = campaign.run()
    assert report.speedup is not None
    assert main([str(tmp_path / "r.db")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert f"{report.speedup.value:.2f}x [" in out
    assert "use_fast_math" not in out
