"""The command over databases that a search by formula has filled."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from harness.commands.analyse import main
from tests.helpers.replays import SPACE, FormulaMeasurer, make_spec, opened, ran

Capture = pytest.CaptureFixture[str]


def fill(folder: Path, database: str, name: str = "small", fresh: bool = False) -> str:
    """Run a campaign to its end; return the path of its database."""
    text = SPACE.replace("name: formula", f"name: {name}")
    ran(make_spec(folder, text), folder / database, fresh=fresh)
    return str(folder / database)


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


def test_only_the_last_campaign_is_printed_unless_asked(tmp_path: Path, capsys: Capture) -> None:
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
    report, _ = ran(make_spec(tmp_path, text), tmp_path / "r.db").reports
    assert report.speedup is not None
    assert main([str(tmp_path / "r.db")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert f"{report.speedup.value:.2f}x [" in out
    assert "use_fast_math" not in out
