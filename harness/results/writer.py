"""The session of a writer: what belongs together is committed together, or not at all; and the
rows that records become."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, Table, event
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from harness.core.records import Build, Config, Environment, Input, Measurement
from harness.results import schema
from harness.results.gathering import measurement_cells
from harness.results.inserting import NATURAL_KEYS, NaturalKey, insert_missing
from harness.results.read import BUILD_COLUMNS
from harness.results.server import repeated
from harness.space_file import Parameter, Spec

T = TypeVar("T")


class Writer:
    """Transactions of one writer, and the ids of the rows to which many others refer: they are
    looked up once and then remembered.

    OpenTuner's tables are written through the same `session`: SQLite has one writer, and so a test
    and its result are committed together.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        factory = sessionmaker(
            engine,
            autoflush=False,
            expire_on_commit=False,
            # A commit is one, also where somebody has read with the connection outside the session.
            join_transaction_mode="control_fully",
        )
        # One for all threads, of which one at a time writes: SQLite has one writer.
        self.sessions: scoped_session[Session] = scoped_session(factory, scopefunc=lambda: None)
        self._is_in_work = False
        self._kept: Connection | None = None
        self._ids: dict[tuple[str, NaturalKey], int] = {}  # by table and key
        # A rollback may remove rows.
        event.listen(factory, "after_rollback", lambda _session: self._ids.clear())

    def __exit__(self, *_: object) -> None:
        """Close the session: with one open, SQLite leaves its log beside the file."""
        self.close()

    def close(self) -> None:
        """Close the session, and the connection that it keeps."""
        self.sessions.remove()
        self._leave_connection()

    def _leave_connection(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    @property
    def session(self) -> Session:
        """The one session of this writer.

        It keeps its connection to SQLite: to take one for each transaction costs a sixth of the
        transaction. One to a server is looked at before each transaction.
        """
        session = self.sessions()
        if self._kept is None and self.engine.dialect.name == "sqlite":
            session.bind = self._kept = self.engine.connect()
        return session

    @property
    def connection(self) -> Connection:
        """The connection of the present transaction."""
        return self.session.connection()

    def commit(self) -> None:
        """Write everything so far to the disk."""
        self.session.commit()

    def transact(self, work: Callable[[], T]) -> T:
        """Do work and commit it, whole or not at all; inside of other such work, leave the commit
        to that.

        Where a server is lost, wait for it, and do the work again, so that it changes nothing
        in memory that it cannot change again. A commit is not repeated: nobody knows whether one
        that was not answered was done.
        """
        if self._is_in_work:
            return work()

        def flushed() -> T:
            done = work()
            self.session.flush()
            return done

        self._is_in_work = True
        try:
            done = repeated(flushed, self.session.rollback)
            self.session.commit()
            return done
        except BaseException:
            session = self.session
            session.rollback()
            session.bind = self.engine
            self._leave_connection()  # a commit that failed may have left SQLite's transaction open
            raise
        finally:
            self._is_in_work = False

    def read(self, query: Callable[[], T]) -> T:
        """Read in the present transaction, or in one of its own, which ends: an open one would keep
        a server busy while a configuration is measured."""
        return query() if self.session.in_transaction() else self.transact(query)

    # ------------------------------------------------------------------- ids of rows

    def input_id(self, space_name: str, problem: Input) -> int:
        """Return the id of an input's row."""
        key = (space_name, problem.digest)
        return self._row(schema.inputs, key, lambda: {"features": dict(problem)})

    def space_id(self, spec: Spec) -> int:
        """Return the id of the current space's row."""
        return self._row(schema.spaces, (spec.name, spec.space_sha256), lambda: _space_row(spec))

    def environment_id(self, environment: Environment) -> int:
        """Return the id of an environment's row."""
        key = (environment.fingerprint,)
        return self._row(schema.environments, key, lambda: environment.compared)

    def configuration_ids(self, configs: Sequence[Config]) -> list[int]:
        """Return the ids of the configurations' rows, in order."""
        keys = [(config.digest,) for config in configs]
        return self._rows(
            schema.configurations, keys, lambda index: {"parameters": dict(configs[index])}
        )

    def build_id(self, build: Build, environment: Environment, configuration_id: int) -> int:
        """Return the id of a build's row."""
        key = (self.environment_id(environment), build.key)
        others = {name: getattr(build, name) for name in BUILD_COLUMNS}
        others["configuration_id"] = configuration_id
        return self._row(schema.builds, key, lambda: others)

    def _row(self, table: Table, key: NaturalKey, others: Callable[[], dict[str, object]]) -> int:
        """Return the id of the row with this key; add it with the other values if it is missing."""
        (row_id,) = self._rows(table, [key], lambda _: others())
        return row_id

    def _rows(
        self, table: Table, keys: Sequence[NaturalKey], others: Callable[[int], dict[str, object]]
    ) -> list[int]:
        """Return the ids of the rows with these keys; `others` gives a new row's other values by
        the index of its key."""
        names, known = NATURAL_KEYS[table], self._ids
        new = {key: index for index, key in enumerate(keys) if (table.name, key) not in known}
        rows = [dict(zip(names, key, strict=True)) | others(index) for key, index in new.items()]
        ids = insert_missing(self.connection, table, rows)
        known |= {(table.name, key): row_id for key, row_id in zip(new, ids, strict=True)}
        return [known[table.name, key] for key in keys]


def measurement_row(m: Measurement) -> dict[str, Any]:
    """Return the row of a measurement, without what other tables hold."""
    timing = m.timing
    return {
        **measurement_cells(m),
        "median_s": timing.median_s if timing else None,
        "mean_s": timing.mean_s if timing else None,
        "std_s": timing.std_s if timing else None,
        "sample_count": timing.count if timing else None,
    }


def _space_row(spec: Spec) -> dict[str, Any]:
    """Return the row of a space: its parameters and constraints, for other programs to read."""
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
        "program_parts": dict(spec.program_parts),
    }


def _values(parameter: Parameter) -> object:
    """Return a parameter's values as JSON data; a range by its ends and step."""
    values = parameter.values
    if isinstance(values, range):
        return {"min": values[0], "max": values[-1], "step": values.step}
    return list(values)
