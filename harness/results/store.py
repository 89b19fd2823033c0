"""Write results: every finished measurement is on disk before the next one starts."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from functools import partial
from itertools import chain
from typing import Any

from sqlalchemy import ColumnElement, Table, func, select
from sqlalchemy.exc import DBAPIError

from harness import __version__
from harness.core.records import Config, Environment, Input, Measurement
from harness.core.text import escaped
from harness.results import schema
from harness.results.columns import MeasurementRows
from harness.results.database import hold_campaign, now
from harness.results.inserting import insert_returning_ids, update_row
from harness.results.notes import Notes, device_facts, space_notes
from harness.results.read import CampaignKey, read_measurements
from harness.results.reader import Row, read_cells, read_rows, refusing_damage
from harness.results.writer import Writer, measurement_row
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
        return CampaignKey(
            program_sha256=self.spec.program_sha256,
            fingerprint=self.environment.fingerprint,
            campaign=self.campaign,
        )


@dataclass(frozen=True)
class _StoredRun:
    """A run that has begun: its row, its first configurations, and OpenTuner's run if it is
    continued."""

    id: int
    seeds: tuple[Config, ...]
    tuning_run_id: int | None
    state: str
    test_limit: int
    started_at: str
    notes: Notes


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

        def begin() -> int:
            row = {
                "space_id": self.space_id(spec),
                "environment_id": self.environment_id(environment),
                "campaign": campaign,
                "uuid": uuid.uuid4().hex,
                "started_at": now(),
                "inputs": list(spec.inputs),
                "arguments": list(map(escaped, arguments)),
                "left_out": [],
                "stages": {},
            }
            return self._insert(schema.commands, [row])[0]

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
            last = self.connection.execute(query).scalar() or 0
            if type(last) is not int:  # SQLite puts texts behind all numbers
                raise ValueError(f"runs: a campaign is {last!r}")
        return last

    def begin_run(self, plan: RunPlan, notes: Notes, seeds: Sequence[Config] = ()) -> _StoredRun:
        """Begin the run of this plan, or continue it where it exists.

        A continued run keeps its first seeds, since otherwise the search would not propose the
        same configurations again.
        """
        run = self._begun(plan)
        if run is not None:
            facts = run.notes.get("facts", {})
            noted: Notes = {
                **run.notes,
                **space_notes(plan.spec),
                "facts": {**facts, **device_facts(facts, plan.environment.notes)},
                "continued_at": now(),
            }
            changed = {"state": "running", "test_limit": plan.test_limit, "ended_at": None}
            self._update_run(run.id, notes=noted, **changed)
            return run
        row: Row = {
            **self._identity(plan),
            "uuid": uuid.uuid4().hex,
            "test_limit": plan.test_limit,
            "state": "running",
            "started_at": now(),
            "harness_version": __version__,
            "seeds": [dict(seed) for seed in seeds],
            "notes": {
                **notes,
                **space_notes(plan.spec),
                "facts": {**plan.environment.notes, **notes.get("facts", {})},
            },
        }
        (row["id"],) = self._insert(schema.runs, [row])
        return _stored_run({**row, "tuning_run_id": None})

    def begun(self, plan: RunPlan) -> _StoredRun | None:
        """Return the run of this plan; None where it has not begun."""
        return self.read(partial(self._begun, plan))

    def answers(self, run_id: int, requestor: str | None = None) -> dict[int, int]:
        """Return the ids of the measurements that answered a run's tests, or those of one
        requestor, by the tests' ordinals and in their order."""
        tests = schema.tests
        query = select(tests).where(tests.c.run_id == run_id)
        if requestor is not None:
            query = query.where(tests.c.requestor == requestor)
        columns = [tests.c.id, tests.c.ordinal, tests.c.measurement_id]
        with refusing_damage(self.connection):
            parts = list(self.read(partial(read_cells, self.connection, columns, query)))
        pairs = (zip(part["ordinal"], part["measurement_id"], strict=True) for part in parts)
        return dict(sorted(chain.from_iterable(pairs)))

    def _begun(self, plan: RunPlan) -> _StoredRun | None:
        """Return this plan's run, if it exists and can continue.

        Raises ResultsError where the row is damaged.
        """
        same = select(schema.runs).where(
            *(schema.runs.c[name] == value for name, value in self._identity(plan).items()),
            schema.runs.c.tuning_run_id.is_not(None),
        )
        with refusing_damage(self.connection):
            return next(map(_stored_run, read_rows(self.connection, schema.runs, same)), None)

    def _identity(self, plan: RunPlan) -> dict[str, Any]:
        """Return the cells that a run shares with one of an equal plan."""
        names = ("technique", "seed", "parallelism", "label", "campaign")
        return {
            **{name: getattr(plan, name) for name in names},
            "space_id": self.space_id(plan.spec),
            "environment_id": self.environment_id(plan.environment),
            "input_id": self.input_id(plan.spec.name, plan.problem),
        }

    def tie_run(self, run_id: int, tuning_run_id: int) -> None:
        """Store the id of a run's OpenTuner run."""
        self._update_run(run_id, tuning_run_id=tuning_run_id)

    def end_run(self, run_id: int, state: str) -> None:
        """Store how a run ended: complete or interrupted."""
        self.transact(partial(self._update_run, run_id, state=state, ended_at=now()))

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
        self._update_run(run_id, notes={**self._notes(run_id), **notes, "continued_at": now()})

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

    def _update_run(self, run_id: int, **values: object) -> None:
        update_row(self.connection, schema.runs, run_id, values)

    # ----------------------------------------------------------- measurements

    def measured(self, plan: RunPlan) -> MeasurementRows:
        """Return the measurements of the plan's program, environment and campaign, whatever the
        space, technique or seed were."""
        rows = self.read(lambda: read_measurements(self.connection, plan.key))
        return rows.by(plan.spec.measure.statistic)

    def add_interleaved(
        self, run_id: int, plan: RunPlan, stage: str, measurements: Sequence[Measurement]
    ) -> None:
        """Append measurements that were interleaved; commit() makes them durable."""
        self.add_measurements(run_id, plan, stage, measurements, group=uuid.uuid4().hex)

    def add_measurements(
        self,
        run_id: int,
        plan: RunPlan,
        stage: str,
        measurements: Sequence[Measurement],
        group: str | None = None,
    ) -> list[int]:
        """Append measurements with their builds; commit() makes them durable.

        Returns the ids of their rows, in order.
        """
        configuration_ids = self.configuration_ids([m.config for m in measurements])
        rows = [
            {
                "uuid": uuid.uuid4().hex,
                "run_id": run_id,
                "input_id": self.input_id(plan.spec.name, m.input),
                "configuration_id": configuration_id,
                "build_id": m.build and self.build_id(m.build, plan.environment, configuration_id),
                "stage": stage,
                "measured_at": now(),
                "group_uuid": group,
                **measurement_row(m),
            }
            for m, configuration_id in zip(measurements, configuration_ids, strict=True)
        ]
        return self._insert(schema.measurements, rows)

    def add_tests(
        self,
        run_id: int,
        ordinal: int,
        result_ids: Sequence[int],
        measurement_ids: Sequence[int],
        requestors: Sequence[str],
    ) -> None:
        """Store which measurements answered OpenTuner's results; `ordinal` numbers the first."""
        tests = zip(result_ids, measurement_ids, requestors, strict=True)
        rows = [
            {
                "run_id": run_id,
                "ordinal": number,
                "result_id": result_id,
                "measurement_id": measurement_id,
                "requestor": requestor,
            }
            for number, (result_id, measurement_id, requestor) in enumerate(tests, ordinal)
        ]
        self._insert(schema.tests, rows)

    def next_ordinal(self, run_id: int) -> int:
        """Return the ordinal of a run's next test."""
        query = select(func.max(schema.tests.c.ordinal)).where(schema.tests.c.run_id == run_id)
        last = self.connection.execute(query).scalar()
        return 0 if last is None else last + 1

    def _insert(self, table: Table, rows: Sequence[Mapping[str, object]]) -> list[int]:
        return insert_returning_ids(self.connection, table, rows)


def _one_line(text: str) -> str:
    """Return a text as one printable line; an error of a host module may hold anything."""
    return escaped(" ".join(text.split()))


def _stored_run(row: Row) -> _StoredRun:
    values = {field.name: row[field.name] for field in fields(_StoredRun)}
    return _StoredRun(**values | {"seeds": tuple(map(Config, row["seeds"]))})
