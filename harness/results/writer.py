"""The session of a writer: what belongs together is committed together, or not at all; and the
ids of rows to which others refer."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, Table, event, select
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from harness.core.plain_pickle import dump_compressed
from harness.core.records import Build, Config, Environment, Input
from harness.results import schema, stock
from harness.results.inserting import (
    NATURAL_KEYS,
    NaturalKey,
    insert_missing,
    insert_returning_ids,
    insert_rows,
)
from harness.results.read import BUILD_COLUMNS
from harness.results.server import lock_shared_rows, repeated
from harness.space_file import Parameter, Spec

T = TypeVar("T")

_NONE: Mapping[str, object] = {}


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
        self._uncommitted: list[tuple[str, NaturalKey]] = []
        self._read_programs: set[int] = set()  # those whose configurations are among the ids
        event.listen(factory, "after_commit", lambda _session: self._uncommitted.clear())
        event.listen(factory, "after_rollback", lambda _session: self._forget_uncommitted())

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

    def _forget_uncommitted(self) -> None:
        """Forget the ids of rows that a rollback removed."""
        for key in self._uncommitted:
            self._ids.pop(key, None)
        self._uncommitted.clear()

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

    def program_id(self, space_name: str) -> int:
        """Return the id of the row of OpenTuner's that stands for the spaces of a name."""
        return self._record_id(stock.program, {"project": "harness", "name": space_name})

    def input_class_id(self, space_name: str) -> int:
        """Return the id of the class of a space's inputs."""
        program_id = self.program_id(space_name)
        cells = {"program_id": program_id, "name": space_name, "size": stock.NO_SIZE}
        return self._record_id(stock.input_class, cells)

    def machine_id(self) -> int:
        """Return the id of this machine's row."""
        return self._record_id(stock.machine, {"name": platform.node()})

    def input_id(self, space_name: str, problem: Input) -> int:
        """Return the id of an input's row; its path is the features as JSON."""
        cells = {"input_class_id": self.input_class_id(space_name), "path": problem.json}
        return self._record_id(stock.problem, cells, {"features": dict(problem)})

    def _record_id(
        self, table: Table, cells: Mapping[str, object], extending: Mapping[str, object] = _NONE
    ) -> int:
        """Return the id of the row of OpenTuner's with these cells; add it if it is missing.

        A row that ours extend counts if it is extended; a new one is, by `extending`.
        """
        key = table.name, tuple(cells.values())
        if key not in self._ids:
            query = select(table.c.id).order_by(table.c.id)
            query = query.where(*(table.c[name] == value for name, value in cells.items()))
            if table in schema.EXTENSIONS:
                query = query.join(schema.EXTENSIONS[table])
            row_id = self.connection.execute(query).scalar()
            if row_id is None:
                lock_shared_rows(self.connection)  # these rows have no unique key
                row_id = self.connection.execute(query).scalar()
            if row_id is None:
                (row_id,) = insert_returning_ids(self.connection, table, [cells])
                if table in schema.EXTENSIONS:
                    row = {"id": row_id, **extending}
                    insert_rows(self.connection, schema.EXTENSIONS[table], [row])
            self._remember(key, row_id)
        return self._ids[key]

    def _remember(self, key: tuple[str, NaturalKey], row_id: int) -> None:
        self._ids[key] = row_id
        self._uncommitted.append(key)

    def space_id(self, spec: Spec) -> int:
        """Return the id of the current space's row."""
        return self._row(schema.spaces, (spec.name, spec.space_sha256), lambda: space_row(spec))

    def environment_id(self, environment: Environment) -> int:
        """Return the id of an environment's row."""
        key = (environment.fingerprint,)
        return self._row(schema.environments, key, lambda: environment.compared)

    def configuration_ids(self, space_name: str, configs: Sequence[Config]) -> list[int]:
        """Return the ids of the configurations' rows, in order.

        Another writer to a server may add the same configuration: readers take them for one.
        """
        program_id, name = self.program_id(space_name), stock.configuration.name
        self._read_configurations(program_id)
        new = {c.digest: c for c in configs if (name, (program_id, c.digest)) not in self._ids}
        rows = [
            {"program_id": program_id, "hash": digest, "data": dump_compressed(dict(config))}
            for digest, config in new.items()
        ]
        ids = insert_returning_ids(self.connection, stock.configuration, rows)
        extending = [
            {"id": row_id, "digest": config.digest, "parameters": dict(config)}
            for row_id, config in zip(ids, new.values(), strict=True)
        ]
        insert_rows(self.connection, schema.configurations, extending)
        for row_id, digest in zip(ids, new, strict=True):
            self._remember((name, (program_id, digest)), row_id)
        return [self._ids[name, (program_id, config.digest)] for config in configs]

    def _read_configurations(self, program_id: int) -> None:
        """Read the ids of a program's configurations, once a session: to look them up for each
        test would take longer."""
        if program_id in self._read_programs:
            return
        table = stock.configuration
        query = select(table.c.hash, table.c.id).join(schema.configurations)
        for digest, row_id in self.connection.execute(
            query.where(table.c.program_id == program_id)
        ):
            self._ids[table.name, (program_id, digest)] = row_id
        self._read_programs.add(program_id)

    def build_id(self, build: Build, environment: Environment, configuration_id: int) -> int:
        """Return the id of a build's row."""
        key = (self.environment_id(environment), build.key)
        others = {name: getattr(build, name) for name in BUILD_COLUMNS}
        others["configuration_id"] = configuration_id
        return self._row(schema.builds, key, lambda: others)

    def _row(self, table: Table, key: NaturalKey, others: Callable[[], dict[str, object]]) -> int:
        """Return the id of the row with this key; add it with the other values if it is missing."""
        if (table.name, key) not in self._ids:
            row = {**dict(zip(NATURAL_KEYS[table], key, strict=True)), **others()}
            (row_id,) = insert_missing(self.connection, table, [row])
            self._remember((table.name, key), row_id)
        return self._ids[table.name, key]


def space_row(spec: Spec) -> dict[str, Any]:
    """Return the row of a space: its parameters and constraints, for other programs to read."""
    parameters = {
        p.name: {"kind": p.kind, "role": p.role, "default": p.default, "values": _values(p)}
        for p in spec.parameters
    }
    for parameter in spec.parameters:
        if parameter.when is not None:
            parameters[parameter.name]["when"] = parameter.when.text
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
