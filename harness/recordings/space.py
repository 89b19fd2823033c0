"""The space of a recording: exactly the configurations that it holds."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from harness.core.errors import UsageError
from harness.core.program import Launch
from harness.core.records import Config, Input, Outcome, Value, shown
from harness.recordings.recording import Recording
from harness.space import PointArray, Points, Space
from harness.space.draws import Draws
from harness.space.points import is_scale
from harness.space_file import Spec
from harness.space_file.model import Measure, Search, Verify


class RowIndex:
    """Distinct points, shape (rows, parameters), sorted by one 64-bit key each.

    The key is a sum with random weights modulo 2^64, which differs for every row. A match of keys
    is then checked.
    """

    def __init__(self, rows: PointArray) -> None:
        self._rows, rng = rows, np.random.default_rng(0)
        self._keys = np.zeros(0, dtype=np.uint64)
        while len(self._keys) < len(rows):
            # Odd, so that no two values of one parameter share a key.
            self._weights = rng.integers(2**63, size=rows.shape[1], dtype=np.uint64) * 2 + 1
            self._keys, self._order = np.unique(self._keys_of(rows), return_index=True)

    def contain(self, points: PointArray) -> npt.NDArray[np.bool_]:
        """Say of each point, shape (points, parameters), whether it is one of the rows."""
        if not len(self._rows):
            return np.zeros(len(points), dtype=bool)
        nearest = np.searchsorted(self._keys, self._keys_of(points))
        found = self._rows[self._order[np.minimum(nearest, len(self._keys) - 1)]]
        same: npt.NDArray[np.bool_] = (found == points).all(axis=1)
        return same

    def _keys_of(self, points: PointArray) -> npt.NDArray[np.uint64]:
        keys: npt.NDArray[np.uint64] = points.astype(np.uint64) @ self._weights
        return keys


_ALL_VALUES = 1024  # values of one parameter that are looked up, which is cheap
_SAME_DISTANCE = 1e-5  # of float32 sums: distances closer than that are equal


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
    """The configurations that were recorded for an input and were not illegal there.

    `parameters` are those with several recorded values. The others have their only value in every
    configuration, and are not searched.
    """

    def __init__(self, recording: Recording, problem: Input) -> None:
        self._recording, self._problem = recording, problem
        self._fixed = {p.name: p.values[0] for p in recording.parameters if len(p.values) == 1}
        varying = [k for k, p in enumerate(recording.parameters) if len(p.values) > 1]
        self.parameters = tuple(recording.parameters[k] for k in varying)
        self.points = Points(self.parameters)
        table = recording.tables[problem]
        self._points: PointArray = np.ascontiguousarray(table.positions[:, varying][table.legal])

    @cached_property
    def _rows(self) -> RowIndex:
        return RowIndex(self._points)

    @cached_property
    def draws(self) -> Draws:
        """The recorded configurations, which are all legal."""
        return Draws(self.points, _ListedCandidates(self._points), self.decode)

    # ---------------------------------------------------------------- judging

    def why_illegal(self, config: Mapping[str, Value]) -> str | None:
        """Return why a configuration is not recorded, or recorded as illegal."""
        return self._why_no_point(config) or self._why_unrecorded(config)

    def is_point(self, config: Mapping[str, Value]) -> bool:
        """Whether the configuration has recorded values, though perhaps not together."""
        return self._why_no_point(config) is None

    def are_legal(self, points: PointArray) -> npt.NDArray[np.bool_]:
        """Say of many points whether they are recorded, shape (points,)."""
        return self._rows.contain(points)

    def canonical(self, config: Config) -> Config:
        """Return the configuration: every recorded parameter matters."""
        return config

    def _why_no_point(self, config: Mapping[str, Value]) -> str | None:
        for name, value in self._fixed.items():
            if name not in config:
                return f"it has no value for {name}"
            if type(config[name]) is not type(value) or config[name] != value:
                return f"{name} is {shown(value)} throughout the recording"
        varying = {name: value for name, value in config.items() if name not in self._fixed}
        return self.points.why_no_point(varying)

    def _why_unrecorded(self, config: Mapping[str, Value]) -> str | None:
        if self._is_row(np.array(self.encode(config), dtype=np.int32)):
            return None
        held = self._recording.measurements.get((self._problem, Config(config)))
        if held is not None and held.outcome is Outcome.ILLEGAL:
            return f"the recording has it as illegal: {held.message}"
        return "it is not in the recording"

    def _is_row(self, points: PointArray) -> bool:
        return bool(self._rows.contain(points[None, :])[0])

    # ------------------------------------------------------------- neighbours

    def neighbours(self, config: Config, reach: int | None = 1) -> Iterator[Config]:
        """Yield the recorded configurations that differ in one parameter; see Space.neighbours."""
        here = np.array(self.encode(config), dtype=np.int32)
        near, which = self._near(here, sys.maxsize)
        if reach is not None:
            away = np.abs(near - here).max(axis=1, initial=0)
            near = near[(away <= reach) | ~self._scales[which]]
        return map(self.decode, near.tolist())

    def neighbour_points(self, point: PointArray) -> PointArray:
        """Return the recorded points that differ in one parameter; see Space.neighbour_points."""
        near, _ = self._near(point, _ALL_VALUES)
        return near

    def _near(self, here: PointArray, most: int) -> tuple[PointArray, npt.NDArray[np.intp]]:
        """Return the recorded points among Points.changes, and the changed parameter of each."""
        changed, which = self.points.changes(here, most)
        recorded = self._rows.contain(changed)
        return changed[recorded], which[recorded]

    def nearest_legal(self, config: Config, rng: random.Random) -> Config:
        """Return the nearest recorded configuration, by `distance`, at random among equals.

        Configurations that differ in one parameter come first, all others only if there is none.
        Raises UsageError where nothing is legal.
        """
        here = np.array(self.encode(config), dtype=np.int32)
        if self._is_row(here):
            return self.decode(here.tolist())
        if not len(self._points):
            raise UsageError("the recording holds no legal configuration of this input")
        near, which = self._near(here, sys.maxsize)
        if len(near):
            steps = np.abs(near - here).max(axis=1) / self._widths[which]
            away = np.where(self._scales[which], steps, 1.0)
        else:
            near, away = self._points, self._away(here)
        nearest = np.flatnonzero(away <= away.min() + _SAME_DISTANCE)
        return self.decode(near[rng.choice(nearest)].tolist())

    def _away(self, here: PointArray) -> npt.NDArray[np.float64]:
        """Return the distance of every row; see Space.distance."""
        others = ~self._scales
        changed = np.count_nonzero(self._points[:, others] != here[others], axis=1)
        steps = np.abs(self._relative - (here / self._widths)[self._scales].astype(np.float32))
        away: npt.NDArray[np.float64] = steps.sum(axis=1) + changed
        return away

    @cached_property
    def _scales(self) -> npt.NDArray[np.bool_]:
        return np.array([is_scale(p) for p in self.parameters], dtype=bool)

    @cached_property
    def _widths(self) -> npt.NDArray[np.float64]:
        return np.array([len(p.values) - 1 for p in self.parameters], dtype=np.float64)

    @cached_property
    def _relative(self) -> npt.NDArray[np.float32]:
        """The position of each row on each scale, from 0 to 1."""
        return (self._points / self._widths)[:, self._scales].astype(np.float32)

    # --------------------------------------------------------------- encoding

    def decode(self, positions: Sequence[int]) -> Config:
        """Return the whole configuration with these indices of the varying parameters."""
        found = self._fixed | self.points.decode(positions)
        return Config({p.name: found[p.name] for p in self._recording.parameters})

    @cached_property
    def default(self) -> Config:
        """The first configuration of the recording that worked."""
        return Config({p.name: p.default for p in self._recording.parameters})

    def launch(self, config: Config, function: str, arguments: Sequence[str]) -> Launch:
        """Raise UsageError: a recording has nothing to launch."""
        raise UsageError(f"{self._recording.path}: a recording cannot be launched")


class _ListedCandidates:
    """The rows of a ListedSpace as candidates to draw from."""

    def __init__(self, rows: PointArray) -> None:
        self._rows = rows
        self.count = len(rows)

    def points(self, indices: Sequence[int]) -> PointArray:
        return self._rows[np.array(indices, dtype=np.intp)]

    def draw(self, rng: np.random.Generator, count: int) -> PointArray:
        return self._rows[rng.integers(self.count, size=count)]
