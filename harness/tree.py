"""Which configuration suits which input: a regression tree on features, honestly judged.

The tree is grown on the logarithm of each candidate's slowdown (its time over the best known
time for that input), one output a candidate, so that a wrong choice weighs by what it costs.
It is judged by leaving inputs out one at a time, beside the best single configuration, which
is chosen without the left-out input as well.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from harness.records import Config, Input

if TYPE_CHECKING:
    from sklearn.tree import DecisionTreeRegressor

Array = npt.NDArray[np.float64]

_LEAF_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16)
_FEW_INPUTS = 32  # up to here, leaves are chosen by leaving inputs out one by one
_FOLDS = 5
_TINY = 1e-12  # never 0: scikit-learn would split where nothing is gained
_FAILED_FACTOR = 2.0
_DEFAULT = 0  # its place among the candidates
_FEWEST_IN_LEAF = 2  # one input's winner is as much its noise as its shape
FEWEST_INPUTS = 4


@dataclass(frozen=True)
class Matrix:
    """Seconds of each candidate on each input, shape (inputs, candidates); infinity where a
    candidate failed or was not measured."""

    inputs: tuple[Input, ...]
    candidates: tuple[Config, ...]
    time_s: Array
    best_s: Array  # shape (inputs,): the best of all that was measured, candidate or not

    @property
    def slowdown(self) -> Array:
        """Time over the best known time of the input, shape (inputs, candidates)."""
        ratio: Array = self.time_s / self.best_s[:, None]
        return ratio

    @property
    def log_slowdown(self) -> Array:
        """Natural logarithms; a failure counts as twice the largest slowdown there is."""
        slowdown = self.slowdown
        worst = slowdown[np.isfinite(slowdown)].max(initial=1.0)
        logs: Array = np.log(np.where(np.isfinite(slowdown), slowdown, _FAILED_FACTOR * worst))
        return logs

    def part(self, rows: npt.NDArray[np.int_], candidates: npt.NDArray[np.int_]) -> Matrix:
        """The matrix of some inputs and candidates, by their places; nothing of the others."""
        return Matrix(
            tuple(self.inputs[row] for row in rows),
            tuple(self.candidates[place] for place in candidates),
            self.time_s[np.ix_(rows, candidates)],
            self.best_s[rows],
        )


def make_matrix(times: Mapping[Input, Mapping[Config, float]], default: Config) -> Matrix:
    """The default and the winners of all inputs as candidates; inputs on which nothing worked
    are left out. Of candidates with the same times on all inputs, as those of equal machine code
    have, only the first stands: twice there, they would weigh twice."""
    usable = {given: row for given, row in times.items() if _best(row) < math.inf}
    winners = (min(row, key=row.__getitem__) for row in usable.values())
    candidates: dict[tuple[float, ...], Config] = {}
    for config in dict.fromkeys([default, *winners]):
        column = tuple(row.get(config, math.inf) for row in usable.values())
        candidates.setdefault(column, config)
    time_s = np.array(list(candidates), dtype=np.float64)
    return Matrix(
        tuple(usable),
        tuple(candidates.values()),
        time_s.reshape(len(candidates), len(usable)).T,
        np.array([_best(row) for row in usable.values()]),
    )


def _best(row: Mapping[Config, float]) -> float:
    return min(row.values(), default=math.inf)


# ------------------------------------------------------------------------------ features


@dataclass(frozen=True)
class Feature:
    """A number that a tree may split on, computed from an input; `log` tells that the tree
    sees its base-2 logarithm, so that a threshold lies halfway between two sizes by their ratio.

    Trees hold float32: values that agree to six digits or so are one to them.
    """

    name: str
    of: Callable[[Input], float]
    log: bool

    def column(self, inputs: Sequence[Input]) -> list[float]:
        """The values as the tree sees them."""
        values = [self.of(given) for given in inputs]
        return [math.log2(value) for value in values] if self.log else values


def derive_features(inputs: Sequence[Input]) -> list[Feature]:
    """The raw features, and of each pair of positive ones the ratio and the product
    (G-ADAPT's derived features); logarithms need no column of their own, since a tree's
    splits are the same on them."""
    numeric = [n for n in inputs[0] if all(isinstance(i.get(n), (int, float)) for i in inputs)]
    positive = [name for name in numeric if all(_number(i, name) > 0 for i in inputs)]
    raw = [Feature(name, _raw(name), name in positive) for name in numeric]
    return raw + list(_pairs(positive))


def _number(given: Input, name: str) -> float:
    value = given[name]
    assert isinstance(value, (int, float))
    return float(value)


def _raw(name: str) -> Callable[[Input], float]:
    return lambda given: _number(given, name)


def _pairs(names: Sequence[str]) -> Iterator[Feature]:
    for place, one in enumerate(names):
        for other in names[place + 1 :]:
            yield Feature(f"{one} / {other}", _ratio(one, other), log=True)
            yield Feature(f"{one} * {other}", _product(one, other), log=True)


def _ratio(one: str, other: str) -> Callable[[Input], float]:
    return lambda given: _number(given, one) / _number(given, other)


def _product(one: str, other: str) -> Callable[[Input], float]:
    return lambda given: _number(given, one) * _number(given, other)


# ------------------------------------------------------------------------------ the tree


@dataclass(frozen=True)
class Leaf:
    """A part of the inputs, and the configuration that is chosen for it."""

    config: Config
    inputs: int
    slowdown: float  # geometric mean over the leaf's own inputs


@dataclass(frozen=True)
class Split:
    """Inputs with `feature <= threshold` go to `low`, the others to `high`."""

    feature: Feature
    threshold: float  # in the feature's own terms, not their logarithm
    low: Node
    high: Node


Node = Leaf | Split


def grow(matrix: Matrix, seed: int = 0) -> Node:
    """A tree for all inputs, its number of leaves chosen by cross-validation; a split whose
    sides choose the same is not kept."""
    features = derive_features(matrix.inputs)
    columns = _columns(features, matrix.inputs)
    model = _fit(columns, matrix.log_slowdown, seed)
    return _node(model.tree_, 0, features, matrix)


def _columns(features: Sequence[Feature], inputs: Sequence[Input]) -> Array:
    columns: Array = np.array([f.column(inputs) for f in features], dtype=np.float64).T
    return columns


def _fit(columns: Array, logs: Array, seed: int) -> Any:
    return _regressor(_choose_leaves(columns, logs, seed), seed).fit(columns, logs)


def _regressor(leaves: int, seed: int) -> DecisionTreeRegressor:
    # Here, since scikit-learn takes a second to load, which most commands need not wait for.
    from sklearn.tree import DecisionTreeRegressor

    # One leaf is a tree of depth 0, which scikit-learn spells as a split that gains too little.
    return DecisionTreeRegressor(
        max_leaf_nodes=max(2, leaves),
        min_samples_leaf=_FEWEST_IN_LEAF,
        min_impurity_decrease=_TINY if leaves > 1 else sys.float_info.max,
        random_state=seed,
    )


def _choose_leaves(columns: Array, logs: Array, seed: int) -> int:
    """The number of leaves with the least cross-validated slowdown; the fewer among equals."""
    from sklearn.model_selection import KFold  # as in _regressor

    leave_one_out = len(columns) <= _FEW_INPUTS
    folds = KFold(len(columns)) if leave_one_out else KFold(_FOLDS, shuffle=True, random_state=seed)
    parts = list(folds.split(columns)) if len(columns) >= FEWEST_INPUTS else []
    if not parts:
        return 1
    counts = [count for count in _LEAF_COUNTS if count <= max(1, len(columns) // 2)]
    cost = {
        count: sum(
            _cost(_regressor(count, seed).fit(columns[fit], logs[fit]), columns[test], logs[test])
            for fit, test in parts
        )
        for count in counts
    }
    return min(cost, key=lambda count: (round(cost[count], 9), count))


def _choice(model: DecisionTreeRegressor, columns: Array) -> npt.NDArray[np.int_]:
    predicted = np.asarray(model.predict(columns)).reshape(len(columns), -1)
    choice: npt.NDArray[np.int_] = predicted.argmin(axis=1)
    return choice


def _cost(model: DecisionTreeRegressor, columns: Array, logs: Array) -> float:
    return float(logs[np.arange(len(logs)), _choice(model, columns)].sum())


def _node(tree: Any, index: int, features: Sequence[Feature], matrix: Matrix) -> Node:
    members = np.flatnonzero(_reaches(tree, index, features, matrix.inputs))
    logs = matrix.log_slowdown[members].mean(axis=0)
    leaf = Leaf(matrix.candidates[int(logs.argmin())], len(members), math.exp(float(logs.min())))
    if tree.children_left[index] == -1:
        return leaf
    low = _node(tree, tree.children_left[index], features, matrix)
    high = _node(tree, tree.children_right[index], features, matrix)
    if isinstance(low, Leaf) and isinstance(high, Leaf) and low.config == high.config:
        return leaf
    feature = features[tree.feature[index]]
    return Split(feature, _threshold(tree, index, feature, features, matrix.inputs), low, high)


def _threshold(
    tree: Any, index: int, feature: Feature, features: Sequence[Feature], inputs: Sequence[Input]
) -> float:
    """The threshold in the feature's own terms, between the largest value below and the least
    above: float32's own would let close neighbours slip to the other side."""
    below, above = (
        [feature.of(i) for i in itertools.compress(inputs, _reaches(tree, c, features, inputs))]
        for c in (tree.children_left[index], tree.children_right[index])
    )
    threshold = float(tree.threshold[index])
    threshold = 2**threshold if feature.log else threshold
    return threshold if max(below) <= threshold < min(above) else max(below)


def _reaches(
    tree: Any, index: int, features: Sequence[Feature], inputs: Sequence[Input]
) -> npt.NDArray[np.bool_]:
    columns = _columns(features, inputs).astype(np.float32)
    reached: npt.NDArray[np.bool_] = (
        tree.decision_path(columns)[:, [index]].toarray().astype(bool).ravel()
    )
    return reached


def decide(node: Node, given: Input) -> Config:
    """The configuration that the tree chooses for an input."""
    while isinstance(node, Split):
        node = node.low if node.feature.of(given) <= node.threshold else node.high
    return node.config


def describe(node: Node, indent: str = "") -> Iterator[str]:
    """The tree as lines of text, each leaf with its inputs and their mean slowdown."""
    if isinstance(node, Leaf):
        inputs = "input" if node.inputs == 1 else "inputs"
        yield f"{indent}{node.config}   ({node.inputs} {inputs}, slowdown {node.slowdown:.2f})"
        return
    threshold = f"{node.threshold:.4g}" if abs(node.threshold) < 1e4 else f"{node.threshold:,.0f}"
    yield f"{indent}if {node.feature.name} <= {threshold}:"
    yield from describe(node.low, indent + "    ")
    yield f"{indent}else:   # {node.feature.name} > {threshold}"
    yield from describe(node.high, indent + "    ")


# ------------------------------------------------------------------------------- judging


@dataclass(frozen=True)
class Judgement:
    """Slowdowns of one way to choose, one per input, each chosen without that input."""

    name: str
    slowdown: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The geometric mean; infinity where a chosen configuration failed on an input."""
        return math.exp(math.fsum(map(math.log, self.slowdown)) / len(self.slowdown))

    @property
    def worst(self) -> float:
        """The largest."""
        return max(self.slowdown)


def leave_one_out(matrix: Matrix, seed: int = 0) -> list[Judgement]:
    """The tree, the best single configuration and the default, on inputs that were left out."""
    columns = _columns(derive_features(matrix.inputs), matrix.inputs)
    tree, single = [], []
    for left_out in range(len(matrix.inputs)):
        rows = np.delete(np.arange(len(matrix.inputs)), left_out)
        # The left-out input's own winner is no candidate, unless another input's too.
        winners = np.unique([_DEFAULT, *matrix.time_s[rows].argmin(axis=1)])
        logs = matrix.part(rows, winners).log_slowdown
        chosen = winners[_choice(_fit(columns[rows], logs, seed), columns[[left_out]])[0]]
        tree.append(float(matrix.slowdown[left_out, chosen]))
        best = winners[logs.mean(axis=0).argmin()]
        single.append(float(matrix.slowdown[left_out, best]))
    return [
        Judgement("tree, on inputs it has not seen", tuple(tree)),
        Judgement("best single configuration, likewise", tuple(single)),
        Judgement("default", tuple(map(float, matrix.slowdown[:, _DEFAULT]))),
    ]
