"""Writing results: every finished measurement is on disk before the next one starts."""

from __future__ import annotations

import dataclasses
import math
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Insert,
    Row,
    Table,
    event,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from harness import __version__
from harness.records import Build, Config, Environment, Input, Measurement
from harness.results import schema
from harness.results.connect import now
from harness.results.read import BUILD_COLUMNS, Key, last_turn, read_measurements
from harness.spec import Parameter, Spec


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
        self._ids: dict[tuple[str, str], int] = {}
        event.listen(factory, "after_rollback", lambda _session: self._ids.clear())

    @property
    def session(self) -> Session:
        """The one session."""
        return self.sessions()

    def commit(self) -> None:
        """Everything written so far reaches the disk."""
        self.session.commit()

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
            changed = {"state": "running", "test_limit": plan.test_limit, "ended_at": None}
            self._update_run(found.id, **changed)
            return Begun(found.id, tuple(map(Config, found.seeds)), found.tuning_run_id)
        run_id = self._insert(
            schema.runs,
            **ids,
            uuid=uuid.uuid4().hex,
            campaign=plan.campaign,
            label=plan.label,
            technique=plan.technique,
            seed=plan.seed,
            test_limit=plan.test_limit,
            parallelism=plan.parallelism,
            state="running",
            started_at=now(),
            harness_version=__version__,
            seeds=[dict(seed) for seed in seeds],
            notes=dict(notes),
        )
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
            "space_id": self._space(plan.spec),
            "environment_id": self._environment(plan.environment),
            "input_id": self.input_id(plan.spec.name, plan.given),
        }

    def tie_run(self, run_id: int, tuning_run_id: int) -> None:
        """Note OpenTuner's run of a run."""
        self._update_run(run_id, tuning_run_id=tuning_run_id)

    def end_run(self, run_id: int, state: str) -> None:
        """Note how a run ended: complete or interrupted."""
        self._update_run(run_id, state=state, ended_at=now())
        self.commit()

    def _update_run(self, run_id: int, **values: object) -> None:
        self._connection.execute(
            update(schema.runs).where(schema.runs.c.id == run_id).values(**values)
        )

    # ----------------------------------------------------------- measurements

    def known(self, plan: RunPlan) -> dict[Config, Stored]:
        """What was measured before and need not be again: same program, environment, input
        and campaign, whatever the ranges, the technique or the seed were."""
        rows = read_measurements(self._connection, plan.key, stages=("search", "cross"))
        return {row.measurement.config: Stored(row.id, row.measurement) for row in rows}

    def finals(self, plan: RunPlan) -> list[Measurement]:
        """What was last measured in turn on this input."""
        return last_turn(read_measurements(self._connection, plan.key, stages=("final",)))

    def add_finals(self, run_id: int, plan: RunPlan, finals: Iterable[Measurement]) -> None:
        """Append measurements that were sampled in turn; commit() makes them durable."""
        turn = uuid.uuid4().hex
        for measurement in finals:
            self.add_measurement(run_id, plan, "final", measurement, turn)

    def add_measurement(
        self, run_id: int, plan: RunPlan, stage: str, m: Measurement, turn: str | None = None
    ) -> int:
        """Append a measurement with its samples and its build; commit() makes it durable."""
        configuration_id = self._configuration(m.config)
        timing = m.timing
        measurement_id = self._insert(
            schema.measurements,
            uuid=uuid.uuid4().hex,
            run_id=run_id,
            input_id=self.input_id(plan.spec.name, m.input),
            configuration_id=configuration_id,
            build_id=self._build(m.build, plan, configuration_id) if m.build else None,
            stage=stage,
            outcome=m.outcome.value,
            median_s=timing.median_s if timing else None,
            mean_s=timing.mean_s if timing else None,
            std_s=timing.std_s if timing else None,
            sample_count=timing.count if timing else None,
            stopped=timing.stopped.value if timing else None,
            message=m.message,
            worst_element=_finite(dataclasses.asdict(m.worst)) if m.worst else None,
            warmup_s=list(m.warmup_s),
            wall_s=m.wall_s,
            measured_at=now(),
            turn=turn,
            host_read=None if m.host_read is None else list(m.host_read),
            shared_with=m.shared_with,
        )
        if timing is not None:
            rows = [
                {"measurement_id": measurement_id, "ordinal": ordinal, "time_s": time_s}
                for ordinal, time_s in enumerate(timing.samples_s)
            ]
            self._connection.execute(_insert_into(schema.samples), rows)
        for name, value in m.observed.items():
            self._insert(
                schema.observations, measurement_id=measurement_id, name=name, value=float(value)
            )
        return measurement_id

    def add_test(
        self, run_id: int, ordinal: int, result_id: int, measurement_id: int, requestor: str
    ) -> None:
        """Tie OpenTuner's result to the measurement that answered it."""
        self._insert(
            schema.tests,
            run_id=run_id,
            ordinal=ordinal,
            result_id=result_id,
            measurement_id=measurement_id,
            requestor=requestor,
        )

    def next_ordinal(self, run_id: int) -> int:
        """The ordinal of a run's next test."""
        query = select(func.max(schema.tests.c.ordinal)).where(schema.tests.c.run_id == run_id)
        last = self._connection.execute(query).scalar()
        return 0 if last is None else last + 1

    # ------------------------------------------------------------ shared rows

    def input_id(self, space_name: str, given: Input) -> int:
        """The row of an input."""
        key = {"digest": given.digest, "space_name": space_name}
        return self._shared(schema.inputs, key, lambda: {"features": dict(given)})

    def _space(self, spec: Spec) -> int:
        return self._shared(schema.spaces, {"sha256": spec.space_sha256}, lambda: _told_space(spec))

    def _environment(self, environment: Environment) -> int:
        key = {"fingerprint": environment.fingerprint}
        return self._shared(schema.environments, key, lambda: _told_environment(environment))

    def _configuration(self, config: Config) -> int:
        key = {"digest": config.digest}
        return self._shared(schema.configurations, key, lambda: {"parameters": dict(config)})

    def _build(self, build: Build, plan: RunPlan, configuration_id: int) -> int:
        key = {"environment_id": self._environment(plan.environment), "key": build.key}
        return self._shared(
            schema.builds,
            key,
            lambda: (
                {"configuration_id": configuration_id}
                | {name: getattr(build, name) for name in BUILD_COLUMNS if name != "key"}
            ),
        )

    def _shared(
        self, table: Table, key: Mapping[str, object], others: Callable[[], Mapping[str, object]]
    ) -> int:
        """The id of the row with this key, which is added once."""
        known = (table.name, "\x1f".join(map(str, key.values())))
        if known not in self._ids:
            query = select(table.c.id).where(*(table.c[n] == v for n, v in key.items()))
            found = self._connection.execute(query).scalar()
            self._ids[known] = found or self._insert(table, **key, **others())
        return self._ids[known]

    def _insert(self, table: Table, **values: object) -> int:
        row = {n: _storable(v) if isinstance(v, str) else v for n, v in values.items()}
        key = self._connection.execute(_insert_into(table), row).inserted_primary_key
        assert key is not None
        return int(key[0])

    @property
    def _connection(self) -> Connection:
        return self.session.connection()


