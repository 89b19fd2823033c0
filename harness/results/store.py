"""Write results: every finished measurement is on disk before the next one starts."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import sqlalchemy
from sqlalchemy import ColumnElement, func, select
from sqlalchemy.exc import DBAPIError

from harness import __version__
from harness.core.records import ENVIRONMENT_FIELDS, Config, Environment, Input, Measurement
from harness.core.text import escaped
from harness.results import schema, stock
from harness.results.columns import MeasurementRow, MeasurementRows, measurement_cells
from harness.results.database import hold_campaign, iso, now, utc_now
from harness.results.inserting import insert_returning_ids, insert_rows, update_row
from harness.results.notes import Notes, device_facts, space_notes
from harness.results.read import CampaignKey, read_measurements
from harness.results.reader import Row, read_cells, read_run_rows, refusing_damage
from harness.results.writer import Writer
from harness.space_file import Spec

P = ParamSpec("P")
T = TypeVar("T")

_NOTHING: Row = {}

COMPLETE, INTERRUPTED = "COMPLETE", "ABORTED"
"""OpenTuner's words for how a run ended."""


def _in_transaction(
    method: Callable[Concatenate[Store, P], T],
) -> Callable[Concatenate[Store, P], T]:
    """Let a method be a transaction, or a part of the present one (see `Writer.transact`)."""

    @wraps(method)
    def transacted(store: Store, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return store.transact(partial(method, store, *args, **kwargs))

    return transacted


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
class StoredRun:
    """A search that has begun: its first configurations, and how far it was."""

    id: int
    seeds: tuple[Config, ...]
    state: str
    test_limit: int
    started_at: str
    notes: Notes


class Store(Writer):
    """The writer of one database."""

    def __enter__(self) -> Store:
        return self

    # --------------------------------------------------------------- commands

    @_in_transaction
    def begin_command(
        self, spec: Spec, environment: Environment, campaign: int, arguments: Sequence[str] = ()
    ) -> int:
        """Store what a command was asked for, by these words, at once: it is stored even if the
        command dies."""
        row: Row = {
            "uuid": uuid.uuid4().hex,
            "space_id": self.space_id(spec),
            "environment_id": self.environment_id(environment),
            "campaign": campaign,
            "started_at": now(),
            "inputs": list(spec.inputs),
            "arguments": list(map(escaped, arguments)),
            "left_out": [],
            "stages": {},
        }
        (command_id,) = insert_returning_ids(self.connection, schema.commands, [row])
        return command_id

    @_in_transaction
    def end_command(
        self, command_id: int, left_out: Mapping[Input, str], stages: Mapping[str, str]
    ) -> None:
        """Store what a finished command left out."""
        row = {
            "ended_at": now(),
            "left_out": [(problem, _one_line(why)) for problem, why in left_out.items()],
            "stages": {stage: _one_line(text) for stage, text in stages.items()},
        }
        update_row(self.connection, schema.commands, command_id, row)

    # ------------------------------------------------------------------- runs

    @_in_transaction
    def choose_campaign(self, spec: Spec, environment: Environment, fresh: bool) -> int:
        """Return the number of this program's last campaign in this environment, or a new one; from
        now on no other process writes them. Raises DatabaseBusy where another one does.

        Each program has campaigns of its own: after a kernel was edited, the highest number of
        a space's name belongs to the edited kernel.
        """
        hold_campaign(self.connection, spec.name, environment, spec.program_sha256)
        same_space = schema.spaces.c.name == spec.name
        same_program = schema.spaces.c.program_sha256 == spec.program_sha256
        of_program = self._last_campaign(environment, same_program)
        if of_program and not fresh:
            return of_program
        return self._last_campaign(environment, same_space | same_program) + 1

    def earlier_environment(self, spec: Spec, environment: Environment) -> Environment | None:
        """Return the environment in which this program was tuned last; None where it was never
        tuned, or tuned in the present environment as well."""
        of_commands = schema.commands.join(schema.spaces).join(schema.environments)
        columns = [schema.environments.c[name] for name in ENVIRONMENT_FIELDS]
        same_program = schema.spaces.c.program_sha256 == spec.program_sha256
        query = select(*columns).select_from(of_commands).where(same_program)
        with refusing_damage(self.connection):
            rows = self.connection.execute(query.order_by(schema.commands.c.id)).mappings().all()
        environments = [Environment(**row) for row in rows]
        if not environments or environment in environments:
            return None
        return environments[-1]

    def _last_campaign(self, environment: Environment, condition: ColumnElement[bool]) -> int:
        runs = schema.runs.join(schema.spaces).join(schema.environments)
        query = select(func.max(schema.runs.c.campaign)).select_from(runs)
        is_here = schema.environments.c.fingerprint == environment.fingerprint
        with refusing_damage(self.connection):
            return int(self.connection.execute(query.where(condition, is_here)).scalar() or 0)

    def begin_run(
        self,
        plan: RunPlan,
        notes: Notes,
        seeds: Sequence[Config] = (),
        recorded: Row = _NOTHING,
    ) -> int:
        """Begin a run of this plan; return its id.

        A search has its first configurations, and what OpenTuner records of one: the pickled `args`
        and `objective`, and the `parameter_info`.
        """
        self.machine_id()  # here: while its row is new, other writers wait
        version = {
            "program_id": self.program_id(plan.spec.name),
            "version": plan.spec.space_sha256,
            "parameter_info": recorded.get("parameter_info"),
        }
        facts = {**plan.environment.notes, **notes.get("facts", {})}
        row: Row = {
            **self._identity(plan),
            **recorded,
            "uuid": uuid.uuid4().hex,
            "program_version_id": self._id(stock.program_version, version),
            "machine_class_id": self._id(stock.machine_class, {"name": "default"}),
            "input_class_id": self.input_class_id(plan.spec.name),
            "name": plan.label,
            "state": "RUNNING",
            "start_date": utc_now(),
            "test_limit": plan.test_limit,
            "harness_version": __version__,
            "seeds": [dict(seed) for seed in seeds],
            "notes": {**notes, **space_notes(plan.spec), "facts": facts},
        }
        (run_id,) = insert_returning_ids(self.connection, stock.tuning_run, [row])
        return run_id

    def continue_run(self, run: StoredRun, plan: RunPlan) -> None:
        """Go on with a run, perhaps with another limit, or on another device."""
        self.note_run(run.id, space_notes(plan.spec))
        self.note_device(run.id, plan.environment)
        changes: Row = {"state": "RUNNING", "end_date": None, "test_limit": plan.test_limit}
        update_row(self.connection, stock.tuning_run, run.id, changes)

    @_in_transaction
    def begun(self, plan: RunPlan) -> StoredRun | None:
        """Return the search of this plan; None where it has not begun.

        Raises ResultsError where the row is damaged.
        """
        run = stock.tuning_run.c
        same = schema.select_extended(stock.tuning_run)
        same = same.where(run.name == plan.label, run.args.is_not(None))
        for name, value in self._identity(plan).items():
            same = same.where(schema.runs.c[name] == value)
        with refusing_damage(self.connection):
            for row in read_run_rows(self.connection, same):
                return StoredRun(
                    id=row["id"],
                    seeds=tuple(map(Config, row["seeds"])),
                    state=row["state"],
                    test_limit=row["test_limit"],
                    started_at=row["started_at"],
                    notes=row["notes"],
                )
        return None

    @_in_transaction
    def answers(self, run_id: int) -> Sequence[sqlalchemy.Row[Any, Any, Any]]:
        """Return the answers to a run's tests, in the order in which they were given: the id of the
        result, who asked, and the digest of the configuration."""
        asked = stock.desired_result.c
        configuration = stock.configuration.c
        query = select(asked.result_id, asked.requestor, configuration.hash).order_by(asked.id)
        query = query.join_from(stock.desired_result, stock.configuration)
        query = query.where(asked.tuning_run_id == run_id, asked.result_id.is_not(None))
        return self.connection.execute(query).all()

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

    @_in_transaction
    def end_run(self, run_id: int, state: str, best_id: int | None = None) -> None:
        """Store how a run ended, in OpenTuner's word; `best_id` is its best configuration."""
        changes: Row = {"state": state, "end_date": utc_now()}
        if best_id is not None:
            changes["final_config_id"] = best_id
        update_row(self.connection, stock.tuning_run, run_id, changes)

    @contextmanager
    def interrupting(self, run_ids: Collection[int]) -> Iterator[None]:
        """Store that these runs were interrupted where the block ends in an exception, without
        what was not committed. The runs may change inside the block."""
        try:
            yield
        except BaseException:
            with suppress(DBAPIError):  # the first error says more
                self.roll_back()
                for run_id in run_ids:
                    self.end_run(run_id, INTERRUPTED)
            raise

    @_in_transaction
    def note_run(self, run_id: int, notes: Notes) -> None:
        """Add notes to a run and mark it as continued now."""
        noted = {**self.notes_of(run_id), **notes, "continued_at": now()}
        update_row(self.connection, schema.runs, run_id, {"notes": noted})

    @_in_transaction
    def note_device(self, run_id: int, environment: Environment) -> None:
        """Note the device that measures for a run: one that goes on may have another one."""
        facts = self.notes_of(run_id).get("facts", {})
        added = device_facts(facts, environment.notes)
        self.note_run(run_id, {"facts": {**facts, **added}})

    @_in_transaction
    def notes_of(self, run_id: int) -> Notes:
        """Return the notes of a run."""
        runs = schema.runs
        query = select(runs).where(runs.c.id == run_id)
        with refusing_damage(self.connection):
            (cells,) = read_cells(self.connection, [runs.c.id, runs.c.notes], query)
            notes: Notes = cells["notes"][0]
        return notes

    # ----------------------------------------------------------- measurements

    @_in_transaction
    def measured(self, plan: RunPlan) -> MeasurementRows:
        """Return the measurements of the plan's program, environment and campaign, whatever the
        space, technique or seed were."""
        rows = read_measurements(self.connection, plan.key)
        return rows.by(plan.spec.measure.statistic)

    def add_measurements(
        self,
        run_id: int,
        plan: RunPlan,
        stage: str,
        measurements: Sequence[Measurement],
        group: str | None = None,
        new_best: Sequence[bool] = (),
    ) -> list[MeasurementRow]:
        """Append measurements with their builds; return their rows. commit() makes them durable.

        `new_best` says of each whether its search had found nothing as fast.
        """
        configuration_ids = self.configuration_ids(plan.spec.name, [m.config for m in measurements])
        date = utc_now()
        cells: list[Row] = []
        for index, m in enumerate(measurements):
            row: Row = {
                **measurement_cells(m),
                "tuning_run_id": run_id,
                "configuration_id": configuration_ids[index],
                "input_id": self.input_id(plan.spec.name, m.input),
                "machine_id": self.machine_id(),
                "collection_date": date,
                "collection_cost": m.wall_s,
                "state": schema.STATES.get(m.outcome.value, schema.FAILED)[0],
                "time": m.time_s,
                "was_new_best": new_best[index] if new_best else None,
                "build_id": None,
                "uuid": uuid.uuid4().hex,
                "stage": stage,
                "group_uuid": group,
            }
            if m.build is not None:
                build_id = self.build_id(m.build, plan.environment, configuration_ids[index])
                row["build_id"] = build_id
            cells.append(row)
        ids = insert_returning_ids(self.connection, stock.result, cells)
        space = plan.spec.space_sha256
        return [
            MeasurementRow(row_id, stage, m, group, measured_at=iso(date), space=space)
            for row_id, m in zip(ids, measurements, strict=True)
        ]

    def add_requests(
        self,
        run_id: int,
        plan: RunPlan,
        answers: Sequence[MeasurementRow],
        requests: Sequence[Mapping[str, object]],
    ) -> None:
        """Store who asked for these measurements, and when, in cells of OpenTuner's."""
        ids = self.configuration_ids(plan.spec.name, [row.measurement.config for row in answers])
        rows: list[Row] = []
        for request, answer, configuration_id in zip(requests, answers, ids, strict=True):
            row = {
                **request,
                "tuning_run_id": run_id,
                "configuration_id": configuration_id,
                "result_id": answer.id,
                "state": "COMPLETE",
            }
            rows.append(row)
        insert_rows(self.connection, stock.desired_result, rows)


def _one_line(text: str) -> str:
    """Return a text as one printable line; an error of a host module may hold anything."""
    return escaped(" ".join(text.split()))
