"""The command over databases that a search by formula has filled."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from harness.results.view import Results, read_results, the_one
from harness.space_file import load_spec
from tests.helpers.commands import analyse, dispatch, merge
from tests.helpers.commands import analyse as main
from tests.helpers.replays import SPACE, FormulaMeasurer, make_spec, opened, ran
from tests.helpers.results_examples import tamper

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


# ---------- an edited kernel: its new version is shown, the old one is listed or left behind


OLD, NEW = 9, 6  # tests of each version on each of two inputs


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Measurements of a kernel, and fewer of the kernel after an edit."""
    folder = tmp_path_factory.mktemp("versions")
    spec, path = make_spec(folder), folder / "r.db"
    with opened(spec, path, FormulaMeasurer(), test_limit=OLD) as (campaign, _):
        assert not campaign.set_aside()
        campaign.run()
    with (folder / "kernel.cl").open("a") as kernel:
        kernel.write(" edited")
    edited = load_spec(folder / "space.yaml")
    with opened(edited, path, FormulaMeasurer(), test_limit=NEW) as (campaign, _):
        (before,) = campaign.set_aside()
        assert before.program_sha256 == spec.program_sha256
        campaign.run()
        assert not campaign.set_aside(), "it is said once"
    return str(path)


def limits(results: Results) -> list[int]:
    return [run.test_limit for run in results.runs]


def test_the_recipe_in_python_works_after_an_edit(database: str) -> None:
    results = the_one(read_results([database]))
    assert limits(results) == [NEW, NEW]
    (old,) = results.others
    assert f"{old}".startswith(
        f"{old.program_sha256[:8]} ({old.measurements} measurements, last 20"
    )
    last, before = read_results(database, all_campaigns=True)
    assert limits(last) == [NEW, NEW]
    assert limits(before) == [OLD, OLD]
    assert len(before.all_rows) == old.measurements


def test_the_newest_version_is_analysed_and_others_counted(database: str, capsys: Capture) -> None:
    (old,) = the_one(read_results(database)).others
    assert analyse([database]) == 0
    printed = capsys.readouterr().out
    assert printed.count("formula on formula") == 1
    assert printed.count("set aside") == 1
    assert f"{old.measurements} measurements of another version are set aside, {old}" in printed
    assert f"harness analyse {database} --all-campaigns\n" in printed


def test_all_campaigns_have_those_of_an_earlier_kernel(database: str, capsys: Capture) -> None:
    last, before = read_results(database, all_campaigns=True)
    assert analyse([database, "--all-campaigns"]) == 0
    printed = capsys.readouterr().out
    assert "set aside" not in printed
    titles = [line for line in printed.splitlines() if line.startswith("formula on formula")]
    versions = [results.campaign.key.program_sha256[:8] for results in (last, before)]
    ends = [title.split(" of kernel version ")[1] for title in titles]
    assert ends == [
        f"{versions[0]}, from {database}",
        f"{versions[1]} (differs in kernel.cl), from {database}",
    ]


def test_a_dispatcher_is_of_the_file_that_was_tuned_last(tmp_path: Path, capsys: Capture) -> None:
    database = fill(tmp_path, "r.db")
    with (tmp_path / "kernel.cl").open("a") as kernel:
        kernel.write(" edited")
    renamed = (tmp_path / "space.yaml").rename(tmp_path / "renamed.yaml")
    ran(load_spec(renamed), Path(database))
    assert dispatch([database, "-o", str(tmp_path / "out")]) == 0
    last, before = read_results(database, all_campaigns=True)
    learnt_from = re.search(r"Learnt from .*; left out: .*", capsys.readouterr().out)
    assert learnt_from is not None
    used, left_out = learnt_from[0].split("; left out: ")
    assert last.campaign.key.program_sha256[:8] in used
    assert before.campaign.key.program_sha256[:8] in left_out


def test_campaigns_that_fresh_replaced_are_not_named_by_dispatch(
    tmp_path: Path, capsys: Capture
) -> None:
    database = fill(tmp_path, "r.db")
    fill(tmp_path, "r.db", fresh=True)
    assert dispatch([database, "-o", str(tmp_path / "out")]) == 0
    assert "left out" not in capsys.readouterr().out


def test_times_that_somebody_changed_are_refused_with_their_rows(
    tmp_path: Path, capsys: Capture
) -> None:
    database, merged = fill(tmp_path, "results.db"), tmp_path / "merged.db"
    query = "SELECT id, time FROM result WHERE state = 'OK' ORDER BY id LIMIT 2"
    with closing(sqlite3.connect(database)) as connection:
        (first, time_s), (second, _) = connection.execute(query).fetchall()
    tamper(database, f"UPDATE result SET time = time / 100 WHERE id IN ({first}, {second})")
    printed = re.compile(
        rf"error: {database} is damaged: result {first}: its time is {time_s / 100}, but the "
        rf"median of the samples in measurements is {time_s}, .*; the same holds for "
        rf"1 more: {second}; copy it again from the original"
    )
    assert main([database]) == 2
    assert printed.search(capsys.readouterr().err)
    assert merge([str(merged), database]) == 2
    assert printed.search(capsys.readouterr().err)
    assert not merged.exists()
