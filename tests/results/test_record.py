"""OpenTuner's tables are the record of the search: ours must agree with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.commands.analyse import main as analyse
from harness.core.errors import ResultsError
from harness.core.records import Outcome
from harness.results import opentuner_tables as opentuner
from harness.results import reading
from tests.helpers.results_examples import make_failed, make_ok, opened, tamper, write


@pytest.fixture
def database(tmp_path: Path) -> Path:
    write(tmp_path / "r.db", make_ok(1), make_failed(Outcome.CRASHED, 2))
    return tmp_path / "r.db"


def refusal(database: Path) -> str:
    """The message of a reader and of a writer."""
    with pytest.raises(ResultsError) as read, reading(str(database)):
        pass
    with pytest.raises(ResultsError) as written, opened(database):
        pass
    assert str(read.value) == str(written.value)
    return str(read.value)


def test_tables_that_agree_are_read(database: Path) -> None:
    with reading(str(database)), opened(database):
        pass


def test_without_opentuners_tables_nothing_is_read(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tamper(database, "".join(f"DROP TABLE {name};" for name in opentuner.metadata.tables))
    assert "lacks tables of OpenTuner's record of the search (_meta, " in refusal(database)
    assert analyse([str(database)]) == 2
    assert "copy the database again from the original" in capsys.readouterr().err


@pytest.mark.parametrize("table", opentuner.metadata.tables)
def test_each_table_is_needed(database: Path, table: str) -> None:
    tamper(database, f"DROP TABLE {table}")
    assert f"lacks tables of OpenTuner's record of the search ({table})" in refusal(database)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("UPDATE result SET time = 0.5 WHERE id = 1", "has the state OK and the time 0.5 s, but"),
        ("UPDATE result SET time = NULL WHERE id = 1", "the state OK and the time None s, but"),
        ("UPDATE result SET state = 'ERROR' WHERE id = 1", "has the state ERROR and the time"),
        ("UPDATE result SET state = 'x' || char(27)", "has the state x\\x1b and the time"),
        ("UPDATE result SET time = 'x' || char(27)", "and the time x\\x1b s, but"),
        ("UPDATE result SET state = 'OK' WHERE id = 2", "but harness has crashed and None s"),
        ("UPDATE result SET configuration_id = 2", "is of another configuration"),
        ("UPDATE configuration SET hash = 'x'", "is of another configuration"),
        ("UPDATE result SET tuning_run_id = 9", "is of another run"),
        (
            "DELETE FROM result WHERE id = 2",
            "test 2 in OpenTuner's tables is missing",
        ),
        ("UPDATE desired_result SET requestor = 'x'", "was asked for by another technique"),
        ("DELETE FROM desired_result", "was asked for by another technique"),
        (
            "UPDATE input SET path = '{}'",
            "results of run 1 in OpenTuner's tables are on",
        ),
        ("UPDATE input SET path = x'00'", "are on another input"),
        ("DELETE FROM input", "are on another input"),
        ("DELETE FROM tuning_run", "have no run of the space of run 1"),
        ("UPDATE program_version SET version = 'x'", "have no run of the space of run 1"),
        ("UPDATE tests SET result_id = NULL", "is missing"),
        ("UPDATE measurements SET median_s = 0.5 WHERE id = 1", "but harness has ok and 0.5 s"),
    ],
)
def test_what_does_not_agree_is_refused(database: Path, change: str, what: str) -> None:
    tamper(database, change)
    found = refusal(database)
    assert f"{database} is damaged: " in found
    assert what in found


def test_a_run_without_a_search_has_no_record(database: Path) -> None:
    tamper(database, "UPDATE runs SET tuning_run_id = NULL; DROP TABLE desired_result")
    with reading(str(database)):
        pass
