"""Write results: every finished measurement is on disk before the next one starts."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.exc import DBAPIError

from harness import __version__
from harness.core.records import Config, Environment, Input, Measurement
from harness.core.text import escaped
from harness.results import schema, stock
from harness.results.columns import MeasurementRows, measurement_cells
from harness.results.database import hold_campaign, iso, now, utc_now
from harness.results.inserting import insert_returning_ids, insert_rows, update_row
from harness.results.notes import Notes, device_facts, space_notes
from harness.results.read import CampaignKey, read_measurements
from harness.results.reader import Row, read_cells, read_run_rows, refusing_damage
from harness.results.writer import Writer
from harness.space_file import Spec


@dataclass(frozen=True)
class RunPlan:
    """The plan of a run; a run with an equal plan continues where the last one stopped."""

    spec: Spec
    environment: Environment
    problem: Input
    technique: str
    seed: int
    test_limit: int
    parallelism: int
    label: str
    campaign: int

    @property
    def key(self) -> CampaignKey:
        """The key that comparable measurements share."""
        return CampaignKey(self.spec.program_sha256, self.environment.fingerprint, self.campaign)


@dataclass(frozen=True)
class _StoredRun:
    """A run that has begun: its id, its first configurations, and how far it was."""

    id: int
    seeds: tuple[Config, ...]
    state: str
    test_limit: int
    started_at: str
    notes: Notes


class AnsweredTest(NamedTuple):
    """A test of a run: the measurement that answered it, who asked, and for which configuration."""

    measurement_id: int
    requestor: str | None
    digest: str


_ENDED = {"complete": "COMPLETE", "interrupted": "ABORTED"}
"""OpenTuner's words for how a run ended."""


