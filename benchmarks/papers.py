"""Our figures for the claims of papers that need no campaign: each takes a minute at most.

They come from the expressions and spaces of this project, and from the samples of Starchart's
authors (tests/data). Each function returns the figure's text.
"""

from __future__ import annotations

import csv
import random
import statistics
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.starchart import PUBLISHED_SAMPLES
from benchmarks.starchart import SPACES as STARCHART
from harness.models.starchart import Growth, grow, published_growth
from harness.space import ConstrainedSpace
from harness.space_file import load_spec
from harness.stencil.definition import load_definition, program_names
from harness.stencil.explore import explore
from harness.stencil.features import features
from harness.stencil.ir import user_fun
from harness.stencil.language import grid, join, map_global, map_seq, split
from harness.stencil.lower import lower
from harness.stencil.nest import NdRange

ROOT = Path(__file__).resolve().parents[1]
_DRAWS, _DRAWN = 50, 200
_MORE_TIME = 1.1
_EXPRESSIONS = 1000


# ---------------------------------------------------------------------------------- Starchart


def published_samples() -> pd.DataFrame:
    """Read the authors' samples of kmeans: three parameters, the time and the power."""
    path = ROOT / "tests" / "data" / "starchart" / "kmeans.csv"
    table: pd.DataFrame = pd.read_csv(path, comment="#")
    return table


def errors(target: str, growth: Growth, draws: int) -> tuple[list[float], list[int]]:
    """Return for each draw of 200 samples the median relative error of their tree on all others,
    and the number of its leaves."""
    table, found, leaves = published_samples(), list[float](), list[int]()
    for seed in range(draws):
        order = np.random.default_rng(seed).permutation(len(table))
        known, unseen = table.iloc[order[:_DRAWN]], table.iloc[order[_DRAWN:]]
        tree = grow(known, target, ["ppb", "tpp", "consec"], growth)
        actual = unseen[target].to_numpy()
        found.append(float(np.median(np.abs(tree.predict(unseen).to_numpy() - actual) / actual)))
        leaves.append(len(list(tree.root.leaves())))
    return found, leaves


def tree_error(target: str) -> str:
    """Describe the error of trees with the published rule."""
    found, _ = errors(target, published_growth(), _DRAWS)
    text = f"{statistics.median(found):.1%} [{min(found):.1%}, {max(found):.1%}]"
    return f"{text}, median and range of {_DRAWS} draws of {_DRAWN}"


def leaf_counts() -> str:
    """Count the leaves of the tree with the published rule and of the cross-validated one."""
    parts = []
    for name, growth in (("published rule", published_growth()), ("cross-validated", Growth())):
        found, leaves = errors("runtime", growth, 10)
        error = f"error {statistics.median(found):.1%}"
        parts.append(f"{name}: {min(leaves)} to {max(leaves)}, {error}")
    return f"{'; '.join(parts)}; 10 draws of {_DRAWN}"


def power_saving() -> str:
    """Find the sample of the least power that takes at most a tenth longer than the fastest."""
    table = published_samples()
    runtime_s, watts = table["runtime"].to_numpy(), table["wattage"].to_numpy()
    of_fastest, most = watts[runtime_s.argmin()], watts.max()
    least = watts[runtime_s <= _MORE_TIME * runtime_s.min()].min()
    return (
        f"{of_fastest - least:.0f} W ({1 - least / of_fastest:.0%}) less than the fastest sample, "
        f"{most - least:.0f} W ({1 - least / most:.0%}) less than the one with the most power, "
        f"at up to {_MORE_TIME - 1:.0%} more time"
    )


def space_sizes() -> str:
    """Count the points of the published spaces; 200 samples are a share of them."""
    points = {}
    for path in sorted(STARCHART.glob("*.yaml")):
        spec = load_spec(path)
        points[path.stem] = ConstrainedSpace.of(spec, spec.inputs[0], None, "opencl").raw_count
    least = min(points, key=lambda name: points[name])
    sizes = ", ".join(f"{name} {points[name]:,}" for name in ("kmeans_swap", "bfs"))
    share = PUBLISHED_SAMPLES / points[least]
    return f"{sizes} points; 200 samples are at most {share:.2%} ({least})"


# ------------------------------------------------------------------------------------ stencils


def best_points() -> str:
    """Describe the features of the fastest point of each program and size."""
    with (ROOT / "results" / "stencil" / "best.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    local = sum(float(row["local_bytes"]) > 0 for row in rows)
    strided = sum(float(row["cache_lines"]) == 32 for row in rows)
    return f"of {len(rows)} best points {local} use local memory, {strided} touch 32 lines a warp"


def split_example() -> str:
    """Count the cache lines that a warp touches where each thread reads a part of an array."""
    square, sizes, found = user_fun("square", "x", "x * x"), (1, 2, 4, 32), list[str]()
    for size in sizes:
        parts = split(size, grid("x", 64 * size))
        expression = join(map_global(0, lambda part: map_seq(square, part), parts))
        kernel = lower("k", expression, NdRange((32, 1, 1), (2, 1, 1)))
        found.append(f"{features(kernel)['cache_lines']:.4g}")
    return f"{', '.join(found)} for parts of {', '.join(map(str, sizes))}"


def expressions() -> str:
    """Derive different low-level expressions of each program."""
    least = min(
        len(
            explore(
                "k",
                load_definition(program).expression(1024),
                _EXPRESSIONS,
                random.Random(0),
                threads_each=1,
            )
        )
        for program in program_names()
    )
    programs = len(program_names())
    return f"{least:,} of {_EXPRESSIONS:,} asked for, at least, for {programs} programs"


COMPUTED: Mapping[str, Callable[[], str]] = {
    "starchart-time": partial(tree_error, target="runtime"),
    "starchart-power": partial(tree_error, target="wattage"),
    "starchart-leaves": leaf_counts,
    "starchart-share": space_sizes,
    "starchart-watts": power_saving,
    "lift-best": best_points,
    "lift-split": split_example,
    "lift-expressions": expressions,
}
"""By the claim's name in claims.yaml."""
