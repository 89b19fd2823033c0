"""Dispatchers that benchmarks/selection.py times, and inputs for them: drawn, or learnt."""

from __future__ import annotations

import argparse
import itertools
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from benchmarks.dispatch_data import read_data_sets
from benchmarks.dispatch_runs import MOST_LEAVES
from harness.core.records import Config, Environment, Value
from harness.dispatch.dispatcher import Dispatcher, Provenance
from harness.dispatch.ensemble import DEPTH, TREES, EnsembleLearner
from harness.dispatch.features import Feature, features_of
from harness.dispatch.formulas import Type
from harness.dispatch.nodes import Leaf, Node, Split
from harness.dispatch.program import DispatchProgram, EnsembleChoice, TreeChoice, with_used_columns
from harness.dispatch.tree import TreeLearner
from harness.models.encoding.columns import Column, ColumnKind, TunedRange, column_values

SIZES = ("m", "n", "k")
MOST = 1 << 20
BINS = 255  # thresholds a column, as histogram boosting has them
INPUTS = 10_000  # far more than a branch predictor remembers
ROWS = 2000  # inputs that trees are drawn over

Inputs = Sequence[tuple[Value, ...]]
Sizes = Sequence[tuple[int, ...]]
Rows = Sequence[Sequence[float]]

Case = tuple[Dispatcher, Inputs]
"""A dispatcher, and the inputs to choose for."""

COLUMNS = (
    *(Column(ColumnKind.RAW, (name,)) for name in SIZES),
    *(Column(ColumnKind.PRODUCT, pair) for pair in itertools.combinations(SIZES, 2)),
    *(Column(ColumnKind.RATIO, pair) for pair in itertools.combinations(SIZES, 2)),
    Column(ColumnKind.PRODUCT, SIZES),
)


def drawn_inputs(rng: random.Random, count: int) -> list[tuple[int, ...]]:
    """Draw sizes whose logarithms are uniform."""
    return [tuple(round(2 ** rng.uniform(0, 20)) for _ in SIZES) for _ in range(count)]


def grown(
    rng: random.Random, rows: Rows, bins: Rows, leaves: int, leaf: Callable[[], Leaf]
) -> Node:
    """Grow a tree whose largest leaves are split, usually at a bin's bound, as deep as boosting
    allows."""
    parts: list[list[int]] = [list(range(len(rows)))]
    splits: dict[int, tuple[int, float, int, int]] = {}
    depths = [0]
    ends = [0]
    while len(splits) < leaves - 1 and ends:
        end = max(ends, key=lambda one: len(parts[one]) * rng.random())
        column = rng.randrange(len(COLUMNS))
        threshold = rng.choice(bins[column])
        low = [row for row in parts[end] if rows[row][column] <= threshold]
        if 0 < len(low) < len(parts[end]):
            parts += [low, [row for row in parts[end] if rows[row][column] > threshold]]
            depths += [depths[end] + 1] * 2
            splits[end] = (column, threshold, len(parts) - 2, len(parts) - 1)
            ends.remove(end)
            ends += [one for one in splits[end][2:] if depths[one] < DEPTH and len(parts[one]) > 1]

    def node(index: int) -> Node:
        if index not in splits:
            return leaf()
        column, threshold, low, high = splits[index]
        return Split(column, threshold, node(low), node(high))

    return node(0)


def drawn_program(
    rng: random.Random, inputs: Sizes, args: argparse.Namespace, is_tree: bool
) -> DispatchProgram:
    """Draw a tree of `--tree-leaves` leaves, or an ensemble."""
    rows = column_values(COLUMNS, pd.DataFrame(inputs[:ROWS], columns=list(SIZES))).tolist()
    columns = [sorted(numbers) for numbers in zip(*rows, strict=True)]
    bins = [numbers[:: max(len(numbers) // BINS, 1)] for numbers in columns]
    candidates = args.candidates
    choice: TreeChoice | EnsembleChoice
    if is_tree:
        choice = TreeChoice(
            grown(
                rng, rows, bins, args.tree_leaves, lambda: Leaf(order=(rng.randrange(candidates),))
            )
        )
    else:
        trees = tuple(
            tuple(
                grown(rng, rows, bins, args.leaves, lambda: Leaf(rng.gauss(0, 1)))
                for _ in range(args.trees or max(1, TREES // candidates))
            )
            for _ in range(candidates)
        )
        choice = EnsembleChoice((0.0,) * candidates, trees)
    used_columns, used = with_used_columns(COLUMNS, choice)
    return DispatchProgram(
        columns=used_columns,
        tuned=tuple(TunedRange(name, 1, MOST) for name in SIZES),
        portfolio=tuple(Config({"VARIANT": index}) for index in range(candidates)),
        static=0,
        choice=used,
        guards=((),) * candidates,
    )


def drawn_cases(args: argparse.Namespace) -> dict[str, Case]:
    """Draw a tree and an ensemble over random sizes."""
    rng = random.Random(args.seed)
    inputs = drawn_inputs(rng, INPUTS)
    features = tuple(Feature(name, Type.WHOLE) for name in SIZES)
    return {
        name: (written(drawn_program(rng, inputs, args, name == "tree"), features), inputs)
        for name in ("tree", "ensemble")
    }


def learnt_cases(path: Path, seed: int) -> dict[str, Case]:
    """Learn a tree and an ensemble from a recording's first data set, for its own inputs."""
    data = read_data_sets(path)[0]
    names = tuple(map(str, data.matrix.features.columns))
    inputs = list(data.matrix.features.itertuples(index=False, name=None))
    inputs_by_name = [dict(zip(names, one, strict=True)) for one in inputs]
    some = random.Random(seed).sample(inputs, min(INPUTS, len(inputs)))
    cases: dict[str, Case] = {}
    for learner in (TreeLearner(MOST_LEAVES), EnsembleLearner()):
        program = learner.fit(data.matrix, seed).program(data.matrix.candidates)
        cases[learner.name] = written(program, features_of(program, names, inputs_by_name)), some
    return cases


def written(program: DispatchProgram, features: tuple[Feature, ...]) -> Dispatcher:
    """Make a dispatcher of a program, with empty provenance."""
    environment = Environment("none", "none", "none", "none", "none")
    provenance = Provenance(
        environment, "none", (), 0, "none", "none", ("a program of a benchmark",)
    )
    return Dispatcher("timed", "", ("timed",), features, program, provenance)
