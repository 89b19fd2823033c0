"""The connection of a writer: what belongs together is committed together, or not at all; and the
ids of rows to which others refer."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, Table

from harness.core.plain_pickle import dump_compressed
from harness.core.records import Build, Config, Environment, Input
from harness.results import schema, stock
from harness.results.inserting import (
    NATURAL_KEYS,
    Key,
    Row,
    insert_missing,
    insert_returning_ids,
)
from harness.results.read import BUILD_COLUMNS
from harness.results.server import lock_shared_rows, repeated
from harness.space_file import Spec

T = TypeVar("T")


class Writer:
    """Transactions of one writer, and the ids of the rows to which many others refer: they are
    looked up once and then remembered."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        # One for all threads, of which one at a time writes: SQLite has one writer.
        self._connection: Connection | None = None
        self._is_in_work = False
        self._ids: dict[tuple[str, Key], int] = {}  # by table and key
        self._configuration_ids: dict[int, dict[str, int]] = {}  # by program and digest

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------ transactions

    @property
    def connection(self) -> Connection:
        """The connection of the present transaction."""
        if self._connection is None:
            self._connection = self.engine.connect()
        return self._connection

    def close(self) -> None:
        """Close the connection: with one open, SQLite leaves its log beside the file."""
        if self._connection is not None:
            self._connection.rollback()  # a commit that failed may have left a transaction open
            self._connection.close()
            self._connection = None

    def commit(self) -> None:
        """Write everything so far to the disk.

        The connection to SQLite stays open: to open one for each transaction costs a sixth of the
        transaction. One to a server is looked at before each transaction.
        """
        self.connection.commit()
        if self.engine.dialect.name != "sqlite":
            self.close()

    def roll_back(self) -> None:
        """Drop what was not committed, and forget the ids, of which some may be gone."""
        self._ids.clear()
        self._configuration_ids.clear()
        self.close()

    def transact(self, work: Callable[[], T]) -> T:
        """Do work and commit it, whole or not at all; inside of other such work, leave the commit
        to that.

        Where a server is lost, wait for it, and do the work again, so that it changes nothing
        in memory that it cannot change again. A commit is not repeated: nobody knows whether one
        that was not answered was done. What only reads is such work too: an open transaction would
        keep a server busy while a configuration is measured.
        """
        if self._is_in_work:
            return work()
        self._is_in_work = True
        try:
            done = repeated(work, self.roll_back)
            self.commit()
            return done
        except BaseException:
            self.roll_back()
            raise
        finally:
            self._is_in_work = False

    # ------------------------------------------------------------------- ids of rows

    def program_id(self, space_name: str) -> int:
        """Return the id of the row of OpenTuner's that stands for the spaces of a name."""
        return self._id(stock.program, {"project": "harness", "name": space_name})

    def input_class_id(self, space_name: str) -> int:
        """Return the id of the class of a space's inputs."""
        program_id = self.program_id(space_name)
        key = {"program_id": program_id, "name": space_name, "size": stock.NO_SIZE}
        return self._id(stock.input_class, key)

    def machine_id(self) -> int:
        """Return the id of this machine's row."""
        return self._id(stock.machine, {"name": platform.node()})

    def input_id(self, space_name: str, problem: Input) -> int:
        """Return the id of an input's row; its path is the features as JSON."""
        key = {"input_class_id": self.input_class_id(space_name), "path": problem.json}
        return self._id(stock.problem, key, lambda: {"features": dict(problem)})

    def space_id(self, spec: Spec) -> int:
        """Return the id of the current space's row."""
        key = {"name": spec.name, "sha256": spec.space_sha256}
        return self._id(schema.spaces, key, lambda: space_row(spec))

    def environment_id(self, environment: Environment) -> int:
        """Return the id of an environment's row."""
        key = {"fingerprint": environment.fingerprint}
        return self._id(schema.environments, key, lambda: environment.compared)

    def build_id(self, build: Build, environment: Environment, configuration_id: int) -> int:
        """Return the id of a build's row."""
        cells = {name: getattr(build, name) for name in BUILD_COLUMNS}
        cells["configuration_id"] = configuration_id
        key = {"environment_id": self.environment_id(environment), "key": build.key}
        return self._id(schema.builds, key, lambda: cells)

    def _id(self, table: Table, key: Row, others: Callable[[], Mapping[str, Any]] = dict) -> int:
        """Return the id of the row with this key; add it, with its other cells and those that
        extend it, if it is missing."""
        remembered = table.name, tuple(key.values())
        if remembered not in self._ids:
            if table in NATURAL_KEYS:
                (row_id,) = insert_missing(self.connection, table, [{**others(), **key}])
            else:
                row_id = self._shared_id(table, key, others)
            self._ids[remembered] = row_id
        return self._ids[remembered]

    def _shared_id(self, table: Table, key: Row, others: Callable[[], Row]) -> int:
        """Return the id of a row of OpenTuner's, whose table has no unique key."""
        query = schema.select_extended(table, table.c.id).order_by(table.c.id)
        query = query.where(*[table.c[name] == value for name, value in key.items()])
        row_id: int | None = self.connection.execute(query).scalar()
        if row_id is None:
            lock_shared_rows(self.connection)
            row_id = self.connection.execute(query).scalar()
        if row_id is None:
            (row_id,) = insert_returning_ids(self.connection, table, [{**others(), **key}])
        return row_id

    def configuration_ids(self, space_name: str, configs: Sequence[Config]) -> list[int]:
        """Return the ids of the configurations' rows, in order.

        Another writer to a server may add the same configuration: readers take them for one.
        """
        table = stock.configuration
        program_id = self.program_id(space_name)
        if program_id not in self._configuration_ids:
            # All at once: to look them up for each test would take longer.
            query = schema.select_extended(table, table.c.hash, table.c.id)
            query = query.where(table.c.program_id == program_id)
            rows = self.connection.execute(query)
            self._configuration_ids[program_id] = {row.hash: row.id for row in rows}
        ids = self._configuration_ids[program_id]
        new = {config.digest: config for config in configs if config.digest not in ids}
        added: list[Row] = []
        for digest, config in new.items():
            row = {
                "program_id": program_id,
                "hash": digest,
                "data": dump_compressed(dict(config)),
                "digest": digest,
                "parameters": dict(config),
            }
            added.append(row)
        new_ids = insert_returning_ids(self.connection, table, added)
        ids.update(zip(new, new_ids, strict=True))
        return [ids[config.digest] for config in configs]


def space_row(spec: Spec) -> dict[str, Any]:
    """Return the row of a space: its parameters and constraints, for other programs to read."""
    parameters: dict[str, dict[str, object]] = {}
    for p in spec.parameters:
        values: object
        if isinstance(p.values, range):  # of millions of values, perhaps
            values = {"min": p.values[0], "max": p.values[-1], "step": p.values.step}
        else:
            values = list(p.values)
        described: dict[str, object] = {
            "kind": p.kind,
            "role": p.role,
            "default": p.default,
            "values": values,
        }
        if p.when is not None:
            described["when"] = p.when.text
        parameters[p.name] = described
    return {
        "program_sha256": spec.program_sha256,
        "name": spec.name,
        "title": spec.title,
        "parameters": parameters,
        "constraints": [constraint.expression.text for constraint in spec.constraints],
        "program_parts": dict(spec.program_parts),
    }