class Store(Writer):
    """The writer of one database."""

    def __enter__(self) -> Store:
        return self

    # --------------------------------------------------------------- commands

    def begin_command(
        self, spec: Spec, environment: Environment, campaign: int, arguments: Sequence[str] = ()
    ) -> int:
        """Store what a command was asked for, by these words, at once: it is kept even if the
        command dies."""
        row: Row = {
            "campaign": campaign,
            "uuid": uuid.uuid4().hex,
            "started_at": now(),
            "inputs": list(spec.inputs),
            "arguments": list(map(escaped, arguments)),
            "left_out": [],
            "stages": {},
        }

        def begin() -> int:
            row["space_id"] = self.space_id(spec)
            row["environment_id"] = self.environment_id(environment)
            (command_id,) = insert_returning_ids(self.connection, schema.commands, [row])
            return command_id

        return self.transact(begin)

    def end_command(
        self, command_id: int, left_out: Mapping[Input, str], stages: Mapping[str, str]
    ) -> None:
        """Store what a finished command left out."""
        row = {
            "ended_at": now(),
            "left_out": [(problem, _one_line(why)) for problem, why in left_out.items()],
            "stages": {stage: _one_line(text) for stage, text in stages.items()},
        }
        self.transact(lambda: update_row(self.connection, schema.commands, command_id, row))

    # ------------------------------------------------------------------- runs

    def choose_campaign(self, spec: Spec, environment: Environment, fresh: bool) -> int:
        """Return the number of this program's last campaign in this environment, or a new one; from
        now on no other process writes them. Raises DatabaseBusy where another one does.

        Each program has campaigns of its own: after a kernel was edited, the highest number of
        a space's name belongs to the edited kernel.
        """
        return self.read(partial(self._choose_campaign, spec, environment, fresh))

    def _choose_campaign(self, spec: Spec, environment: Environment, fresh: bool) -> int:
        hold_campaign(self.connection, spec.name, environment, spec.program_sha256)
        same_space = schema.spaces.c.name == spec.name
        same_program = schema.spaces.c.program_sha256 == spec.program_sha256
        of_program = self._last_campaign(environment, same_program)
        if of_program and not fresh:
            return of_program
        return self._last_campaign(environment, same_space | same_program) + 1

    def _last_campaign(self, environment: Environment, condition: ColumnElement[bool]) -> int:
        query = (
            select(func.max(schema.runs.c.campaign))
            .select_from(schema.runs)
            .join(schema.spaces)
            .join(schema.environments)
            .where(condition, schema.environments.c.fingerprint == environment.fingerprint)
        )
        with refusing_damage(self.connection):
            return int(self.connection.execute(query).scalar() or 0)

    def begin_run(
        self,
        plan: RunPlan,
        notes: Notes,
        seeds: Sequence[Config] = (),
        *,
        args: bytes | None = None,
        objective: bytes | None = None,
        parameter_info: str | None = None,
    ) -> _StoredRun:
        """Begin the run of this plan, or continue its search where it exists.

        A search states its pickled `args` and `objective`, and describes its parameters as
        OpenTuner does. A continued run keeps its first seeds, since otherwise the search would not
        propose the same configurations again.
        """
        run = self.begun(plan)
        if run is not None:
            self._continue_run(run, plan)
            return run
        self.machine_id()  # here: while its row is new, other writers wait
        version = {
            "program_id": self.program_id(plan.spec.name),
            "version": plan.spec.space_sha256,
            "parameter_info": parameter_info,
        }
        started_at = utc_now()
        tuning_run: Row = {
            "uuid": uuid.uuid4().hex,
            "program_version_id": self._record_id(stock.program_version, version),
            "machine_class_id": self._record_id(stock.machine_class, {"name": "default"}),
            "input_class_id": self.input_class_id(plan.spec.name),
            "name": plan.label,
            "args": args,
            "objective": objective,
            "state": "RUNNING",
            "start_date": started_at,
        }
        (run_id,) = insert_returning_ids(self.connection, stock.tuning_run, [tuning_run])
        facts = {**plan.environment.notes, **notes.get("facts", {})}
        noted: Notes = {**notes, **space_notes(plan.spec), "facts": facts}
        row = self._identity(plan)
        row["id"] = run_id
        row["test_limit"] = plan.test_limit
        row["harness_version"] = __version__
        row["seeds"] = [dict(seed) for seed in seeds]
        row["notes"] = noted
        insert_rows(self.connection, schema.runs, [row])
        return _StoredRun(
            id=run_id,
            seeds=tuple(seeds),
            state="running",
            test_limit=plan.test_limit,
            started_at=iso(started_at),
            notes=noted,
        )

    def _continue_run(self, run: _StoredRun, plan: RunPlan) -> None:
        facts = run.notes.get("facts", {})
        noted: Notes = {
            **run.notes,
            **space_notes(plan.spec),
            "facts": {**facts, **device_facts(facts, plan.environment.notes)},
            "continued_at": now(),
        }
        changed: Row = {"test_limit": plan.test_limit, "notes": noted}
        update_row(self.connection, schema.runs, run.id, changed)
        changed = {"state": "RUNNING", "end_date": None}
        update_row(self.connection, stock.tuning_run, run.id, changed)

    def begun(self, plan: RunPlan) -> _StoredRun | None:
        """Return this plan's run; None where it has not begun, or cannot continue: it has no
        search.

        Raises ResultsError where the row is damaged.
        """
        return self.read(partial(self._begun, plan))

    def _begun(self, plan: RunPlan) -> _StoredRun | None:
        run = stock.tuning_run.c
        same = select(schema.runs).join(stock.tuning_run)
        same = same.where(run.name == plan.label, run.args.is_not(None))
        for name, value in self._identity(plan).items():
            same = same.where(schema.runs.c[name] == value)
        with refusing_damage(self.connection):
            for row in read_run_rows(self.connection, same):
                return _StoredRun(
                    id=row["id"],
                    seeds=tuple(map(Config, row["seeds"])),
                    state=row["state"],
                    test_limit=row["test_limit"],
                    started_at=row["started_at"],
                    notes=row["notes"],
                )
        return None

    def answers(self, run_id: int) -> list[AnsweredTest]:
        """Return the answers to a run's tests, in the order in which they were given."""
        asked, configuration = stock.desired_result.c, stock.configuration.c
        columns = [asked.id, asked.result_id, asked.requestor, configuration.hash]
        query = select(asked.id).join(stock.configuration)
        query = query.where(asked.tuning_run_id == run_id, asked.result_id.is_not(None))
        with refusing_damage(self.connection):
            parts = self.read(lambda: list(read_cells(self.connection, columns, query)))
        tests: list[AnsweredTest] = []
        for cells in parts:
            tests += map(AnsweredTest, cells["result_id"], cells["requestor"], cells["hash"])
        return tests

    def _identity(self, plan: RunPlan) -> dict[str, Any]:
        """Return the cells that a run shares with one of an equal plan."""
        return {
            "technique": plan.technique,
            "seed": plan.seed,
            "parallelism": plan.parallelism,
            "campaign": plan.campaign,
            "space_id": self.space_id(plan.spec),
            "environment_id": self.environment_id(plan.environment),
            "input_id": self.input_id(plan.spec.name, plan.problem),
        }

    def end_run(self, run_id: int, state: str, best_id: int | None = None) -> None:
        """Store how a run ended, complete or interrupted; `best_id` is its best configuration."""
        changes: Row = {"state": _ENDED[state], "end_date": utc_now()}
        if best_id is not None:
            changes["final_config_id"] = best_id
        self.transact(lambda: update_row(self.connection, stock.tuning_run, run_id, changes))

    @contextmanager
    def interrupting(self, run_ids: Collection[int]) -> Iterator[None]:
        """Store that these runs were interrupted where the block ends in an exception, without
        what was not committed. The runs may change inside the block."""
        try:
            yield
        except BaseException:
            with suppress(DBAPIError):  # the first error says more
                self.session.rollback()
                for run_id in run_ids:
                    self.end_run(run_id, "interrupted")
            raise

    def note_run(self, run_id: int, notes: Notes) -> None:
        """Add notes to a run and mark it as continued now; commit() makes it durable."""
        noted = {**self.notes_of(run_id), **notes, "continued_at": now()}
        update_row(self.connection, schema.runs, run_id, {"notes": noted})

    def notes_of(self, run_id: int) -> Notes:
        """Return the notes of a run."""
        return self.read(partial(self._notes, run_id))

    def _notes(self, run_id: int) -> Notes:
        runs = schema.runs
        query = select(runs).where(runs.c.id == run_id)
        with refusing_damage(self.connection):
            (cells,) = read_cells(self.connection, [runs.c.id, runs.c.notes], query)
            notes: Notes = cells["notes"][0]
        return notes

    # ----------------------------------------------------------- measurements

    def measured(self, plan: RunPlan) -> MeasurementRows:
        """Return the measurements of the plan's program, environment and campaign, whatever the
        space, technique or seed were."""
        rows = self.read(lambda: read_measurements(self.connection, plan.key))
        return rows.by(plan.spec.measure.statistic)

    def add_measurements(
        self,
        run_id: int,
        plan: RunPlan,
        stage: str,
        measurements: Sequence[Measurement],
        group: str | None = None,
        new_best: Sequence[bool] = (),
    ) -> list[int]:
        """Append measurements with their builds; commit() makes them durable.

        `new_best` says of each whether its search had found nothing as fast. Returns the ids of
        their rows, in order.
        """
        configuration_ids = self.configuration_ids(plan.spec.name, [m.config for m in measurements])
        results: list[Row] = []
        extending: list[Row] = []
        for index, m in enumerate(measurements):
            result: Row = {
                "tuning_run_id": run_id,
                "configuration_id": configuration_ids[index],
                "input_id": self.input_id(plan.spec.name, m.input),
                "machine_id": self.machine_id(),
                "collection_date": utc_now(),
                "collection_cost": m.wall_s,
                "state": schema.STATES.get(m.outcome.value, schema.FAILED)[0],
                "time": m.time_s,
                "was_new_best": new_best[index] if new_best else None,
            }
            row = measurement_cells(m)
            row["build_id"] = None
            if m.build is not None:
                build_id = self.build_id(m.build, plan.environment, configuration_ids[index])
                row["build_id"] = build_id
            row["uuid"] = uuid.uuid4().hex
            row["stage"] = stage
            row["group_uuid"] = group
            results.append(result)
            extending.append(row)
        ids = insert_returning_ids(self.connection, stock.result, results)
        for row_id, row in zip(ids, extending, strict=True):
            row["id"] = row_id
        insert_rows(self.connection, schema.measurements, extending)
        return ids

    def add_requests(
        self,
        run_id: int,
        plan: RunPlan,
        configs: Sequence[Config],
        requests: Sequence[Mapping[str, object]],
    ) -> None:
        """Store who asked for configurations, when, and the id of the result that answered."""
        ids = self.configuration_ids(plan.spec.name, configs)
        rows = [
            {"tuning_run_id": run_id, "configuration_id": row_id, "state": "COMPLETE", **request}
            for row_id, request in zip(ids, requests, strict=True)
        ]
        insert_rows(self.connection, stock.desired_result, rows)


def _one_line(text: str) -> str:
    """Return a text as one printable line; an error of a host module may hold anything."""
    return escaped(" ".join(text.split()))
