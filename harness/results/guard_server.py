"""Find what others made of harness's tables on a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Connection,
    Float,
    Integer,
    String,
    bindparam,
    text,
)
from sqlalchemy.types import TypeEngine

from harness.core.text import printable
from harness.results import opentuner_tables as opentuner
from harness.results import schema

_OURS = "c.relname IN :names AND pg_table_is_visible(c.oid)"

_FOUND = text(
    "SELECT c.relname, 'the trigger', t.tgname FROM pg_class c JOIN pg_trigger t "
    f"ON t.tgrelid = c.oid WHERE {_OURS} AND NOT t.tgisinternal "
    "UNION ALL "
    "SELECT c.relname, 'the rule', r.rulename FROM pg_class c JOIN pg_rewrite r "
    f"ON r.ev_class = c.oid WHERE {_OURS} AND c.relkind = 'r' "
    "UNION ALL "
    "SELECT c.relname, CASE WHEN a.attgenerated <> '' THEN 'the computed column' "
    "ELSE 'a default for the column' END, a.attname FROM pg_class c "
    "JOIN pg_attribute a ON a.attrelid = c.oid "
    "JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum "
    f"WHERE {_OURS} AND c.relkind = 'r' AND NOT (a.attname IN ('id', 'version') "
    "AND pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%') "
    "UNION ALL "
    "SELECT c.relname, 'row-level security', '' FROM pg_class c "
    f"WHERE {_OURS} AND c.relrowsecurity "
    "UNION ALL "
    "SELECT c.relname, 'rows that a crash deletes (UNLOGGED)', '' FROM pg_class c "
    f"WHERE {_OURS} AND c.relkind = 'r' AND c.relpersistence <> 'p' "
    "UNION ALL "
    "SELECT c.relname, 'rows of the table', i.inhrelid::regclass::text FROM pg_class c "
    f"JOIN pg_inherits i ON i.inhparent = c.oid WHERE {_OURS} "
    "UNION ALL "
    "SELECT c.relname, 'rows of something that is no table', '' FROM pg_class c "
    f"WHERE {_OURS} AND c.relkind NOT IN ('r', 'i', 'S') "
    "ORDER BY 1, 2, 3"
).bindparams(bindparam("names", expanding=True))

_TYPES = text(
    "SELECT c.relname, a.attname, a.atttypid::regtype::text FROM pg_class c JOIN pg_attribute a "
    f"ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped WHERE {_OURS} "
    "ORDER BY c.relname, a.attnum"
).bindparams(bindparam("names", expanding=True))

_ALLOWED: tuple[tuple[type[TypeEngine[Any]], tuple[str, ...]], ...] = (
    (BigInteger, ("bigint",)),
    (Integer, ("integer", "bigint")),
    (Float, ("double precision",)),
    (JSON, ("json",)),
    (String, ("character varying", "text")),
)


def foreign_on_server(connection: Connection) -> Iterator[str]:
    """Describe what changes, hides or adds rows of our tables, or of OpenTuner's."""
    names = [*schema.metadata.tables, *opentuner.metadata.tables]
    for table, what, name in connection.execute(_FOUND, {"names": names}):
        shown = f"{what} `{printable(name)}`" if name else what
        yield (
            f"{shown} in the table {table}, which harness did not make: it can change what is "
            "stored or read. Drop it, or choose another --database"
        )
    for table, name, found in connection.execute(_TYPES, {"names": list(schema.metadata.tables)}):
        column = schema.metadata.tables[table].c.get(name)
        if column is not None and found not in _types_of(column):
            yield (
                f"the type {printable(found)} in the column {name} of the table {table}, where "
                f"harness has {_types_of(column)[0]}. Copy the database again from the original"
            )


def _types_of(column: Column[Any]) -> tuple[str, ...]:
    return next(names for kind, names in _ALLOWED if isinstance(column.type, kind))
