"""OpenTuner's rows of tests, written by plain inserts into its own tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from opentuner.resultsdb.models import Configuration, DesiredResult, Result
from sqlalchemy import select
from sqlalchemy.orm import Session

from harness.results import insert_returning_ids, insert_rows


class TestRows:
    """Writes the configurations, requests and results of one run; reads those of a continued run.

    OpenTuner's own writes cost some 3 ms a test more, growing with the results.
    """

    __test__ = False  # for pytest: not a test case

    def __init__(self, session: Session, tuning_run: Any, input_id: int, machine_id: int) -> None:
        self._session = session
        self._shared = {"machine_id": machine_id, "input_id": input_id}
        self._run_id: int = tuning_run.id
        self._program_id: int = tuning_run.program.id
        self._configuration_ids = self._read_configurations()
        self._new_ids: dict[str, int] = {}  # of the last rows that were added
        self.earlier: dict[str, Any] = self._read_results()

    def _read_configurations(self) -> dict[str, int]:
        """Return the ids of the program's configurations by digest. They are read once a session:
        to read all of them for each input would take the square of what a campaign measures."""
        kept: dict[int, dict[str, int]] = self._session.info.setdefault(TestRows, {})
        if self._program_id not in kept:
            query = select(Configuration.hash, Configuration.id).where(
                Configuration.program_id == self._program_id
            )
            kept[self._program_id] = {row.hash: row.id for row in self._session.execute(query)}
        return kept[self._program_id]

    def _read_results(self) -> dict[str, Any]:
        """Read the run's results by their configuration's digest, without unpickling."""
        query = (
            select(Configuration.hash, Result.id, Result.state, Result.time, Result.collection_date)
            .join(Result, Result.configuration_id == Configuration.id)
            .where(Result.tuning_run_id == self._run_id)
        )
        return {
            digest: Result(id=row_id, state=state, time=time_s, collection_date=date)
            for digest, row_id, state, time_s, date in self._session.execute(query)
        }

    def id_of(self, configuration: Any) -> int:
        """Return the row id of a configuration that was tested."""
        found = self._new_ids.get(configuration.hash)
        return self._configuration_ids[configuration.hash] if found is None else found

    def keep_new(self) -> None:
        """Keep the ids of the rows that were added last, since these are committed."""
        self._configuration_ids |= self._new_ids

    def add(self, tests: Sequence[tuple[Any, Any]]) -> list[int]:
        """Add requests with their results; return the results' ids, in order."""
        self._add_configurations([desired.configuration for desired, _ in tests])
        results = [
            {
                "configuration_id": self.id_of(desired.configuration),
                **self._shared,
                "tuning_run_id": self._run_id,
                "collection_date": result.collection_date,
                "collection_cost": result.collection_cost,
                "state": result.state,
                "time": result.time,
                "was_new_best": result.was_new_best,
            }
            for desired, result in tests
        ]
        ids = insert_returning_ids(self._session.connection(), Result.__table__, results)
        requests = [
            {
                "configuration_id": self.id_of(desired.configuration),
                "tuning_run_id": self._run_id,
                "generation": desired.generation,
                "requestor": desired.requestor,
                "request_date": desired.request_date,
                "start_date": desired.start_date,
                "state": "COMPLETE",
                "result_id": result_id,
            }
            for (desired, _), result_id in zip(tests, ids, strict=True)
        ]
        insert_rows(self._session.connection(), DesiredResult.__table__, requests)
        return ids

    def _add_configurations(self, configurations: Sequence[Any]) -> None:
        rows = [
            {"program_id": self._program_id, "hash": found.hash, "data": found.data}
            for found in configurations
            if found.hash not in self._configuration_ids
        ]
        ids = insert_returning_ids(self._session.connection(), Configuration.__table__, rows)
        self._new_ids = dict(zip((row["hash"] for row in rows), ids, strict=True))


@dataclass(eq=False)
class Request:
    """OpenTuner's DesiredResult without SQLAlchemy, whose cost for each is that of a proposal.
    `harness.search.rows` writes its row."""

    configuration: Any
    requestor: str
    generation: int
    request_date: datetime
    tuning_run: None = None
    limit: float | None = None
    start_date: datetime | None = None
    result: Any = None
    id: int | None = None
