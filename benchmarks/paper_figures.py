"""Our figures for the claims of papers that need no campaign: each takes a minute at most.

They come from the expressions and spaces of this project, and from the samples of Starchart's
authors (tests/data). Each function returns the figure's text.
"""

from __future__ import annotations

import csv
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.kernels import SPACES
from benchmarks.starchart import PUBLISHED_SAMPLES
from benchmarks.stencil_campaign import PROGRAMS
from harness.core.arrays import Array
from harness.core.records import Config
from harness.models.gadapt import judge
from harness.models.starchart import Growth, grow
from harness.search.techniques import steps_up
from harness.space import ConstrainedSpace
from harness.space_file import Spec, load_spec
from harness.stencil import grid, join, map_global, map_seq, split, user_fun
from harness.stencil.explore import explore
from harness.stencil.features import features
from harness.stencil.lower import lower
from harness.stencil.nest import NdRange
from harness.stencil.space_files import Definition

ROOT = Path(__file__).resolve().parents[1]
GADAPT, STARCHART = SPACES / "gadapt", SPACES / "starchart"
KMEANS = ["ppb", "tpp", "consec"]
PUBLISHED_THRESHOLD = 1e-6
"""The paper has "0 or a small value"; on the authors' samples this gives their 40 leaves."""

_DRAWS, _FEW_DRAWS = 50, 10
_MORE_TIME = 1.1
_EXPRESSIONS = 1000
_THREADS = ((1, 1), (2, 8), (9, 32))  # of a point


# ------------------------------------------------------------------------------------ G-ADAPT


def fewest_and_most_tests(spec: Spec) -> tuple[int, int]:
    """Count the tests of hill climbing on all inputs, whatever the times: follow each way up."""
    space = ConstrainedSpace.of(spec, spec.inputs[0], None, "opencl")

    def climbed(here: Config, known: dict[Config, tuple[int, int]]) -> tuple[int, int]:
        if here not in known:
            steps = list(steps_up(space, here))
            ways = [climbed(step, known) for step in steps] or [(0, 0)]
            fewest, most = min(low for low, _ in ways), max(high for _, high in ways)
            known[here] = fewest + len(steps), most + len(steps)
        return known[here]

    fewest, most = climbed(space.decode([0] * len(space.parameters)), {})
    return len(spec.inputs) * (1 + fewest), len(spec.inputs) * (1 + most)


def climbing_tests() -> str:
    """Count the fewest and the most tests of each program's space."""
    counts = {path.stem: fewest_and_most_tests(load_spec(path)) for path in GADAPT.glob("*.yaml")}
    return "; ".join(
        f"{name} {fewest}" + (f" to {most}" if most > fewest else "")
        for name, (fewest, most) in sorted(counts.items())
    )


_LABELS: Mapping[str, Callable[[pd.DataFrame], Array]] = {
    "mvmul": lambda table: np.where((table["m"] / table["n"]).rank() <= 4, 256, 64),
    "reduction": lambda table: np.where(table["n"].isin([2**19, 2**20]), 64, 128),
    "transpose": lambda table: np.where(table["width"] * table["height"] > 4_000_000, 4, 16),
}
"""The best value on each input as the paper has it; on other programs it is always the same."""


def label_accuracy() -> str:
    """Judge our model of G-ADAPT on the paper's best values, each input left out in turn."""
    parts = []
    for name, label in _LABELS.items():
        inputs = [dict(problem) for problem in load_spec(GADAPT / f"{name}.yaml").inputs]
        features = pd.DataFrame(inputs)
        values, best, counts = np.unique(label(features), return_inverse=True, return_counts=True)
        times_s = np.where(best[:, None] == np.arange(len(values)), 1.0, 2.0)
        accuracy = judge(features, pd.DataFrame({"value": values}), times_s).accuracy
        frequent = counts.max() / len(best)
        told = f"always the most frequent value: {frequent:.1%}"
        told += ", so the model adds nothing" if accuracy <= frequent else ""
        parts.append(f"{name} {accuracy:.1%} ({told})")
    return "; ".join(parts)


# ---------------------------------------------------------------------------------- Starchart


def published_samples() -> pd.DataFrame:
    """Read the authors' samples of kmeans: three parameters, the time and the power."""
    path = ROOT / "tests" / "data" / "starchart" / "kmeans.csv"
    table: pd.DataFrame = pd.read_csv(path, comment="#")
    return table


def tree_errors(
    table: pd.DataFrame, target: str, names: Sequence[str], growth: Growth, samples: int, draws: int
) -> tuple[list[float], list[int]]:
    """Return for each draw of samples the median relative error of their tree on all others, and
    the number of its leaves."""
    found, leaves = list[float](), list[int]()
    for seed in range(draws):
        order = np.random.default_rng(seed).permutation(len(table))
        known, unseen = table.iloc[order[:samples]], table.iloc[order[samples:]]
        tree = grow(known, target, names, growth)
        actual = unseen[target].to_numpy()
        found.append(float(np.median(np.abs(tree.predict(unseen).to_numpy() - actual) / actual)))
        leaves.append(len(list(tree.root.leaves())))
    return found, leaves


