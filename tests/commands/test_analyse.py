"""The command over databases that a search by formula has filled."""

import re
from pathlib import Path

import pytest

from harness.results.view import read_results, the_one
from harness.space_file import load_spec
from tests.helpers.commands import analyse, dispatch, merge
from tests.helpers.replays import SPACE, FormulaMeasurer, make_spec, opened, ran
from tests.helpers.results_examples import query, tamper


def fill(folder, database, name="small", fresh=False):
    """Run a campaign to its end; return the path of its database."""
    text = SPACE.replace("name: formula", f"name: {name}")
    ran(make_spec(folder, text), folder / database, fresh=fresh, test_limit=6)
    return str(folder / database)


def printed_by(capsys, *words):
    """Run the command; return what it prints."""
    assert analyse(list(words)) == 0
    return capsys.readouterr().out


def test_several_databases_are_printed_one_after_the_other(tmp_path, capsys):
    first, second = fill(tmp_path, "a.db", "one"), fill(tmp_path, "b.db", "two")
    out = printed_by(capsys, first, second)
    assert out.index("one on formula") < out.index("two on formula")
    out = printed_by(capsys, first, second, "--space", "two")
    assert "one on formula" not in out
    assert "two on formula" in out
    assert analyse([first, second, "--space", "three"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"error: {first}, {second}: no results of a space `three`; there are one, two\n"


def test_a_database_without_runs_says_so(tmp_path, capsys):
    path = tmp_path / "empty.db"
    with opened(make_spec(tmp_path), path, FormulaMeasurer()):
        pass
    assert analyse([str(path)]) == 2
    assert "no runs yet" in capsys.readouterr().err


def test_a_foreign_file_is_one_clear_error(tmp_path, capsys):
    text, foreign = tmp_path / "notes.txt", tmp_path / "foreign.db"
    text.write_text("not a database, but long enough to be taken for one\n" * 40)
    tamper(foreign, "create table shopping (item text)")
    for path in (tmp_path / "missing.db", text, foreign, tmp_path):
        assert analyse([str(path)]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("error: ")
        assert path.name in err
        assert err.count("\n") == 1
    assert not (tmp_path / "missing.db").exists()


def test_only_the_last_campaign_is_used_unless_asked(tmp_path, capsys):
    fill(tmp_path, "r.db")
    path = fill(tmp_path, "r.db", fresh=True)
    out = printed_by(capsys, path)
    assert out.count("small on formula") == 1
    assert ", campaign " not in out
    out = printed_by(capsys, path, "--all-campaigns")
    assert re.findall(r"small on formula.*, campaign (\d) of kernel version", out) == ["2", "1"]
    assert dispatch([path, "-o", str(tmp_path / "out")]) == 0
    assert "left out" not in capsys.readouterr().out


def test_flags_of_other_compilers_do_not_hide_the_default(tmp_path, capsys):
    text = SPACE.replace("constraints:", "flags: {nvcc: {use_fast_math: boolean}}\nconstraints:")
    report, _ = ran(make_spec(tmp_path, text), tmp_path / "r.db", test_limit=8).reports
    assert report.speedup is not None
    out = " ".join(printed_by(capsys, str(tmp_path / "r.db")).split())
    assert f"{report.speedup.value:.2f}x [" in out
    assert "use_fast_math" not in out


# ---------- an edited kernel: its new version is shown, the old one is listed or left behind


OLD, NEW = 9, 6  # tests of each version on each of two inputs


@pytest.fixture(scope="module")
def database(tmp_path_factory):
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


def limits(results):
    return [run.test_limit for run in results.runs]


def test_the_recipe_in_python_works_after_an_edit(database):
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


def test_the_newest_version_is_analysed_and_others_counted(database, capsys):
    (old,) = the_one(read_results(database)).others
    out = printed_by(capsys, database)
    assert out.count("formula on formula") == 1
    assert out.count("set aside") == 1
    assert f"{old.measurements} measurements of another version are set aside, {old}" in out
    assert f"harness analyse {database} --all-campaigns\n" in out
    out = printed_by(capsys, database, "--all-campaigns")
    assert "set aside" not in out
    versions = [
        results.campaign.key.program_sha256[:8]
        for results in read_results(database, all_campaigns=True)
    ]
    assert re.findall(r"^formula on formula.* of kernel version (.*)$", out, re.MULTILINE) == [
        f"{versions[0]}, from {database}",
        f"{versions[1]} (differs in kernel.cl), from {database}",
    ]


def test_a_dispatcher_is_of_the_file_that_was_tuned_last(tmp_path, capsys):
    database = fill(tmp_path, "r.db")
    with (tmp_path / "kernel.cl").open("a") as kernel:
        kernel.write(" edited")
    renamed = (tmp_path / "space.yaml").rename(tmp_path / "renamed.yaml")
    ran(load_spec(renamed), Path(database), test_limit=6)
    assert dispatch([database, "-o", str(tmp_path / "out")]) == 0
    last, before = read_results(database, all_campaigns=True)
    learnt_from = re.search(r"Learnt from .*; left out: .*", capsys.readouterr().out)
    assert learnt_from is not None
    used, left_out = learnt_from[0].split("; left out: ")
    assert last.campaign.key.program_sha256[:8] in used
    assert before.campaign.key.program_sha256[:8] in left_out


def test_times_that_somebody_changed_are_refused_with_their_rows(tmp_path, capsys):
    database, merged = fill(tmp_path, "results.db"), tmp_path / "merged.db"
    rows = query(database, "SELECT id, time FROM result WHERE state = 'OK' ORDER BY id LIMIT 2")
    (first, time_s), (second, _) = rows
    tamper(database, f"UPDATE result SET time = time / 100 WHERE id IN ({first}, {second})")
    named = rf"{database} is damaged: result {first}: .* {time_s / 100}, .* {time_s}, .* {second};"
    for command, words in ((analyse, [database]), (merge, [str(merged), database])):
        assert command(words) == 2
        assert re.search(named, capsys.readouterr().err)
    assert not merged.exists()
