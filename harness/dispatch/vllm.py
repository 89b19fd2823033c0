"""Write a choice as the tables that vLLM's fused_moe, and Hugging Face's kernels, read.

A file for each value of the other features maps M to a configuration; a reader takes the nearest M.
So a row on each side of every change makes the reader choose as the dispatcher does, and a row
beyond each end of the tuned range holds the best single configuration for what lies outside.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from harness.constraints.expression import Expression
from harness.core.errors import UsageError
from harness.core.records import Config, Input
from harness.dispatch.candidates import applies_where
from harness.dispatch.choice import tuned_rows
from harness.dispatch.dispatcher import Dispatcher
from harness.dispatch.features import Feature, Type
from harness.dispatch.matrix import first_applicable
from harness.models.columns import column_values

Chosen = Callable[[int], int]
"""Returns the index of the configuration for a value of M; -1 for none."""


def vllm_files(dispatcher: Dispatcher, inputs: Sequence[Input]) -> dict[str, bytes]:
    """Return the content of each table by its name, for the values of features on these inputs.

    Raises UsageError where there is no feature M of whole numbers.
    """
    features = dispatcher.features
    batch = next((f for f in features if f.name.upper() == "M" and f.type is Type.WHOLE), None)
    if batch is None:
        names = ", ".join(feature.name for feature in features)
        raise UsageError(
            f"--format vllm needs a feature M, of whole numbers, among the features {names}"
        )
    rows: dict[Input, set[int]] = {}
    for problem in inputs:
        rest = Input({name: value for name, value in problem.items() if name != batch.name})
        rows.setdefault(rest, set()).add(int(str(problem[batch.name])))
    files = dict[str, bytes]()
    for rest, own in rows.items():
        chosen = _chosen(dispatcher, batch, rest)
        files[_file_name(dispatcher, rest)] = _table(dispatcher, chosen, batch, own)
    return files


def _file_name(dispatcher: Dispatcher, rest: Input) -> str:
    """Name a table as vLLM does: `E=8,N=14336,device_name=NVIDIA_H100_80GB_HBM3,dtype=int8.json`;
    features are in the space's order, and words follow the device."""
    device = dispatcher.provenance.environment.device.replace(" ", "_").replace("/", "_")
    words = [f"{name}={value}" for name, value in rest.items() if isinstance(value, str)]
    numbers = [f"{k.upper()}={value}" for k, value in rest.items() if not isinstance(value, str)]
    return f"{','.join([*numbers, f'device_name={device}', *words])}.json"


def _chosen(dispatcher: Dispatcher, batch: Feature, rest: Input) -> Chosen:
    """Return a function that chooses as the dispatcher does, of the other features' values."""
    program = dispatcher.program
    tests = [applies_where(map(Expression, texts), {}) for texts in program.guards]
    configs = [Config({**dispatcher.constants, **config}) for config in program.portfolio]

    @functools.cache
    def chosen(m: int) -> int:
        import pandas as pd  # here: it takes half a second to load

        problem = Input({f.name: m if f is batch else rest[f.name] for f in dispatcher.features})
        frame = pd.DataFrame([dict(problem)])
        pairs = zip(tests, configs, strict=True)
        applies = np.array([[test(problem, config) for test, config in pairs]])
        order = program.choice.orders(column_values(program.columns, frame))
        if not tuned_rows(program.tuned, frame)[0]:
            order = np.arange(len(program.portfolio))[None, :]
        return int(first_applicable(order, applies)[0])

    return chosen


def _table(dispatcher: Dispatcher, chosen: Chosen, batch: Feature, tuned: set[int]) -> bytes:
    """Write the table of one file."""
    known = next(r for r in dispatcher.program.tuned if r.feature == batch.name)
    ends = {int(known.low), int(known.high)}
    keys = sorted({*tuned, *ends, max(1, int(known.low) - 1), int(known.high) + 1})
    rows = {m: chosen(m) for m in sorted({*keys, *_changes(chosen, keys)})}
    table = {str(m): dict(dispatcher.program.portfolio[i]) for m, i in rows.items() if i >= 0}
    return (json.dumps(table, indent=4) + "\n").encode()


def _changes(chosen: Chosen, keys: Sequence[int]) -> Iterator[int]:
    """Yield the values of M on both sides of a change between neighbours that choose otherwise."""
    for low, high in itertools.pairwise(keys):
        if chosen(low) == chosen(high):
            continue
        below, above = low, high
        while above - below > 1:
            middle = (below + above) // 2
            below, above = (middle, above) if chosen(middle) == chosen(low) else (below, middle)
        yield from (below, above)