@cache
def _insert_into(table: Table) -> Insert:
    """One statement a table: making and compiling it costs more than running it."""
    return insert(table)


def _told_environment(environment: Environment) -> dict[str, object]:
    told = dataclasses.asdict(environment)
    del told["notes"]
    return told


def _told_space(spec: Spec) -> dict[str, object]:
    parameters = {
        p.name: {"kind": p.kind, "role": p.role, "default": p.default, "values": _values(p)}
        for p in spec.parameters
    }
    return {
        "program_sha256": spec.program_sha256,
        "name": spec.name,
        "title": spec.title,
        "parameters": parameters,
        "constraints": [constraint.expression.text for constraint in spec.constraints],
    }


def _values(parameter: Parameter) -> object:
    """A parameter's values as JSON; a range by its ends."""
    values = parameter.values
    if isinstance(values, range):
        return {"min": values[0], "max": values[-1], "step": values.step}
    return list(values)


def _finite(told: Mapping[str, Any]) -> dict[str, Any]:
    """JSON has no NaN and no infinity: those are told as text."""
    return {
        name: str(v) if isinstance(v, float) and not math.isfinite(v) else v
        for name, v in told.items()
    }


def _storable(text: str) -> str:
    """What a compiler or driver says may hold bytes that are no text, or NUL: escape those."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")
