"""Write large results databases fast.

The first input goes through harness's own store. Its rows are then repeated for the other inputs,
with times of their own, whole columns at a time: a million measurements through the store take ten
times as long.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import JSON, Connection, Table, select

from benchmarks.large_record import copy_campaign, sizes_of, write_record
from harness.core.arrays import Array, Indices
from harness.core.records import (
    Build,
    Config,
    Environment,
    Input,
    Measurement,
    Outcome,
    StopReason,
    Timing,
)
from harness.results import ENDED, Store, schema, writing
from harness.results.store import RunPlan
from harness.search.records import EndReason
from harness.space_file import Spec, load_spec
from harness.stats.samples import Ragged, SampleStatistics

PARAMETERS: dict[str, Sequence[int]] = {
    "BLOCK": range(1, 1025),
    "UNROLL": range(1, 17),
    **{f"F{number}": (0, 1) if number % 2 else (1, 2, 4, 8) for number in range(12)},
}
"""2^32 points."""

TECHNIQUE = "UniformRandom"
ENVIRONMENT = Environment("opencl", "a device", "a platform", "1.0", "a compiler")
_SPREAD = 0.02
_BATCH = 5_000
_COPIED = 200  # inputs whose rows are inserted together, so that few rows of each cost little
_SPACE = """\
name: scale
kernel: {{function: kernel, source: kernel.cl, host: kernel.py}}
parameters:
{parameters}
constraints: [UNROLL <= BLOCK * 16]
launch: {{group: [BLOCK], grid: [n]}}
inputs:
  features: [m, n]
  values:
{inputs}
"""

Cells = dict[str, list[Any]]
"""The cells of some rows by column."""


@dataclass(frozen=True)
class Shape:
    """The size of a database: configurations on each of the inputs, with so many samples, in each
    of the campaigns."""

    measurements: int
    inputs: int
    samples: int
    campaigns: int = 1

    @property
    def configurations(self) -> int:
        """The number of distinct configurations."""
        return max(1, self.measurements // self.inputs // self.campaigns)


def write_database(
    path: Path,
    shape: Shape,
    seed: int = 0,
    step: Callable[[int], None] = lambda inputs: None,
) -> None:
    """Write the measurements of a sweep, and finals; `step` gets the number of inputs so far."""
    rng = np.random.default_rng(seed)
    spec = _spec(path.parent, shape.inputs)
    configs = _configs(shape.configurations, rng)
    with writing(str(path)) as engine, Store(engine) as store:
        _write_first(store, spec, configs, shape, rng)
        step(1)
        copies = Copies.of(store.session.connection(), shape, rng)
        size = max(1, min(_COPIED, shape.inputs // 20))
        for first in range(1, shape.inputs, size):
            part = range(first, min(first + size, shape.inputs))
            copies.write(store.session.connection(), part)
            store.commit()
            step(part.stop)
        sizes = sizes_of(store.session.connection())
        write_record(store.session.connection(), spec)
        for number in range(1, shape.campaigns):
            copy_campaign(store.session.connection(), number, sizes)
            store.commit()
        store.commit()


def _spec(folder: Path, inputs: int) -> Spec:
    values = "\n".join(f"  - {{m: {_input(n)['m']}, n: {_input(n)['n']}}}" for n in range(inputs))
    parameters = "\n".join(f"  {name}: {_values(found)}" for name, found in PARAMETERS.items())
    (folder / "space.yaml").write_text(
        _SPACE.format(parameters=parameters, inputs=values), encoding="utf-8"
    )
    (folder / "kernel.cl").write_text(" ".join(["kernel", *PARAMETERS]), encoding="utf-8")
    host = "def arguments(features, rng): ...\n\n\ndef reference(arguments): ...\n"
    (folder / "kernel.py").write_text(host, encoding="utf-8")
    return load_spec(folder / "space.yaml")


def _values(values: Sequence[int]) -> str:
    if isinstance(values, range):
        return f"{{type: integer, min: {values[0]}, max: {values[-1]}, default: {values[0]}}}"
    return f"{{values: {list(values)}, default: {values[0]}}}"


def _input(index: int) -> Input:
    return Input({"m": 64 + index, "n": 64 << (index % 11)})


def _configs(number: int, rng: np.random.Generator) -> list[Config]:
    """Draw distinct configurations uniformly."""
    found: dict[Config, None] = {}
    while len(found) < number:
        drawn = {name: rng.choice(values, number).tolist() for name, values in PARAMETERS.items()}
        rows = zip(*drawn.values(), strict=True)
        found |= dict.fromkeys(Config(dict(zip(drawn, row, strict=True))) for row in rows)
    return list(found)[:number]


# ---------------------------------------------------------------------------- the first input


def _write_first(
    store: Store, spec: Spec, configs: Sequence[Config], shape: Shape, rng: np.random.Generator
) -> None:
    default = Config({p.name: p.default for p in spec.parameters})
    problem = _input(0)
    plan = RunPlan(spec, ENVIRONMENT, problem, TECHNIQUE, 0, len(configs), 1, "", shape.campaigns)
    run = store.begin_run(plan, {ENDED: EndReason.LIMIT.value}).id
    store.tie_run(run, run)
    ordinal, best = 0, (float("inf"), default)
    for start in range(0, len(configs), _BATCH):
        found = list(_measured(problem, configs[start : start + _BATCH], shape, rng))
        ids = store.add_measurements(run, plan, "search", found)
        store.add_tests(run, ordinal, ids, ids, [TECHNIQUE] * len(ids))
        ordinal += len(ids)
        best = min(best, *((m.time_s, m.config) for m in found), key=lambda one: one[0])
    pair = _measured(problem, [default, best[1]], shape, rng, StopReason.INTERLEAVED)
    store.add_interleaved(run, plan, "final", list(pair))
    store.end_run(run, "complete")


def _measured(
    problem: Input,
    configs: Sequence[Config],
    shape: Shape,
    rng: np.random.Generator,
    stopped: StopReason = StopReason.REPEATS,
) -> Iterator[Measurement]:
    noise = np.exp(rng.normal(0, _SPREAD, (len(configs), 1 + shape.samples)))
    for config, (own, *samples) in zip(configs, noise.tolist(), strict=True):
        build = Build(config.digest, f"-D{config}", "a compiler", 0.3, config.digest, 32, 0, 0)
        if config["F1"] == 1 and config["F0"] == 4:
            message = f"kernel.cl:{config['BLOCK']}: error: F0 and F1 do not go together"
            yield Measurement(config, problem, Outcome.BUILD_FAILED, message=message)
            continue
        time_s = float(_times_s(problem, [config])[0]) * own
        timing = Timing(tuple(time_s * one for one in samples), stopped)
        yield Measurement(
            config, problem, Outcome.OK, timing, build, None, "", (2 * time_s,), 0.5, {}, ("F2",)
        )


def _times_s(problem: Input, configs: Sequence[Mapping[str, Any]]) -> Array:
    """Return the times without noise; one value is slow, one is fast on large inputs."""
    is_large = int(str(problem["n"])) > 1000
    slow = np.array([config["F3"] == 1 for config in configs])
    fast = np.array([(config["F5"] == 1) == is_large for config in configs])
    times_s: Array = 1e-3 * np.where(slow, 1.5, 1.0) * np.where(fast, 0.8, 1.0)
    return times_s


# ---------------------------------------------------------------------------- the other inputs


@dataclass(frozen=True)
class Copies:
    """The rows of the first input, to repeat for others: the searched ones, then the default.

    `times_s` has the times without noise on small and on large inputs, shape (2, rows).
    """

    run: dict[str, Any]
    space_name: str
    searched: Cells
    times_s: Array
    samples: int
    rng: np.random.Generator

    @classmethod
    def of(cls, connection: Connection, shape: Shape, rng: np.random.Generator) -> Copies:
        """Read the rows of the first input."""
        table = schema.measurements
        names = ("configuration_id", "build_id", "outcome", "message")
        columns = [table.c[name] for name in names]
        query = select(*columns, schema.configurations.c.parameters).join(schema.configurations)
        rows = connection.execute(query.order_by(table.c.id)).all()[: shape.configurations + 1]
        cells = dict(zip((*names, "parameters"), map(list, zip(*rows, strict=True)), strict=True))
        parameters = cells.pop("parameters")
        times_s = np.stack([_times_s(_input(index), parameters) for index in (0, 10)])
        run = dict(connection.execute(select(schema.runs)).mappings().one())
        (name,) = connection.execute(select(schema.inputs.c.space_name)).scalars()
        return cls(run, name, cells, times_s, shape.samples, rng)

    def write(self, connection: Connection, numbers: range) -> None:
        """Write these inputs, each with a run, the search and the finals."""
        inputs = [_input(number) for number in numbers]
        ids = [number + 1 for number in numbers]  # of inputs and runs alike
        features = [dict(problem) for problem in inputs]
        digests = [problem.digest for problem in inputs]
        names = [self.space_name] * len(ids)
        cells: Cells = {"id": ids, "space_name": names, "digest": digests, "features": features}
        _insert(connection, schema.inputs, cells)
        runs = {name: [value] * len(ids) for name, value in self.run.items()}
        _insert(
            connection,
            schema.runs,
            runs | {"id": ids, "input_id": ids, "tuning_run_id": ids, "uuid": _uuids(ids)},
        )
        count = len(self.searched["outcome"]) - 1
        for problem, own in zip(inputs, ids, strict=True):
            first = (own - 1) * (count + 2) + 1
            medians = self._measure(connection, problem, own, first, np.arange(count), "search")
            best = int(np.argmin(np.where(np.isnan(medians), np.inf, medians)))
            pair = np.array([count, best])  # the default is the last row
            self._measure(connection, problem, own, first + count, pair, "final")
            searched = list(range(first, first + count))
            tests: Cells = {
                "run_id": [own] * count,
                "ordinal": list(range(count)),
                "result_id": searched,
                "measurement_id": searched,
                "requestor": [TECHNIQUE] * count,
            }
            _insert(connection, schema.tests, tests)

    def _measure(
        self,
        connection: Connection,
        problem: Input,
        own: int,
        first: int,
        rows: Indices,
        stage: str,
    ) -> Array:
        """Write measurements of some rows, with the first id; return their medians."""
        copied = {name: [values[row] for row in rows] for name, values in self.searched.items()}
        works = np.array([one == Outcome.OK.value for one in copied["outcome"]])
        times_s = self.times_s[int(int(str(problem["n"])) > 1000)][rows]
        noise = np.exp(self.rng.normal(0, _SPREAD, (len(rows), 1 + self.samples)))
        samples_s = (times_s * noise[:, 0])[:, None] * noise[:, 1:]
        samples_s = samples_s[works]
        found = _timing_cells(samples_s, works)
        ids, is_final = list(range(first, first + len(rows))), stage == "final"
        stopped = StopReason.INTERLEAVED if is_final else StopReason.REPEATS
        cells: Cells = {column.name: [None] * len(rows) for column in schema.measurements.columns}
        cells |= copied | found
        cells |= {
            "id": ids,
            "uuid": _uuids(ids),
            "run_id": [own] * len(rows),
            "input_id": [own] * len(rows),
            "stage": [stage] * len(rows),
            "stopped": [stopped.value if one else None for one in works],
            "wall_s": [0.5] * len(rows),
            "measured_at": [self.run["started_at"]] * len(rows),
            "turn": [_uuids([own])[0] if is_final else None] * len(rows),
        }
        _insert(connection, schema.measurements, cells)
        owners = np.repeat(np.array(ids)[works], self.samples).tolist()
        ordinals = list(range(self.samples)) * int(works.sum())
        times: Cells = {"measurement_id": owners, "ordinal": ordinals}
        _insert(connection, schema.samples, times | {"time_s": samples_s.ravel().tolist()})
        medians = np.full(len(rows), np.nan)
        medians[works] = np.median(samples_s, axis=1)
        return medians


def _timing_cells(samples_s: Array, works: Array) -> Cells:
    """Return the cells that follow from samples, shape (rows that work, samples)."""
    count, samples = samples_s.shape
    statistics = SampleStatistics.of(Ragged(samples_s.ravel(), np.arange(1, count + 1) * samples))
    medians, means, stds = (
        iter(values.tolist()) for values in (statistics.median, statistics.mean, statistics.std)
    )
    return {
        "median_s": [next(medians) if one else None for one in works],
        "mean_s": [next(means) if one else None for one in works],
        "std_s": [next(stds) if one else None for one in works],
        "sample_count": [samples if one else None for one in works],
        "warmup_s": [[2e-3] if one else [] for one in works],
        "host_read": [["F2"] if one else None for one in works],
    }


def _uuids(ids: Sequence[int]) -> list[str]:
    salt = os.urandom(8).hex()
    return [f"{number:016x}{salt}" for number in ids]


def _insert(connection: Connection, table: Table, cells: Cells) -> None:
    """Insert rows past SQLAlchemy, which takes longer than SQLite."""
    stored = {
        name: [None if one is None else json.dumps(one) for one in values]
        if isinstance(table.c[name].type, JSON)
        else values
        for name, values in cells.items()
    }
    names, marks = ", ".join(stored), ", ".join("?" * len(stored))
    query = f"INSERT INTO {table.name} ({names}) VALUES ({marks})"
    rows = list(zip(*stored.values(), strict=True))
    if rows:
        connection.exec_driver_sql(query, rows)
