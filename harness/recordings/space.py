"""The space of a recording: exactly the configurations that it holds."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from harness.core.errors import UsageError
from harness.core.program import Launch
from harness.core.records import Config, Input, Outcome, Value
from harness.recordings.recording import Recording
from harness.space import PointArray, Points, Space
from harness.space.space import Costs
from harness.space_file import Spec

_SAME_DISTANCE = 1e-9
Legality = Callable[[PointArray], npt.NDArray[np.bool_]]


def recording_spec(recording: Recording) -> Spec:
    """Make a spec without kernel, host module and constraints: nothing can be built from it."""
    return Spec(
        path=recording.path,
        name=recording.name,
        title=recording.title,
        functions=(recording.title,),
        host=recording.path,
        parameters=recording.parameters,
        features=recording.features,
        inputs=tuple(recording.tables),
        host_text=recording.sha256,  # the program is the file: other content, other measurements
    )


class ListedSpace(Space):
    """The configurations that were recorded for an input and were not illegal there.

    `parameters` are those with several recorded values. The others have their only value in every
    configuration, and are not searched.
    """

    tried_values = 1024  # each is looked up, which is cheap

    def __init__(self, recording: Recording, problem: Input) -> None:
        self._recording, self._table = recording, recording.tables[problem]
        self._varying = [k for k, p in enumerate(recording.parameters) if len(p.values) > 1]
        super().__init__([recording.parameters[k] for k in self._varying])

    @cached_property
    def solutions(self) -> _Rows:
        """The recorded configurations that were not illegal."""
        legal = self._table.positions[self._table.legal][:, self._varying]
        return _Rows([p.name for p in self.parameters], legal, self._are_recorded)

    # ---------------------------------------------------------------- judging

    def why_illegal(self, config: Mapping[str, Value]) -> str | None:
        """Return why a configuration is not recorded, or recorded as illegal."""
        points, table = self._recording.points, self._table
        reason = points.why_no_point(config)
        if reason is not None:
            return reason
        (row,) = table.rows_of(points.encode_all([config]))
        if row is None:
            return "it is not in the recording"
        if table.outcomes[row] is Outcome.ILLEGAL:
            return f"the recording has it as illegal: {table.messages[row]}"
        return None

    @property
    def named_points(self) -> Points:
        """The points of all recorded parameters."""
        return self._recording.points

    def _are_recorded(self, points: PointArray) -> npt.NDArray[np.bool_]:
        outcomes, rows = self._table.outcomes, self._table.rows_of(self._whole(points))
        legal = [row is not None and outcomes[row] is not Outcome.ILLEGAL for row in rows]
        return np.array(legal, dtype=bool)

    # --------------------------------------------------------------- encoding

    def decode(self, positions: Sequence[int]) -> Config:
        """Return the whole configuration with these indices of the varying parameters."""
        whole = self._whole(np.array([positions], np.int32))[0]
        return self._recording.points.decode(whole.tolist())

    def _whole(self, points: PointArray) -> PointArray:
        """Add the parameters that have one value."""
        whole = np.zeros((len(points), len(self._recording.parameters)), np.int32)
        whole[:, self._varying] = points
        return whole

    @cached_property
    def default(self) -> Config:
        """The first configuration of the recording that worked."""
        return Config({p.name: p.default for p in self._recording.parameters})

    def launch(self, config: Config, function: str, arguments: Sequence[str]) -> Launch:
        """Raise UsageError: a recording has nothing to launch."""
        raise UsageError(f"{self._recording.path}: a recording cannot be launched")


class _Rows:
    """The recorded rows as the solutions of a space."""

    left_out = ()

    def __init__(self, names: Sequence[str], rows: PointArray, contains: Legality) -> None:
        self._names, self._rows = names, rows
        self.count = len(rows)
        self.contains = contains

    def points(self, indices: Sequence[int]) -> PointArray:
        return self._rows[np.array(indices, dtype=np.intp)]

    def draw(self, rng: np.random.Generator, count: int) -> PointArray:
        return self._rows[rng.integers(self.count, size=count)]

    def nearest(self, here: Sequence[int], cost: Costs, rng: random.Random) -> Sequence[int] | None:
        """Return one of the nearest rows, at random."""
        if not self.count:
            return None
        away = np.zeros(self.count)
        for name, column in zip(self._names, self._rows.T, strict=True):
            away += cost(name)[column]
        nearest = np.flatnonzero(away <= away.min() + _SAME_DISTANCE)
        return tuple(map(int, self._rows[rng.choice(nearest)]))
