"""One run in OpenTuner's own tables: its rows, and those of its tests by plain inserts.

OpenTuner's own writes cost some 3 ms a test more, growing with the results.
"""

from __future__ import annotations

import argparse
import platform
import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from opentuner.resultsdb import models
from opentuner.search.objective import MinimizeTime
from sqlalchemy import select
from sqlalchemy.orm import Session

from harness.results import RunPlan, insert_returning_ids
from harness.search.patches import Request

_LONGEST_NAME = 128
"""Characters of OpenTuner's column; a server refuses more. Our own table has the whole label."""


class RunTables:
    """The rows of one run in OpenTuner's tables, within transactions of the caller."""

    def __init__(
        self,
        session: Session,
        plan: RunPlan,
        args: argparse.Namespace,
        parameter_info: str,
        run_id: int | None,
    ) -> None:
        """Make the rows of a run, or continue the run with this id."""
        self._session = session
        name, space = plan.spec.name, plan.spec.space_sha256
        version = models.ProgramVersion.get(session, "harness", name, space, parameter_info)
        session.flush()
        self.program_id: int = version.program.id
        self.run: Any = session.get(models.TuningRun, run_id) if run_id else None
        self.is_continued = self.run is not None
        if self.run is None:
            self.run = models.TuningRun(
                uuid=uuid.uuid4().hex,
                name=(args.label or "unnamed")[:_LONGEST_NAME],
                args=args,
                start_date=datetime.now(),
                program_version=version,
                objective=MinimizeTime(),
            )
            session.add(self.run)
        machine_class = models.MachineClass.get(session, "default")
        input_class = models.InputClass.get(session, version.program, name)
        self.run.machine_class, self.run.input_class = machine_class, input_class
        self.run.state = "RUNNING"
        machine = self._found_or_added(models.Machine, name=platform.node())
        if machine.machine_class is None:
            machine.machine_class = machine_class
        path = plan.problem.json  # so that a person can read which input it is
        problem = self._found_or_added(models.Input, input_class=input_class, path=path)
        session.flush()
        self._shared = {
            "machine_id": machine.id,
            "input_id": problem.id,
            "tuning_run_id": self.run.id,
        }
        self._configuration_ids = self._read_configurations()
        self._new_ids: dict[str, int] = {}  # of the last rows that were added
        tested = select(models.Configuration.hash).join(models.Result)
        own = tested.where(models.Result.tuning_run_id == self.run.id)
        self.tested = set(session.scalars(own))
        """The digests of the configurations that have a result in this run."""

    def _found_or_added(self, model: Any, **values: Any) -> Any:
        self._session.flush()
        row = self._session.query(model).filter_by(**values).order_by(model.id).first()
        if row is None:
            row = model(**values)
            self._session.add(row)
        return row

    def _read_configurations(self) -> dict[str, int]:
        """Return the ids of the program's configurations by digest. They are read once a session:
        to read all of them for each input would take the square of what a campaign measures."""
        by_program: dict[int, dict[str, int]] = self._session.info.setdefault(RunTables, {})
        if self.program_id not in by_program:
            columns = models.Configuration.__table__.c
            query = select(columns.hash, columns.id).where(columns.program_id == self.program_id)
            rows = self._session.execute(query)
            by_program[self.program_id] = {row.hash: row.id for row in rows}
        return by_program[self.program_id]

    def add(self, tests: Sequence[tuple[Request, Any]]) -> list[int]:
        """Add requests with OpenTuner's results; return the results' ids, in order."""
        connection = self._session.connection()
        self._add_configurations([request.configuration for request, _ in tests])
        results = [
            {
                **self._shared,
                "configuration_id": self._id_of(request.configuration),
                "collection_date": result.collection_date,
                "collection_cost": result.collection_cost,
                "state": result.state,
                "time": result.time,
                "was_new_best": result.was_new_best,
            }
            for request, result in tests
        ]
        ids = insert_returning_ids(connection, models.Result.__table__, results)
        requests = [
            {
                "configuration_id": self._id_of(request.configuration),
                "tuning_run_id": self.run.id,
                "generation": request.generation,
                "requestor": request.requestor,
                "request_date": request.request_date,
                "start_date": request.start_date,
                "state": "COMPLETE",
                "result_id": result_id,
            }
            for (request, _), result_id in zip(tests, ids, strict=True)
        ]
        insert_returning_ids(connection, models.DesiredResult.__table__, requests)
        return ids

    def _add_configurations(self, configurations: Sequence[Any]) -> None:
        rows = [
            {"program_id": self.program_id, "hash": configuration.hash, "data": configuration.data}
            for configuration in configurations
            if configuration.hash not in self._configuration_ids
        ]
        ids = insert_returning_ids(self._session.connection(), models.Configuration.__table__, rows)
        self._new_ids = dict(zip((row["hash"] for row in rows), ids, strict=True))

    def _id_of(self, configuration: Any) -> int:
        row_id = self._new_ids.get(configuration.hash)
        return self._configuration_ids[configuration.hash] if row_id is None else row_id

    def keep_added(self) -> None:
        """Know the rows that were added last, since they are committed."""
        self._configuration_ids |= self._new_ids

    def end(self, state: str, best: Any = None) -> None:
        """Note how the run ended, and the configuration of the best result."""
        self.run.state, self.run.end_date = state, datetime.now()
        if best is not None:
            self.run.final_config_id = self._id_of(best.configuration)
