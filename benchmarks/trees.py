"""How long trees take to learn from 100,000 samples and to predict as many.

The samples are synthetic, from a seeded generator: 20 columns, of which 8 are sizes (powers of two
from 16 to 2^20), 8 are parameters (powers of two from 1 to 128) and 4 are choices (0 or 1). The
time is the product of the first three sizes to the powers 1, 0.5 and 0.25, times a penalty for each
of three parameters that differs from the value that a ratio of sizes wants, times a choice's
factor, with 5 % of log-normal noise. As many samples of another seed are predicted.

Starchart learns the time from the 20 columns; G-ADAPT's model learns the three
parameters that the sizes want; the dispatcher learns which of eight candidates, the values of one
parameter, to choose for sizes, choices and the other parameters as features.

With a table of the published Starchart samples (kmeans on an HD 7970: ppb, tpp, consec, runtime,
wattage), it also prints how well the models predict these in ten-fold cross-validation:

    python -m benchmarks.trees [FILE]

It takes some minutes. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks.arguments import make_parser
from harness.commands.run import run_command
from harness.core.errors import UsageError
from harness.core.records import Config
from harness.dispatch.matrix import Matrix, make_matrix
from harness.dispatch.tree import TreeLearner
from harness.models import gadapt
from harness.models.starchart import Growth, TreeTarget, axes_of, cross_validate, describe, grow

ROWS = 100_000
FOLDS = 10
VALUES = 8  # of each parameter
SIZES = [f"size{index}" for index in range(8)]
PARAMETERS = [f"parameter{index}" for index in range(8)]
CHOICES = [f"choice{index}" for index in range(4)]
COLUMNS = [*SIZES, *PARAMETERS, *CHOICES]
LOG_TIME = "log_time"
KMEANS = ["ppb", "tpp", "consec"]

_PENALTIES = (0.5, 0.3, 0.2)  # of each step that a parameter is off, in powers of two
_NOISE = 0.05

# -------------------------------------------------------------------------------- samples


@dataclass(frozen=True)
class Samples:
    """`table` has the columns and the natural logarithm of the time; `asked` has the values that
    the sizes want for the first three parameters."""

    table: pd.DataFrame
    asked: pd.DataFrame

    @property
    def matrix(self) -> Matrix:
        """Make a matrix: each row an input, each value of the first parameter a candidate."""
        index = np.log2(self.table[PARAMETERS[0]].to_numpy())[:, None]
        asked = np.log2(self.asked[PARAMETERS[0]].to_numpy())[:, None]
        off = np.abs(np.arange(VALUES) - asked) - np.abs(index - asked)
        time_s = np.exp(self.table[LOG_TIME].to_numpy()[:, None]) * 2 ** (_PENALTIES[0] * off)
        candidates = [Config({PARAMETERS[0]: 2**index}) for index in range(VALUES)]
        features = self.table[[name for name in COLUMNS if name != PARAMETERS[0]]]
        return make_matrix(features, candidates, time_s)


def make_samples(rows: int, seed: int) -> Samples:
    """Draw samples."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(4, 21, (rows, len(SIZES)))
    parameters = rng.integers(0, VALUES, (rows, len(PARAMETERS)))
    choices = rng.integers(0, 2, (rows, len(CHOICES)))
    # The more, the larger one size is beside the next.
    asked = np.clip((sizes[:, :3] - sizes[:, 1:4]) // 4 + VALUES // 2, 0, VALUES - 1)
    powers = sizes[:, :3] @ np.array([1.0, 0.5, 0.25]) - 30
    powers += np.abs(parameters[:, :3] - asked) @ np.array(_PENALTIES)
    powers += 0.5 * choices[:, 0] * (sizes[:, 0] > 12)
    logs = powers * np.log(2) + rng.normal(0, _NOISE, rows)
    columns = pd.DataFrame(np.hstack([2**sizes, 2**parameters, choices]), columns=COLUMNS)
    return Samples(columns.assign(log_time=logs), pd.DataFrame(2**asked, columns=PARAMETERS[:3]))


# ---------------------------------------------------------------------------------- costs


@dataclass(frozen=True)
class Cost:
    """Processor time of a model for all rows, and its quality on unseen rows."""

    fit_s: float
    judge_s: float
    quality: str
    value: float


def measure_costs(rows: int) -> dict[str, Cost]:
    """Measure each model, by its name."""
    known, unseen = make_samples(rows, 1), make_samples(rows, 2)
    logs = unseen.table[LOG_TIME].to_numpy()

    def r2(predicted: pd.Series[float]) -> float:
        return float(1 - np.square(predicted - logs).mean() / logs.var())

    def hits(predicted: pd.DataFrame) -> float:
        return float((predicted == unseen.asked).all(axis=1).mean())

    matrix, unseen_matrix = known.matrix, unseen.matrix

    def slowdown(indices: npt.NDArray[np.intp]) -> float:
        return float(np.exp(unseen_matrix.log_slowdown[np.arange(rows), indices].mean()))

    tree = partial(grow, known.table, TreeTarget(LOG_TIME), COLUMNS)
    return {
        "Starchart, threshold 1e-5": _cost(
            lambda: tree(Growth(relative_threshold=1e-5)),
            lambda model: model.predict(unseen.table),
            ("R2", r2),
        ),
        "Starchart, size by validation": _cost(
            lambda: tree(Growth(folds=3)), lambda model: model.predict(unseen.table), ("R2", r2)
        ),
        "G-ADAPT": _cost(
            lambda: gadapt.fit(known.table[COLUMNS], known.asked),
            lambda model: model.predict(unseen.table[COLUMNS]),
            ("share of exact hits", hits),
        ),
        "dispatcher, one tree": _cost(
            lambda: TreeLearner().fit(matrix, 0),
            lambda model: model.indices(unseen_matrix.features, unseen_matrix.applies),
            ("mean slowdown", slowdown),
        ),
    }


def _cost(
    learn: Callable[[], Any],
    apply: Callable[[Any], Any],
    quality: tuple[str, Callable[[Any], float]],
) -> Cost:
    started = time.process_time()
    model = learn()
    learnt = time.process_time()
    found = apply(model)
    ended = time.process_time()
    name, of = quality
    return Cost(learnt - started, ended - learnt, name, of(found))


# ------------------------------------------------------------------------ published samples


def judge_kmeans(path: Path) -> dict[str, dict[str, float | str]]:
    """Judge how well runtime and power of the published samples are predicted; print it too."""
    try:
        table = pd.read_csv(path, comment="#")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as a table: {error}") from None
    return {target: _judge_target(table, target) for target in ("runtime", "wattage")}


def _judge_target(table: pd.DataFrame, target: str) -> dict[str, float | str]:
    axes = axes_of(table, KMEANS)
    tree = grow(table, target, axes)
    accuracy = cross_validate(lambda part: grow(part, target, axes), table, target, FOLDS)
    print(*describe(tree, depth=2), sep="\n")
    print(
        f"In {FOLDS}-fold cross-validation: R2 {accuracy.r2:.4f}, median error "
        f"{accuracy.error.median.value:.2%}\n"
    )
    return {
        "r2": accuracy.r2,
        "median_error": accuracy.error.median.value,
        "first_split": tree.root.split.parameter if tree.root.split else "none",
    }


# -------------------------------------------------------------------------------- command


def _run(args: argparse.Namespace) -> int:
    """Measure, print the tables, and the figures as one line."""
    kmeans = judge_kmeans(args.file) if args.file else None
    costs = measure_costs(args.rows)
    print(f"{args.rows} samples of {len(COLUMNS)} columns learnt from, and as many judged:")
    for name, cost in costs.items():
        print(
            f"    {name:<32}fit {cost.fit_s:6.2f} s   judge {cost.judge_s:5.2f} s   "
            f"{cost.quality} {cost.value:.3f}"
        )
    figures = {"rows": args.rows, "columns": len(COLUMNS), "kmeans": kmeans}
    print(json.dumps(figures | {"costs": {name: asdict(cost) for name, cost in costs.items()}}))
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return its exit code."""
    parser = make_parser("trees", __doc__)
    parser.add_argument("file", nargs="?", type=Path, help="the published kmeans samples, CSV")
    parser.add_argument(
        "--rows", type=int, default=ROWS, help="samples made (default: %(default)s)"
    )
    return run_command(parser, arguments, _run)


if __name__ == "__main__":
    sys.exit(main())
