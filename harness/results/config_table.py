"""Many configurations as codes: a record of each would take kilobytes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, overload

import numpy as np

from harness.core.arrays import Codes, Flags
from harness.core.records import Config, Value

_MOST_KEPT = 20_000  # records; beyond, those not used for longest are made again


class Coder(dict[Any, int]):
    """Numbers for keys, in the order in which they were first asked for."""

    def __missing__(self, key: Hashable) -> int:
        self[key] = code = len(self)
        return code


def _value_key(value: Value) -> Hashable:
    """Return a key that keeps 1, 1.0 and True apart, and 0.0 and -0.0."""
    return type(value), repr(value) if type(value) is float else value


@dataclass(frozen=True, eq=False)
class ConfigTable(Sequence[Config]):
    """Distinct configurations; a record is made when it is asked for.

    `layouts` are the names of configurations, in their order, and `layout`, shape
    (configurations,), each one's. `codes`, shape (configurations, names), are the indices of the
    values in `values`, by name in the order of `names`; -1 where a configuration lacks the name.
    """

    names: tuple[str, ...]
    values: tuple[tuple[Value, ...], ...]
    codes: Codes
    layouts: tuple[tuple[str, ...], ...]
    layout: Codes

    @classmethod
    def of(cls, found: Iterable[Mapping[str, Value]]) -> ConfigTable:
        """Code the configurations.

        Raises TypeError or ValueError where one cannot be a configuration, as Config does.
        """
        names, layouts = Coder(), Coder()
        coders: list[Coder] = []
        plain: list[list[Value]] = []
        layout: list[int] = []
        rows: list[list[int]] = []
        for config in found:
            layout.append(layouts[tuple(config)])
            row = [-1] * len(names)
            for name, value in config.items():
                column = names[name]
                if column == len(coders):
                    coders.append(Coder())
                    plain.append([])
                    row.append(-1)
                row[column] = code = coders[column][_value_key(value)]
                if code == len(plain[column]):
                    plain[column].append(Config({name: value})[name])  # which checks it
            rows.append(row)
        codes = np.full((len(rows), len(names)), -1, dtype=np.int32)
        for width in {len(row) for row in rows}:
            here = [index for index, row in enumerate(rows) if len(row) == width]
            codes[here, :width] = np.array([rows[index] for index in here], dtype=np.int32)
        return cls(
            tuple(names),
            tuple(map(tuple, plain)),
            codes,
            tuple(layouts),
            np.array(layout, dtype=np.int32),
        )

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, index: int) -> Config: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Config]: ...
    def __getitem__(self, index: int | slice) -> Config | Sequence[Config]:
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        made: Config = self._made(range(len(self))[index])
        return made

    @cached_property
    def _made(self) -> Any:
        return lru_cache(_MOST_KEPT)(self._make)

    def _make(self, index: int) -> Config:
        row, columns = self.codes[index].tolist(), self._columns
        names = self.layouts[self.layout[index]]
        return Config({name: self.values[columns[name]][row[columns[name]]] for name in names})

    @cached_property
    def _columns(self) -> Mapping[str, int]:
        return {name: column for column, name in enumerate(self.names)}

    @cached_property
    def _code_of(self) -> tuple[Mapping[Hashable, int], ...]:
        return tuple(
            {_value_key(value): code for code, value in enumerate(known)} for known in self.values
        )

    @cached_property
    def _found(self) -> dict[Config, int | None]:
        return {}

    def find(self, config: Config) -> int | None:
        """Return the index of a configuration; None if it is not here."""
        if config not in self._found:
            if len(self._found) >= _MOST_KEPT:
                self._found.clear()
            self._found[config] = self._find(config)
        return self._found[config]

    def _find(self, config: Config) -> int | None:
        if not set(config) <= self._columns.keys():
            return None
        wanted = np.full(len(self.names), -1, dtype=np.int32)
        for name, value in config.items():
            column = self._columns[name]
            code = self._code_of[column].get(_value_key(value))
            if code is None:
                return None
            wanted[column] = code
        same: Flags = np.ones(len(self), dtype=np.bool_)
        for column, code in enumerate(wanted.tolist()):
            same &= self.codes[:, column] == code
        hits = np.flatnonzero(same)
        return int(hits[0]) if len(hits) else None
