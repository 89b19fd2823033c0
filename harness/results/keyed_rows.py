"""Rows that many others refer to: each is added once, and found again by its natural key."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import Connection, Table

from harness.core.records import Build, Config, Environment, Input
from harness.results import schema
from harness.results.inserting import NATURAL_KEYS, NaturalKey, find_rows, insert_keyed
from harness.results.rows import build_row, environment_row, space_row
from harness.space_file import Spec


class SharedRows:
    """The ids of shared rows, which are looked up once and then remembered."""

    def __init__(self, connection: Callable[[], Connection]) -> None:
        self._connection = connection
        self._ids: dict[tuple[str, NaturalKey], int] = {}

    def forget(self) -> None:
        """Rows that were added may be gone: look them up again."""
        self._ids.clear()

    def input_id(self, space_name: str, given: Input) -> int:
        """The row of an input."""
        key = (space_name, given.digest)
        return self._row(schema.inputs, key, lambda: {"features": dict(given)})

    def space_id(self, spec: Spec) -> int:
        """The row of a space as it now is."""
        return self._row(schema.spaces, (spec.space_sha256,), lambda: space_row(spec))

    def environment_id(self, environment: Environment) -> int:
        """The row of an environment."""
        key = (environment.fingerprint,)
        return self._row(schema.environments, key, lambda: environment_row(environment))

    def configuration_ids(self, configs: Sequence[Config]) -> list[int]:
        """The rows of configurations, in order."""
        keys = [(config.digest,) for config in configs]
        return self._rows(
            schema.configurations, keys, lambda place: {"parameters": dict(configs[place])}
        )

    def build_id(self, build: Build, environment: Environment, configuration_id: int) -> int:
        """The row of a build."""
        key = (self.environment_id(environment), build.key)
        others = {"configuration_id": configuration_id}
        return self._row(schema.builds, key, lambda: others | build_row(build))

    def _row(self, table: Table, key: NaturalKey, others: Callable[[], dict[str, object]]) -> int:
        """The id of the row with this key."""
        (row_id,) = self._rows(table, [key], lambda _: others())
        return row_id

    def _rows(
        self,
        table: Table,
        keys: Sequence[NaturalKey],
        others: Callable[[int], dict[str, object]],
    ) -> list[int]:
        """The ids of the rows with these keys; each is added once, with the other values of the
        key at its place."""
        names, known, connection = NATURAL_KEYS[table], self._ids, self._connection()
        asked = {key: place for place, key in enumerate(keys) if (table.name, key) not in known}
        if asked:
            found = find_rows(connection, table, names, asked)
            new = {key: place for key, place in asked.items() if key not in found}
            rows = [
                dict(zip(names, key, strict=True)) | others(place) for key, place in new.items()
            ]
            found |= zip(new, insert_keyed(connection, table, rows, names), strict=True)
            known |= {(table.name, key): row_id for key, row_id in found.items()}
        return [known[table.name, key] for key in keys]
