"""The rules by which the benchmark takes inputs, and what is learnt from these: its jobs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from benchmarks.dispatch_data import read_data_sets
from harness.core.arrays import Indices
from harness.dispatch.candidates import matrix_of
from harness.dispatch.enough_inputs import LearningCurve, learning_curve
from harness.dispatch.ensemble import EnsembleLearner
from harness.dispatch.matrix import Matrix
from harness.dispatch.next_inputs import ExpectedLoss, distances, draw_without_replacement
from harness.dispatch.verdict import held_out, judged
from harness.models.encoding.inputs import InputScale
from harness.models.folds import Fold
from harness.results.view import read_results

FIRST = 12
SIZES = (12, 16, 24, 32, 48, 64)
LARGER = (96, 128)
"""Further sizes for rules that cost nothing: how many of theirs are worth 64 chosen ones."""

POOL, UNSEEN = 400, 1500
RULES = ("random", "spread", "distance", "spread-adaptive", "adaptive")
JUDGED = "adaptive"
"""The rule whose learning curve is compared with the truth."""

_DATABASES = (".db", ".sqlite")


@dataclass(frozen=True)
class Case:
    """A case of a file, by its index."""

    path: Path
    index: int


@dataclass(frozen=True)
class Point:
    """Slowdowns on unseen inputs after this many tuned ones, as logarithms; and what the tuned ones
    say of them."""

    tuned: int
    mean: float
    percentile_99: float
    curve: LearningCurve | None


@dataclass(frozen=True)
class Run:
    """One rule on one case, with one seed."""

    case: str
    rule: str
    seed: int
    points: tuple[Point, ...]


@lru_cache(maxsize=2)
def cases_of(path: Path) -> list[tuple[str, Matrix]]:
    """Read the cases of a recording or of a results database, once in each process."""
    if path.suffix in _DATABASES:
        (results,) = read_results(str(path))
        return [(path.stem, matrix_of(results).judgeable())]
    sets = read_data_sets(path)
    return [
        (name, data.matrix.rows(rows).judgeable()) for data in sets for name, rows in data.parts
    ]


def drawn(matrix: Matrix, seed: int) -> tuple[Indices, Indices]:
    """Draw a pool, and unseen inputs of other groups."""
    random = np.random.default_rng(seed)
    groups = random.permutation(np.unique(matrix.groups))
    is_unseen = np.isin(matrix.groups, groups[: len(groups) // 2])
    pool, unseen = np.flatnonzero(~is_unseen), np.flatnonzero(is_unseen)
    return random.permutation(pool)[:POOL], random.permutation(unseen)[:UNSEEN]


def at_random(matrix: Matrix, seed: int) -> Iterator[int]:
    """Take all inputs in a random order."""
    yield from np.random.default_rng(seed).permutation(len(matrix.features)).tolist()


def spread(matrix: Matrix, seed: int) -> Iterator[int]:
    """Take the input that is farthest from all before it; first the farthest from the middle."""
    points = InputScale.of(matrix.features).points(matrix.features)
    middle = (points.min(axis=0) + points.max(axis=0)) / 2
    chosen = int(((points - middle) ** 2).sum(axis=1).argmax())
    apart = np.full(len(points), math.inf)
    for _ in range(len(points)):
        yield chosen
        apart = np.minimum(apart, ((points - points[chosen]) ** 2).sum(axis=1))
        apart[chosen] = -1
        chosen = int(apart.argmax())


def adaptive(matrix: Matrix, seed: int) -> Iterator[int]:
    """Draw by the expected loss and the distance, as harness does."""
    return _one_by_one(matrix, seed, list(at_random(matrix, seed)), by_loss=True)


def spread_first(matrix: Matrix, seed: int) -> Iterator[int]:
    """Draw so after the first ones, which are spread."""
    return _one_by_one(matrix, seed, list(spread(matrix, seed)), by_loss=True)


def by_distance(matrix: Matrix, seed: int) -> Iterator[int]:
    """Draw by the distance alone."""
    return _one_by_one(matrix, seed, list(at_random(matrix, seed)), by_loss=False)


def _one_by_one(matrix: Matrix, seed: int, order: list[int], by_loss: bool) -> Iterator[int]:
    """Take the first of an order, then draw among the others."""
    tuned = order[:FIRST]
    yield from tuned
    while len(tuned) < len(order):
        left = np.setdiff1d(order, tuned)
        fit, others = held_out(matrix, Fold(np.array(tuned), left))
        shares = distances(fit.features, others.features)
        if by_loss:
            learnt = ExpectedLoss.learn(fit, seed + len(tuned))
            shares = shares * learnt.of(others.features, others.applies)
        ones = np.ones(len(left))
        (chosen,) = draw_without_replacement(shares, ones, 1, seed + len(tuned))
        tuned.append(int(left[chosen]))
        yield tuned[-1]


_ORDERS: dict[str, Callable[[Matrix, int], Iterator[int]]] = {
    "random": at_random,
    "spread": spread,
    "distance": by_distance,
    "spread-adaptive": spread_first,
    "adaptive": adaptive,
}


def run(case: Case, rule: str, seed: int) -> Run:
    """Take inputs by a rule, and judge what is learnt from them."""
    name, matrix = cases_of(case.path)[case.index]
    pool, unseen = drawn(matrix, seed)
    varying = [f for f in matrix.features if matrix.features.iloc[pool][f].nunique() > 1]
    matrix = replace(matrix, features=matrix.features[varying])
    sizes = [n for n in sizes_of(rule) if n <= len(pool)]
    order = _ORDERS[rule](matrix.rows(pool), seed)
    taken: list[int] = []
    points = []
    for size in sizes:
        taken += [next(order) for _ in range(size - len(taken))]
        points.append(_point(matrix, Fold(pool[taken], unseen), rule, seed))
    return Run(name, rule, seed, tuple(points))


def sizes_of(rule: str) -> tuple[int, ...]:
    """Return the numbers of tuned inputs after which a rule is judged."""
    return SIZES + LARGER if rule in ("random", "spread") else SIZES


def _point(matrix: Matrix, fold: Fold, rule: str, seed: int) -> Point:
    fit, unseen = held_out(matrix, fold)
    chosen = EnsembleLearner().fit(fit, seed).indices(unseen.features, unseen.applies)
    found = judged(rule, unseen, chosen)
    curve = learning_curve(matrix.rows(fold.fit), seed) if rule == JUDGED else None
    tail = math.log(found.percentile_99)
    return Point(len(fold.fit), float(found.logs.mean()), tail, curve)
