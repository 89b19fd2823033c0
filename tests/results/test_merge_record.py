"""A merged database is one of OpenTuner's: its ORM reads it, and a search goes on in it."""

from __future__ import annotations

from pathlib import Path

from harness.commands.merge import main as merge
from harness.commands.tune import main as tune
from harness.results import reading
from harness.results.schema import OPENTUNER_KEYS
from tests.helpers.replays import REPLAYED_TWO, write_recording
from tests.helpers.results_examples import query

OPTIONS = ["--technique", "AUCBanditMetaTechniqueA", "--quiet", "--no-cross"]


def test_a_search_goes_on_where_it_was_merged(tmp_path: Path) -> None:
    from opentuner.resultsdb.connect import connect
    from opentuner.resultsdb.models import TuningRun

    space, recording = write_recording(tmp_path, REPLAYED_TWO)
    command = [str(space), "--replay", str(recording), *OPTIONS]
    one, out = str(tmp_path / "one.db"), str(tmp_path / "out.db")
    assert tune([*command, "--test-limit", "2", "--database", one]) == 0
    assert merge([out, one]) == 0
    counts = {name: query(Path(one), f"SELECT count(*) FROM {name}") for name in TABLES}
    assert {name: query(Path(out), f"SELECT count(*) FROM {name}") for name in TABLES} == counts
    assert counts["bandit_sub_technique"][0][0]

    engine, session = connect(f"sqlite:///{out}")
    runs = session.query(TuningRun).order_by(TuningRun.id).all()
    assert [run.program.name for run in runs] == ["replayed", "replayed"]
    assert [len(run.results) for run in runs] == [2, 2]
    assert {type(run.results[0].configuration.data) for run in runs} == {dict}
    session.remove()
    engine.dispose()

    assert tune([*command, "--test-limit", "4", "--database", out]) == 0
    searched = "SELECT count(*) FROM runs WHERE tuning_run_id IS NOT NULL"
    assert query(Path(out), searched) == query(Path(one), searched)  # no run began anew
    assert query(Path(out), "SELECT count(*) FROM result") == [(8,)]
    with reading(out):
        pass  # the record agrees


TABLES = tuple(name for name in OPENTUNER_KEYS if name != "configuration")
