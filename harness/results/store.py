"""Writing results: every finished measurement is on disk before the next one starts."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Row,
    Table,
    event,
    func,
    select,
    update,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from harness import __version__
from harness.core.records import Config, Environment, Input, Measurement, Turn
from harness.results import schema
from harness.results.connect import now
from harness.results.inserting import NATURAL_KEYS, insert_keyed, insert_rows
from harness.results.keyed_rows import SharedRows
from harness.results.notes import BASELINES, CONTINUED
from harness.results.read import SEARCHED, Key, in_turns, read_measurements
from harness.results.rows import measurement_row, observation_rows, sample_rows
from harness.results.sessions import end_told, inputs_told
from harness.space_file import Spec


@dataclass(frozen=True)
class RunPlan:
    """What a run is about: with an equal plan, a run goes on where the last one stopped."""

    spec: Spec
    environment: Environment
    given: Input
    technique: str
    seed: int
    test_limit: int
    parallelism: int
    label: str
    campaign: int

    @property
    def key(self) -> Key:
        """What measurements of this input must share to be comparable with the run's."""
        return Key(
            program_sha256=self.spec.program_sha256,
            fingerprint=self.environment.fingerprint,
            campaign=self.campaign,
            given=self.given,
        )


@dataclass(frozen=True)
class Begun:
    """A run's row, where its search starts, and OpenTuner's run if it is continued."""

    id: int
    seeds: tuple[Config, ...]
    tuning_run_id: int | None


@dataclass(frozen=True)
class Stored:
    """A measurement and its row."""

    id: int
    measurement: Measurement


