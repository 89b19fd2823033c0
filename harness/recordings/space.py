"""The space of a recording: exactly the configurations that it holds."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.constraints.solver import Solutions
from harness.core.errors import UsageError
from harness.core.records import Config, Input, Outcome, Value, shown
from harness.recordings.recording import Recording
from harness.recordings.row_index import RowIndex
from harness.space import Places, Space
from harness.space_file import Spec
from harness.space_file.model import Measure, Search, Verify

_ALL_VALUES = 1024  # of one parameter that are looked up; a look-up is cheap
_ROUNDING = 1e-5  # of float32 sums: distances closer than that are equal


def recording_spec(recording: Recording) -> Spec:
    """Make a spec without kernel, host module and constraints: nothing can be built from it."""
    return Spec(
        path=recording.path,
        name=recording.name,
        title=recording.title,
        functions=(recording.title,),
        sources={},
        host=recording.path,
        parameters=recording.parameters,
        constraints=(),
        launch=None,
        features=recording.features,
        inputs=tuple(recording.tables),
        verify=Verify(),
        measure=Measure(),
        search=Search(),
        host_text=recording.sha256,  # the program is the file: other content, other measurements
    )


class ListedSpace(Space):
    """Exactly the configurations that were recorded for an input and were not illegal there.

    Parameters with one value only are part of every configuration, but nothing to search: the
    space's `parameters` leave them out.
    """

    def __init__(self, recording: Recording, problem: Input) -> None:
        table = recording.tables[problem]
        varying = [k for k, p in enumerate(recording.parameters) if len(p.values) > 1]
        self._all = recording.parameters
        self._fixed = {p.name: p.values[0] for p in self._all if len(p.values) == 1}
        super().__init__([recording.parameters[k] for k in varying], given=problem)
        self._recording, self._table = recording, table
        self._places: Places = np.ascontiguousarray(table.positions[:, varying][table.legal])

    @cached_property
    def _rows(self) -> RowIndex:
        return RowIndex(self._places, self._points.extents)

    @cached_property
    def _solutions(self) -> Solutions:
        return _Listed(self, len(self._places))

    def configuration(self, row: int) -> Config:
        """The legal configuration of a row."""
        return self.decode(self._places[row].tolist())

    def rows_at(self, rows: npt.NDArray[np.intp]) -> Places:
        """The places of legal configurations, by their rows."""
        return self._places[rows]

    # ---------------------------------------------------------------- judging

    def are_legal(self, places: Places) -> npt.NDArray[np.bool_]:
        """Whether each of many points is recorded, shape (points,)."""
        return self._rows.contain(places)

    def _why_not_a_point(self, config: Mapping[str, Value]) -> str | None:
        for name, value in self._fixed.items():
            if name not in config:
                return f"it has no value for {name}"
            if type(config[name]) is not type(value) or config[name] != value:
                return f"{name} is {shown(value)} throughout the recording"
        varying = {name: value for name, value in config.items() if name not in self._fixed}
        return super()._why_not_a_point(varying)

    def _why_constrained(self, config: Mapping[str, Value]) -> str | None:
        if self._is_row(np.array(self.encode(config), dtype=np.int32)):
            return None
        held = self._recording.measurements.get((Input(self._given), Config(config)))
        if held is not None and held.outcome is Outcome.ILLEGAL:
            return f"the recording has it as illegal: {held.message}"
        return "the recording does not hold it"

    def _is_row(self, places: Places) -> bool:
        return bool(self._rows.contain(places[None, :])[0])

    # ------------------------------------------------------------- neighbours

    def neighbours(self, config: Config, reach: int | None = 1) -> Iterator[Config]:
        """Recorded configurations that differ in one parameter; see Space.neighbours."""
        here = np.array(self.encode(config), dtype=np.int32)
        near, which = self._near(here, sys.maxsize)
        if reach is not None:
            away = np.abs(near - here).max(axis=1, initial=0)
            near = near[(away <= reach) | ~self._scales[which]]
        return map(self.decode, near.tolist())

    def neighbour_places(self, places: Places) -> Places:
        """Recorded points that differ from one in one parameter; see Space.neighbour_places."""
        near, _ = self._near(places, _ALL_VALUES)
        return near

    def _near(self, here: Places, most: int) -> tuple[Places, npt.NDArray[np.intp]]:
        """The recorded ones of Points.changes, and in which parameter each differs."""
        changed, which = self._points.changes(here, most)
        recorded = self._rows.contain(changed)
        return changed[recorded], which[recorded]

    def nearest_legal(self, config: Config, rng: random.Random) -> Config:
        """The nearest recorded configuration, by `Space.distance`, of those that differ in one
        parameter; where there are none, the nearest of all. One of the nearest by chance.

        Raises UsageError where nothing is legal.
        """
        here = np.array(self.encode(config), dtype=np.int32)
        if self._is_row(here):
            return self.decode(here.tolist())
        if not len(self._places):
            raise UsageError("the recording holds no legal configuration of this input")
        near, which = self._near(here, sys.maxsize)
        if len(near):
            steps = np.abs(near - here).max(axis=1) / self._widths[which]
            away = np.where(self._scales[which], steps, 1.0)
        else:
            near, away = self._places, self._away(here)
        nearest = np.flatnonzero(away <= away.min() + _ROUNDING)
        return self.decode(near[rng.choice(nearest)].tolist())

    def _away(self, here: Places) -> npt.NDArray[np.float64]:
        """The distance of every row: relative steps on scales, 1 for any change else."""
        others = ~self._scales
        changed = np.count_nonzero(self._places[:, others] != here[others], axis=1)
        steps = np.abs(self._relative - (here / self._widths)[self._scales].astype(np.float32))
        away: npt.NDArray[np.float64] = steps.sum(axis=1) + changed
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
        self.left_out = ()

    def places(self, indices: Sequence[int]) -> npt.NDArray[Any]:
        return self._space.rows_at(np.array(indices, dtype=np.intp))

    def draw(self, rng: np.random.Generator, count: int) -> npt.NDArray[Any]:
        return self._space.rows_at(rng.integers(self.count, size=count))
