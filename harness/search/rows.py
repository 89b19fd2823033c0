"""OpenTuner's rows of a test, written as plain inserts into its own tables."""

from __future__ import annotations

from typing import Any

from opentuner.resultsdb.models import Configuration, DesiredResult, Result
from sqlalchemy import Table, insert, select
from sqlalchemy.orm import Session


class TestRows:
    """Configurations, requests and results of one run; reads back those of a continued one.

    OpenTuner's own unit of work costs some 3 ms a test more, growing with the results.
    """

    __test__ = False  # not a test case, whatever its name looks like

    def __init__(self, session: Session, tuning_run: Any) -> None:
        self._session = session
        self._run_id: int = tuning_run.id
        self._program_id: int = tuning_run.program.id
        self._configuration_ids = self._read_configurations()
        self.earlier: dict[str, Any] = self._read_results()

    def _read_configurations(self) -> dict[str, int]:
        query = select(Configuration.hash, Configuration.id).where(
            Configuration.program_id == self._program_id
        )
        return {row.hash: row.id for row in self._session.execute(query)}

    def _read_results(self) -> dict[str, Any]:
        """The run's results by their configuration's digest; no pickle is read."""
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
        """The row of a configuration, added if missing."""
        digest = configuration.hash
        if digest not in self._configuration_ids:
            self._configuration_ids[digest] = self._insert(
                Configuration.__table__,
                program_id=self._program_id,
                hash=digest,
                data=configuration.data,
            )
        return self._configuration_ids[digest]

    def add(self, desired: Any, result: Any, input_id: int, machine_id: int) -> int:
        """Add a result and the request that it answers; returns the result's id."""
        configuration_id = self.id_of(desired.configuration)
        result_id = self._insert(
            Result.__table__,
            configuration_id=configuration_id,
            machine_id=machine_id,
            input_id=input_id,
            tuning_run_id=self._run_id,
            collection_date=result.collection_date,
            collection_cost=result.collection_cost,
            state=result.state,
            time=result.time,
            was_new_best=result.was_new_best,
        )
        self._insert(
            DesiredResult.__table__,
            configuration_id=configuration_id,
            tuning_run_id=self._run_id,
            generation=desired.generation,
            requestor=desired.requestor,
            request_date=desired.request_date,
            start_date=desired.start_date,
            state="COMPLETE",
            result_id=result_id,
        )
        return result_id

    def _insert(self, table: Table, **values: object) -> int:
        # The values go beside the statement, which SQLAlchemy then compiles only once.
        key = self._session.connection().execute(insert(table), values).inserted_primary_key
        assert key is not None
        return int(key[0])