class Store:
    """The writer of one database. OpenTuner's tables are written through `session` as well,
    since SQLite has one writer, so that a test and its result are committed together."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        factory = sessionmaker(engine, autoflush=False, expire_on_commit=False)
        self.sessions: scoped_session[Session] = scoped_session(factory)
        self._shared = SharedRows(lambda: self._connection)
        event.listen(factory, "after_rollback", lambda _session: self._shared.forget())

    @property
    def session(self) -> Session:
        """The one session."""
        return self.sessions()

    def commit(self) -> None:
        """Everything written so far reaches the disk."""
        self.session.commit()

    # --------------------------------------------------------------- commands

    def begin_command(self, spec: Spec, environment: Environment, campaign: int) -> int:
        """Keep at once what a command is asked for, whether it comes to its end or not."""
        row = {
            "uuid": uuid.uuid4().hex,
            "space_id": self._shared.space_id(spec),
            "environment_id": self._shared.environment_id(environment),
            "campaign": campaign,
            "started_at": now(),
            "inputs": inputs_told(spec.inputs),
            **end_told({}, {}),
        }
        (command_id,) = self._insert(schema.commands, [row])
        self.commit()
        return command_id

    def end_command(
        self, command_id: int, left_out: Mapping[Input, str], stages: Mapping[str, str]
    ) -> None:
        """Keep what a command that has come to its end left out (harness.results.sessions)."""
        told = end_told(left_out, stages) | {"ended_at": now()}
        same = schema.commands.c.id == command_id
        self._connection.execute(update(schema.commands).where(same).values(told))
        self.commit()

    # ------------------------------------------------------------------- runs

    def choose_campaign(self, spec: Spec, environment: Environment, fresh: bool) -> int:
        """The number of this program's last campaign in this environment, or of a new one.

        Each program has campaigns of its own: after a kernel was edited, the highest number of
        a space's name is that of the kernel as it now is.
        """
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
        return self._connection.execute(query).scalar() or 0

    def begin_run(
        self, plan: RunPlan, notes: Mapping[str, str], seeds: Sequence[Config] = ()
    ) -> Begun:
        """The run of this plan, continued where there is one: it then keeps its first seeds,
        without which the search would not propose the same configurations again.

        A run that was merged from another database is not continued, since OpenTuner's rows of
        it are not here; its measurements are known all the same.
        """
        ids = self._plan_ids(plan)
        found = self._begun(plan, ids)
        if found is not None:
            noted = {**found.notes, **_noted(plan), CONTINUED: now()}
            changed = {"state": "running", "test_limit": plan.test_limit, "ended_at": None}
            self._update_run(found.id, notes=noted, **changed)
            return Begun(found.id, tuple(map(Config, found.seeds)), found.tuning_run_id)
        row = {
            **ids,
            "uuid": uuid.uuid4().hex,
            "campaign": plan.campaign,
            "label": plan.label,
            "technique": plan.technique,
            "seed": plan.seed,
            "test_limit": plan.test_limit,
            "parallelism": plan.parallelism,
            "state": "running",
            "started_at": now(),
            "harness_version": __version__,
            "seeds": [dict(seed) for seed in seeds],
            "notes": {**notes, **_noted(plan)},
        }
        (run_id,) = self._insert(schema.runs, [row])
        return Begun(run_id, tuple(seeds), None)

    def last_before(self, plan: RunPlan) -> int:
        """The id of the last measurement that was there when the run of this plan began; if it
        has not, of the last that there is."""
        query = select(func.max(schema.measurements.c.id))
        found = self._begun(plan, self._plan_ids(plan))
        if found is not None:
            query = query.where(schema.measurements.c.measured_at <= found.started_at)
        return self._connection.execute(query).scalar() or 0

    def _begun(self, plan: RunPlan, ids: Mapping[str, int]) -> Row[Any] | None:
        """The run of this plan that can be continued."""
        same = select(schema.runs).where(
            *(schema.runs.c[name] == value for name, value in ids.items()),
            schema.runs.c.technique == plan.technique,
            schema.runs.c.seed == plan.seed,
            schema.runs.c.parallelism == plan.parallelism,
            schema.runs.c.label == plan.label,
            schema.runs.c.campaign == plan.campaign,
            schema.runs.c.tuning_run_id.is_not(None),
        )
        return self._connection.execute(same).first()

    def _plan_ids(self, plan: RunPlan) -> dict[str, int]:
        return {
            "space_id": self._shared.space_id(plan.spec),
            "environment_id": self._shared.environment_id(plan.environment),
            "input_id": self.input_id(plan.spec.name, plan.given),
        }

    def tie_run(self, run_id: int, tuning_run_id: int) -> None:
        """Note OpenTuner's run of a run."""
        self._update_run(run_id, tuning_run_id=tuning_run_id)

    def end_run(self, run_id: int, state: str) -> None:
        """Note how a run ended: complete or interrupted."""
        self._update_run(run_id, state=state, ended_at=now())
        self.commit()

    def note_run(self, run_id: int, name: str, text: str) -> None:
        """Keep a text with a run, which is so gone on with; commit() makes it durable."""
        chosen = select(schema.runs.c.notes).where(schema.runs.c.id == run_id)
        notes = self._connection.execute(chosen).scalar_one()
        self._update_run(run_id, notes={**notes, name: text, CONTINUED: now()})

    def _update_run(self, run_id: int, **values: object) -> None:
        self._connection.execute(
            update(schema.runs).where(schema.runs.c.id == run_id).values(**values)
        )

    # ----------------------------------------------------------- measurements

    def known(self, plan: RunPlan) -> dict[Config, Stored]:
        """What was measured before and need not be again: same program, environment, input
        and campaign, whatever the ranges, the technique or the seed were."""
        rows = read_measurements(self._connection, plan.key, stages=SEARCHED)
        return {row.measurement.config: Stored(row.id, row.measurement) for row in rows}

    def turns(self, plan: RunPlan, stage: str) -> list[Turn]:
        """What was sampled in turn in a stage on this input, the last in the end."""
        return in_turns(read_measurements(self._connection, plan.key, stages=(stage,)))

    def add_turn(
        self, run_id: int, plan: RunPlan, stage: str, found: Sequence[Measurement]
    ) -> None:
        """Append measurements that were sampled in turn; commit() makes them durable."""
        self.add_measurements(run_id, plan, stage, found, turn=uuid.uuid4().hex)

    def add_measurement(self, run_id: int, plan: RunPlan, stage: str, found: Measurement) -> int:
        """Append a measurement; see add_measurements."""
        (measurement_id,) = self.add_measurements(run_id, plan, stage, [found])
        return measurement_id

    def add_measurements(
        self,
        run_id: int,
        plan: RunPlan,
        stage: str,
        found: Sequence[Measurement],
        turn: str | None = None,
    ) -> list[int]:
        """Append measurements with their samples and builds; commit() makes them durable.

        Returns their rows, in order.
        """
        configuration_ids = self._shared.configuration_ids([m.config for m in found])
        rows = [
            {
                "uuid": uuid.uuid4().hex,
                "run_id": run_id,
                "input_id": self.input_id(plan.spec.name, m.input),
                "configuration_id": configuration_id,
                "build_id": self._build_id(m, plan, configuration_id),
                "stage": stage,
                "measured_at": now(),
                "turn": turn,
                **measurement_row(m),
            }
            for m, configuration_id in zip(found, configuration_ids, strict=True)
        ]
        ids = self._insert(schema.measurements, rows)
        samples = chain.from_iterable(map(sample_rows, ids, found))
        insert_rows(self._connection, schema.samples, samples)
        observations = chain.from_iterable(map(observation_rows, ids, found))
        insert_rows(self._connection, schema.observations, observations)
        return ids

    def _build_id(self, m: Measurement, plan: RunPlan, configuration_id: int) -> int | None:
        if m.build is None:
            return None
        return self._shared.build_id(m.build, plan.environment, configuration_id)

    def add_tests(
        self,
        run_id: int,
        ordinal: int,
        result_ids: Sequence[int],
        measurement_ids: Sequence[int],
        requestors: Sequence[str],
    ) -> None:
        """Tie OpenTuner's results to the measurements that answered them; the first of these
        tests has this ordinal."""
        tests = zip(result_ids, measurement_ids, requestors, strict=True)
        rows = [
            {
                "run_id": run_id,
                "ordinal": place,
                "result_id": result_id,
                "measurement_id": measurement_id,
                "requestor": requestor,
            }
            for place, (result_id, measurement_id, requestor) in enumerate(tests, ordinal)
        ]
        insert_rows(self._connection, schema.tests, rows)

    def next_ordinal(self, run_id: int) -> int:
        """The ordinal of a run's next test."""
        query = select(func.max(schema.tests.c.ordinal)).where(schema.tests.c.run_id == run_id)
        last = self._connection.execute(query).scalar()
        return 0 if last is None else last + 1

    def input_id(self, space_name: str, given: Input) -> int:
        """The row of an input."""
        return self._shared.input_id(space_name, given)

    def _insert(self, table: Table, rows: Sequence[Mapping[str, object]]) -> list[int]:
        return insert_keyed(self._connection, table, rows, NATURAL_KEYS[table])

    @property
    def _connection(self) -> Connection:
        return self.session.connection()


def _noted(plan: RunPlan) -> dict[str, str]:
    """What a report tells of a run: the named baselines."""
    named = {b.name: dict(b.values) for b in plan.spec.baselines}
    return {BASELINES: json.dumps(named)} if named else {}
