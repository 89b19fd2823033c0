"""Should a leaf of a tree choose what was fastest on its own inputs?

Draws the inputs of a campaign from each case of a recording as `benchmarks/dispatch.py` reads it,
one of a group at most. It learns a tree from them, and chooses for inputs of other groups: as
`harness.dispatch` does, which keeps to what is fast on more inputs unless a leaf's own are clear,
and with the best choice for the leaf's own inputs:

    python -m benchmarks.leaves miopen_gfx900_56.csv.gz miopen_gfx1030_36.csv.gz

This takes some minutes. It prints slowdowns on these unseen inputs, and the ratio of the times with
its 95 % interval, of which cases are the samples. The last line is one JSON object.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.arguments import count, make_parser
from benchmarks.dispatch_data import read_data_sets
from harness.core.arrays import Array
from harness.dispatch.learners import Selector, Static
from harness.dispatch.learnt import LearntSelector
from harness.dispatch.matrix import Matrix
from harness.dispatch.nodes import Leaf
from harness.dispatch.portfolio import static_order
from harness.dispatch.program import TreeChoice
from harness.dispatch.tree import TreeLearner
from harness.dispatch.verdict import geometric_mean, held_out, judged
from harness.models.encoding.columns import column_values
from harness.models.folds import Fold

SIZES = (24, 48)
_MOST_UNSEEN = 600  # inputs

WAYS = ("best static", "as learnt", "own fastest")

Logs = tuple[Array, Array, Array]
"""The log slowdowns of each of WAYS on unseen inputs."""


def campaign(matrix: Matrix, size: int, draw: int) -> Fold:
    """Draw the inputs of a campaign, one of a group, and unseen inputs of other groups."""
    rng = np.random.default_rng([size, draw])
    order = rng.permutation(len(matrix.groups))
    _, first = np.unique(matrix.groups[order], return_index=True)
    fit = order[rng.permutation(first)[:size]]
    unseen = order[~np.isin(matrix.groups[order], matrix.groups[fit])]
    return Fold(fit, unseen[:_MOST_UNSEEN])


def with_own_fastest(learnt: LearntSelector, matrix: Matrix) -> LearntSelector:
    """Let each leaf of a tree choose the best static choice of the inputs of the leaf."""
    assert isinstance(learnt.choice, TreeChoice)
    others = set(range(len(matrix.candidates))) - set(learnt.portfolio)
    members = (*learnt.portfolio, *sorted(others))
    values = column_values(learnt.columns, matrix.features)
    rows = {id(leaf): found for leaf, found in learnt.choice.root.routed(values)}

    def own(leaf: Leaf) -> Leaf:
        order = static_order(matrix.rows(rows[id(leaf)]))
        return replace(leaf, order=tuple(map(members.index, order)))

    choice = TreeChoice(learnt.choice.root.map(own))
    return replace(learnt, portfolio=members, choice=choice)


def trial(matrix: Matrix, fold: Fold) -> Logs | None:
    """Learn and choose; None where a case has inputs that nothing known applies to."""
    fit, unseen = held_out(matrix, fold)
    if not (fit.applies.any(axis=1).all() and unseen.applies.any(axis=1).all()):
        return None
    learnt = TreeLearner().fit(fit, 0)
    selectors: tuple[Selector, ...] = (
        Static().fit(fit, 0),
        learnt,
        with_own_fastest(learnt, fit),
    )
    one, two, three = (
        judged(way, unseen, selector.indices(unseen.features, unseen.applies)).logs
        for way, selector in zip(WAYS, selectors, strict=True)
    )
    return one, two, three


def trials(matrices: Sequence[Matrix], size: int, draws: int) -> Iterator[tuple[int, Logs]]:
    """Iterate over the trials of all cases, each with the index of its case."""
    for index, matrix in enumerate(matrices):
        for draw in range(draws):
            found = trial(matrix, campaign(matrix, size, draw))
            if found is not None:
                yield index, found


def main(arguments: Sequence[str] | None = None) -> int:
    """Try all sizes; print a table and the JSON line."""
    parser = make_parser("leaves", __doc__)
    parser.add_argument("file", nargs="+", type=Path, metavar="FILE", help="a CSV file")
    parser.add_argument("--draws", type=count, default=3, metavar="N", help="of each case (3)")
    args = parser.parse_args(arguments)
    matrices = [
        data.matrix.rows(rows)
        for path in args.file
        for data in read_data_sets(path)
        for _, rows in data.parts
    ]
    figures = {}
    for size in SIZES:
        cases, logs = zip(*trials(matrices, size, args.draws), strict=True)
        print(f"{size} inputs, {len(cases)} campaigns")
        means = np.array([[one.mean() for one in found] for found in logs])
        tails = np.array([[np.percentile(one, 99) for one in found] for found in logs])
        figures_of = np.exp([means.mean(axis=0), tails.mean(axis=0)]).T
        for way, (mean, tail) in zip(WAYS, figures_of, strict=True):
            print(f"  {way:12} geometric mean {mean:.3f}, 99th percentile {tail:.1f}")
        ratio = geometric_mean(means[:, 2] - means[:, 1], np.array(cases))
        print(f"  own fastest over as learnt {ratio.text('.4f', 'x')}", flush=True)
        figures[size] = {"ratio": ratio.value, "low": ratio.low, "high": ratio.high}
        figures[size] |= dict(zip(WAYS, map(math.exp, means.mean(axis=0).tolist()), strict=True))
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
