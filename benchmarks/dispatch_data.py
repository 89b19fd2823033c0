"""Recorded measurements of many inputs as matrices: MIOpen's convolutions, stencil work-groups.

One dispatcher is learnt for a data set; it is judged on the data set's cases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.core.arrays import Indices
from harness.core.errors import RecordingError
from harness.core.records import Config
from harness.dispatch.matrix import Matrix, make_matrix

_LONGEST_MS = 1e5  # longer ones, and 0, are not valid times

_SHAPE = ["layout", "spatial", "group", "c", "d", "h", "w", "k", "fd", "fh", "fw", "od", "oh", "ow"]
_STEPS = [f"{kind}_{axis}" for kind in ("pad", "str", "dil") for axis in "dhw"]
_LAYER = [*_SHAPE, *_STEPS]  # everything except direction, type and batch size
_CONVOLUTION = ["dir", "dtype", "n", *_LAYER]
_MULTIPLIED = ["n", "k", "c", "od", "oh", "ow", "fd", "fh", "fw"]

_STENCIL = ["north", "south", "east", "west", "width", "height", "max_wg"]
_WORK_GROUP = ["wg_c", "wg_r"]


@dataclass(frozen=True)
class DataSet:
    """A matrix, with the case of each input, shape (inputs,)."""

    name: str
    matrix: Matrix
    cases: npt.NDArray[np.object_]

    @property
    def parts(self) -> Iterator[tuple[str, Indices]]:
        """The cases by name, each with the indices of its inputs."""
        for case in sorted(set(self.cases.tolist())):
            yield case, np.flatnonzero(self.cases == case)


def read_data_sets(path: Path) -> list[DataSet]:
    """Read the data sets of a CSV file: convolutions are one, stencils one a device.

    Raises RecordingError for a file that cannot be read or is of neither kind.
    """
    try:
        table = pd.read_csv(path)
    except (OSError, ValueError, EOFError) as error:
        raise RecordingError(f"{path}: cannot be read as CSV: {error}") from None
    name = path.name.partition(".")[0]
    if _has(table, [*_CONVOLUTION, "algo", "time_ms"]):
        return [_convolutions(name, _timed(table, path))]
    if _has(table, ["device", "kernel", *_STENCIL, *_WORK_GROUP, "time_ms"]):
        parts = _timed(table, path).groupby("device")
        return [_stencils(f"{name} {device}", part) for device, part in parts]
    found = ", ".join(map(str, table.columns))
    raise RecordingError(
        f"{path}: expected the columns of convolutions ({', '.join(_CONVOLUTION)}, algo, time_ms) "
        f"or of stencils (device, kernel, {', '.join([*_STENCIL, *_WORK_GROUP])}, time_ms), "
        f"found {found}"
    )


def _has(table: pd.DataFrame, columns: Sequence[str]) -> bool:
    return set(columns) <= set(table.columns)


def _timed(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Keep the rows that have a time."""
    kept: pd.DataFrame = table[(table["time_ms"] > 0) & (table["time_ms"] <= _LONGEST_MS)]
    if kept.empty:
        raise RecordingError(f"{path}: no row has a time above 0 and up to {_LONGEST_MS:g} ms")
    return kept


def _convolutions(name: str, table: pd.DataFrame) -> DataSet:
    """Choose the algorithm by direction, type and shape; the inputs of one layer are one group,
    whatever the direction, the type and the batch size. An algorithm without a time does not
    apply."""
    times = table.pivot_table(index=_CONVOLUTION, columns="algo", values="time_ms", aggfunc="min")
    inputs = times.index.to_frame(index=False)
    features = inputs.loc[:, inputs.nunique() > 1].copy()
    features["operations"] = inputs[_MULTIPLIED].astype(float).prod(axis=1) / inputs["group"]
    candidates = [Config({"algo": str(algo)}) for algo in times.columns]
    matrix = _matrix(features, candidates, times, inputs.groupby(_LAYER, sort=False).ngroup())
    cases = name + " " + inputs["dir"].astype(str) + " " + inputs["dtype"].astype(str)
    return DataSet(name, matrix, cases.to_numpy(dtype=object))


def _stencils(name: str, table: pd.DataFrame) -> DataSet:
    """Choose the work-group size by border and grid size; the inputs of one kernel are one group.
    The kernel's name is not a feature, because it says nothing about unseen kernels."""
    index = ["kernel", *_STENCIL]
    times = table.pivot_table(index=index, columns=_WORK_GROUP, values="time_ms", aggfunc="min")
    inputs = times.index.to_frame(index=False)
    candidates = [Config({"wg_c": int(c), "wg_r": int(r)}) for c, r in times.columns]
    groups = inputs.groupby("kernel", sort=False).ngroup()
    matrix = _matrix(inputs[_STENCIL], candidates, times, groups)
    cases = np.full(len(inputs), name, dtype=object)
    return DataSet(name, matrix, cases)


def _matrix(
    features: pd.DataFrame, candidates: Sequence[Config], times: pd.DataFrame, groups: pd.Series
) -> Matrix:
    applies = times.notna().to_numpy()
    time_s = np.where(applies, times.to_numpy() * 1e-3, np.inf)
    return make_matrix(features, candidates, time_s, applies=applies, groups=groups.tolist())
