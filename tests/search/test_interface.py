"""The rows of OpenTuner's tables for inputs and configurations, however many searches there are."""

from __future__ import annotations

import re
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy

from harness.core.records import Input
from harness.search.interface import SpecInputs
from harness.search.rows import TestRows

GIVEN = Input({"n": 8})


@pytest.fixture
def opentuner_session() -> Any:
    # After the imports above, which patch OpenTuner.
    from opentuner.resultsdb.connect import connect
    from opentuner.resultsdb.models import Program

    _, make_session = connect("sqlite://")
    session = make_session()
    session.add(Program(project="harness", name="small"))
    session.flush()
    return session


def input_row(session: Any, problem: Input) -> Any:
    from opentuner.resultsdb.models import Program

    plan = SimpleNamespace(spec=SimpleNamespace(name="small"), problem=problem)
    inputs = SpecInputs(plan)  # type: ignore[arg-type]
    inputs.session, inputs.program = session, session.query(Program).one()
    return inputs.create_input(None)


def scans_of(session: Any, pattern: str) -> list[str]:
    """The statements of a session that match, from now on."""
    found: list[str] = []

    @sqlalchemy.event.listens_for(session.bind, "before_cursor_execute")
    def note(_c: Any, _cursor: Any, text: str, *_: Any) -> None:
        if re.search(pattern, text, re.DOTALL):
            found.append(text)

    return found


def test_an_input_has_one_row_however_often_it_is_searched(opentuner_session: Any) -> None:
    rows = [input_row(opentuner_session, one) for one in (GIVEN, Input({"n": 9}), GIVEN)]
    assert rows[0] is rows[2]
    assert [row.path for row in rows[:2]] == [GIVEN.json, Input({"n": 9}).json]
    assert rows[0].id != rows[1].id


def test_the_table_of_inputs_is_scanned_once_for_all_searches(opentuner_session: Any) -> None:
    first = input_row(opentuner_session, GIVEN)
    opentuner_session.commit()
    opentuner_session.info.clear()  # as in another command
    scans = scans_of(opentuner_session, r"FROM input\b(?!.*input\.id = \?)")
    for n in range(5):
        input_row(opentuner_session, Input({"n": n}))
        assert input_row(opentuner_session, GIVEN) is first
    assert len(scans) == 1


def test_the_table_of_configurations_is_read_once_for_all_searches(opentuner_session: Any) -> None:
    pattern = r"FROM configuration \nWHERE configuration.program_id = \?$"
    scans = scans_of(opentuner_session, pattern)
    moment = datetime(2026, 1, 1)
    tested = SimpleNamespace(
        configuration=SimpleNamespace(hash="a" * 64, data={"X": 1}),
        generation=1,
        requestor="a technique",
        request_date=moment,
        start_date=moment,
    )
    result = SimpleNamespace(
        collection_date=moment, collection_cost=0.0, state="OK", time=1.0, was_new_best=True
    )
    program, ids = SimpleNamespace(id=1), set[int]()
    for run in range(1, 4):
        of_run = SimpleNamespace(id=run, program=program)
        rows = TestRows(opentuner_session, of_run, input_id=1, machine_id=1)
        rows.add([(tested, result)])
        opentuner_session.commit()
        rows.keep_new()
        ids.add(rows.id_of(tested.configuration))
    assert len(ids) == 1
    assert len(scans) == 1


def test_an_input_whose_row_was_rolled_back_gets_another(opentuner_session: Any) -> None:
    input_row(opentuner_session, Input({"n": 1}))
    opentuner_session.commit()
    input_row(opentuner_session, GIVEN)
    opentuner_session.rollback()
    other = input_row(opentuner_session, Input({"n": 9}))  # which may get the same id
    row = input_row(opentuner_session, GIVEN)
    assert row is not other
    assert (row.path, other.path) == (GIVEN.json, Input({"n": 9}).json)
