"""A space whose legal configurations are listed: those that a recording holds for an input."""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from harness.elimination import Solutions
from harness.errors import UsageError
from harness.expression import Expression
from harness.recordings.recorded import Places, Recorded, index_of
from harness.records import Config, Input, Outcome, Value, shown
from harness.space import Space

_ROUNDING = 1e-5  # of float32 sums: distances closer than that are equal


class ListedSpace(Space):
    """Exactly the configurations that were recorded for an input and were not illegal there.

    Parameters with one value only are part of every configuration, but nothing to search: the
    space's `parameters` leave them out.
    """

    def __init__(self, recorded: Recorded, given: Input) -> None:
        table = recorded.tables[given]
        varying = [k for k, p in enumerate(recorded.parameters) if len(p.values) > 1]
        self._all = recorded.parameters
        self._fixed = {p.name: p.values[0] for p in self._all if len(p.values) == 1}
        super().__init__([recorded.parameters[k] for k in varying], given=given)
        self._recorded, self._table = recorded, table
        self._places: Places = np.ascontiguousarray(table.places[:, varying][table.legal])

    @cached_property
    def _rows(self) -> dict[bytes, int]:
        return index_of(self._places)

    @cached_property
    def _solutions(self) -> tuple[Solutions, list[Expression]]:
        return _Listed(self, len(self._places)), []

    def configuration(self, row: int) -> Config:
        """The legal configuration of a row."""
        return self.decode(self._places[row].tolist())

    # ---------------------------------------------------------------- judging

    def _why_not_a_point(self, config: Mapping[str, Value]) -> str | None:
        for name, value in self._fixed.items():
            if name not in config:
                return f"it has no value for {name}"
            if type(config[name]) is not type(value) or config[name] != value:
                return f"{name} is {shown(value)} throughout the recording"
        varying = {name: value for name, value in config.items() if name not in self._fixed}
        return super()._why_not_a_point(varying)

    def _why_constrained(self, config: Mapping[str, Value]) -> str | None:
        if self._row_of(self.encode(config)) is not None:
            return None
        held = self._recorded.measurements.get((Input(self._given), Config(config)))
        if held is not None and held.outcome is Outcome.ILLEGAL:
            return f"the recording has it as illegal: {held.message}"
        return "the recording does not hold it"

    def _row_of(self, places: Sequence[int]) -> int | None:
        return self._rows.get(array("i", places).tobytes())

    # ------------------------------------------------------------- neighbours

    def neighbours(self, config: Config, reach: int | None = 1) -> Iterator[Config]:
        """Recorded configurations that differ in one parameter; see Space.neighbours."""
        away = np.abs(self._places - np.array(self.encode(config)))
        near = np.count_nonzero(away, axis=1) == 1
        if reach is not None:
            near &= (away[:, self._scales] <= reach).all(axis=1)
        return map(self.configuration, np.flatnonzero(near).tolist())

    def nearest_legal(self, config: Config, rng: random.Random) -> Config:
        """The nearest recorded configuration, by `Space.distance`, of those that differ in one
        parameter; where there are none, the nearest of all. One of the nearest by chance.

        Raises UsageError where nothing is legal.
        """
        here = self.encode(config)
        if self._row_of(here) is not None:
            return self.decode(here)
        if not len(self._places):
            raise UsageError("the recording holds no legal configuration of this input")
        stepped = [(self._step(k, here, there), there) for k, there in self._changes(here)]
        if stepped:
            least = min(step for step, _ in stepped)
            return self.decode(rng.choice([there for step, there in stepped if step == least]))
        away = self._away(np.array(here))
        return self.configuration(rng.choice(np.flatnonzero(away <= away.min() + _ROUNDING)))

    def _changes(self, here: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Each legal change of one parameter: which, and the positions after it."""
        for k, parameter in enumerate(self.parameters):
            for place in range(len(parameter.values)):
                there = (*here[:k], place, *here[k + 1 :])
                if self._row_of(there) is not None:
                    yield k, there

    def _step(self, k: int, here: tuple[int, ...], there: tuple[int, ...]) -> float:
        away: float = abs(here[k] - there[k]) / self._widths[k]
        return away if self._scales[k] else 1.0

    def _away(self, here: npt.NDArray[np.int_]) -> npt.NDArray[np.float32]:
        """The distance of every row: relative steps on scales, 1 for any change else."""
        others = ~self._scales
        changed = np.count_nonzero(self._places[:, others] != here[others], axis=1)
        steps = np.abs(self._relative - (here / self._widths)[self._scales].astype(np.float32))
        away: npt.NDArray[np.float32] = steps.sum(axis=1) + changed.astype(np.float32)
        return away

    @cached_property
    def _scales(self) -> npt.NDArray[np.bool_]:
        return np.array([p.kind not in ("boolean", "enum") for p in self.parameters], dtype=bool)

    @cached_property
    def _widths(self) -> npt.NDArray[np.float64]:
        return np.array([len(p.values) - 1 for p in self.parameters], dtype=np.float64)

    @cached_property
    def _relative(self) -> npt.NDArray[np.float32]:
        """Where each row stands on each scale, from 0 to 1."""
        return (self._places / self._widths)[:, self._scales].astype(np.float32)

    # --------------------------------------------------------------- encoding

    def decode(self, positions: Sequence[int]) -> Config:
        """The configuration at these positions of the varying parameters, whole."""
        varying = zip(self.parameters, positions, strict=True)
        found = self._fixed | {p.name: p.values[place] for p, place in varying}
        return Config({parameter.name: found[parameter.name] for parameter in self._all})

    @cached_property
    def default(self) -> Config:
        """The first configuration of the recording that worked."""
        return Config({parameter.name: parameter.default for parameter in self._all})


class _Listed(Solutions):
    """The rows of a ListedSpace, as what Space draws from."""

    def __init__(self, space: ListedSpace, count: int) -> None:
        self._space = space
        self.count = count

    def __getitem__(self, index: int) -> dict[str, Value]:
        if not 0 <= index < self.count:
            raise IndexError(f"configuration {index} of {self.count}")
        return dict(self._space.configuration(index))