def errors(target: str, growth: Growth, draws: int) -> tuple[list[float], list[int]]:
    """Return the errors and leaves of trees of 200 of the authors' samples."""
    return tree_errors(published_samples(), target, KMEANS, growth, PUBLISHED_SAMPLES, draws)


def tree_error(target: str) -> str:
    """Describe the error of trees that grow by the published rule."""
    found, _ = errors(target, Growth(PUBLISHED_THRESHOLD), _DRAWS)
    text = f"{statistics.median(found):.1%} [{min(found):.1%}, {max(found):.1%}]"
    rule = f"threshold {PUBLISHED_THRESHOLD:g}"
    return f"{text}, {rule}; median and range of {_DRAWS} draws of {PUBLISHED_SAMPLES}"


def leaf_counts() -> str:
    """Count the leaves of trees that stop at several thresholds, and of pruned ones."""
    rules = {
        f"threshold {threshold:g}": Growth(threshold)
        for threshold in (0, PUBLISHED_THRESHOLD, 1e-4)
    }
    rules["pruned by cross-validation"] = Growth()
    parts = []
    for name, growth in rules.items():
        found, leaves = errors("runtime", growth, _FEW_DRAWS)
        error = f"error {statistics.median(found):.1%}"
        parts.append(f"{name}: {min(leaves)} to {max(leaves)} leaves, {error}")
    return f"{'; '.join(parts)}; {_FEW_DRAWS} draws of {PUBLISHED_SAMPLES}"


def several_threads() -> str:
    """Compare the authors' samples of one thread a point with those of several."""
    table = published_samples()
    alone, shared = (table["runtime"][table["tpp"].gt(1) == several] for several in (False, True))
    return f"{alone.mean() / shared.mean():.2f}x (means of {len(alone)} and {len(shared)} samples)"


def first_split() -> str:
    """Split the authors' samples once, as the root of a tree does."""
    root = grow(published_samples(), "runtime", KMEANS, Growth(0)).root
    low, high = root.sides
    return (
        f"{low.box}: {low.mean:.2g} against {high.mean:.2g} ms "
        f"(means of {low.count} and {high.count} samples)"
    )


def time_range() -> str:
    """Compare the slowest of the authors' samples with the fastest."""
    runtime_ms = published_samples()["runtime"]
    ratio = runtime_ms.max() / runtime_ms.min()
    return f"{ratio:.0f}x ({runtime_ms.min():.2g} to {runtime_ms.max():.2g} ms)"


def gain_of_order() -> str:
    """Compare reads of neighbouring addresses with reads of far ones, by threads of a point."""
    table = published_samples()
    parts = []
    for first, last in _THREADS:
        chosen = table[table["tpp"].between(first, last)]
        mean_ms = chosen.groupby("consec")["runtime"].mean()
        name = f"{first} to {last}" if last > first else f"{first}"
        parts.append(f"{mean_ms[0] / mean_ms[1]:.2f}x with tpp {name}")
    return f"{', '.join(parts)} (ratios of means)"


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
    """Count the points and the legal configurations of the published spaces; 200 samples are a
    share of them."""
    legal = dict[str, int]()
    for path in sorted(STARCHART.glob("*.yaml")):
        spec = load_spec(path)
        space = ConstrainedSpace.of(spec, spec.inputs[0], None, "opencl")
        legal[f"{path.stem} {space.raw_count:,} points"] = int(space.count or 0)
    shares = {name: 100 * PUBLISHED_SAMPLES / count for name, count in legal.items()}
    return "; ".join(f"{name}, {legal[name]:,} legal: {shares[name]:.2g} %" for name in legal)


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
    wholes = [Definition.load(path).expression(1024) for path in PROGRAMS.values()]
    least = min(len(explore("k", whole, _EXPRESSIONS, "0", threads_each=1)) for whole in wholes)
    return f"{least:,} of {_EXPRESSIONS:,} asked for, at least, for {len(PROGRAMS)} programs"


COMPUTED: Mapping[str, Callable[[], str]] = {
    "gadapt-tests": climbing_tests,
    "gadapt-labels": label_accuracy,
    "starchart-time": partial(tree_error, target="runtime"),
    "starchart-power": partial(tree_error, target="wattage"),
    "starchart-leaves": leaf_counts,
    "starchart-share": space_sizes,
    "starchart-watts": power_saving,
    "starchart-threads": several_threads,
    "starchart-split": first_split,
    "starchart-range": time_range,
    "starchart-order": gain_of_order,
    "lift-best": best_points,
    "lift-split": split_example,
    "lift-expressions": expressions,
}
"""By the claim's name in claims.yaml."""
