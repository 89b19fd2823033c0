"""Our figures for the claims of papers that need no campaign: each takes a minute at most.

They come from the expressions and spaces of this project, from the samples of Starchart's authors
(tests/data), and from recordings of GPUs in a folder: two of a convolution, and the logs of the
authors who tuned nvcc's flags (github.com/phrb/gpu-autotuning). There, `baseline.csv.gz` has the
times of programs built with -O0 to -O3, `tuned_final.csv.gz` those with the tuned flags. Each
function gets that folder and returns the figure's text.
"""

from __future__ import annotations

import csv
import json
import random
import statistics
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.starchart import PUBLISHED_SAMPLES
from benchmarks.starchart import SPACES as STARCHART
from harness.core.records import Config
from harness.models.starchart import Growth, grow, published_growth
from harness.recordings.read import RecordingFile
from harness.space import ConstrainedSpace
from harness.space_file import load_spec
from harness.stats import Estimate
from harness.stats.timing import log_difference
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
_GPUS = {"GTX-680": "GTX 680", "Tesla-K20": "K20", "Tesla-K40-nvcc65": "K40"}


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


def tree_error(data: Path, target: str) -> str:
    """Describe the error of trees with the published rule."""
    found, _ = errors(target, published_growth(), _DRAWS)
    text = f"{statistics.median(found):.1%} [{min(found):.1%}, {max(found):.1%}]"
    return f"{text}, median and range of {_DRAWS} draws of {_DRAWN}"


def leaf_counts(data: Path) -> str:
    """Count the leaves of the tree with the published rule and of the cross-validated one."""
    parts = []
    for name, growth in (("published rule", published_growth()), ("cross-validated", Growth())):
        found, leaves = errors("runtime", growth, 10)
        error = f"error {statistics.median(found):.1%}"
        parts.append(f"{name}: {min(leaves)} to {max(leaves)}, {error}")
    return f"{'; '.join(parts)}; 10 draws of {_DRAWN}"


def power_saving(data: Path) -> str:
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


def space_sizes(data: Path) -> str:
    """Count the points of the published spaces; 200 samples are a share of them."""
    points = {}
    for path in sorted(STARCHART.glob("*.yaml")):
        spec = load_spec(path)
        points[path.stem] = ConstrainedSpace.of(spec, spec.inputs[0], None, "opencl").raw_count
    least = min(points, key=lambda name: points[name])
    sizes = ", ".join(f"{name} {points[name]:,}" for name in ("kmeans_swap", "bfs"))
    share = PUBLISHED_SAMPLES / points[least]
    return f"{sizes} points; 200 samples are at most {share:.2%} ({least})"


def platforms(data: Path) -> str:
    """Compare the best configuration of each of two GPUs with the one that suits both best."""
    names = ("W6600", "A100")
    times = [_times_of(data / "spaces" / f"convolution_milo_{name}.json.gz") for name in names]
    least = [min(found.values()) for found in times]
    general = min(
        times[0].keys() & times[1].keys(),
        key=lambda config: times[0][config] / least[0] * times[1][config] / least[1],
    )
    gains = [found[general] / best for found, best in zip(times, least, strict=True)]
    return "{:.2f}x (AMD), {:.2f}x (NVIDIA)".format(*gains)


def _times_of(path: Path) -> dict[Config, float]:
    found = RecordingFile(path).read().measurements
    return {config: m.time_s for (_, config), m in found.items() if m.timing}


# -------------------------------------------------------------------------------- nvcc's flags


def _runs(data: Path, name: str) -> dict[tuple[str, str, str], list[float]]:
    """Read the seconds of each GPU, program and size; of the baseline those with -O2."""
    table = pd.read_csv(data / "flags" / f"{name}.csv.gz")
    if "opt_level" in table:
        table = table[table["opt_level"] == 2]
    sizes = table["exp"].str.extract(r"^size_([^_]+)_", expand=False)
    rows = zip(table["gpu"], table["app"], sizes, table["times_json"], strict=True)
    found: dict[tuple[str, str, str], list[float]] = {}
    for gpu, app, size, text in rows:
        found.setdefault((gpu, app, size), json.loads(text))
    return found


def saved(data: Path, app: str, size: int) -> str:
    """Estimate the share of the time with -O2 that the tuned flags save, on each GPU."""
    before, after = _runs(data, "baseline"), _runs(data, "tuned_final")
    return "; ".join(
        f"{name} {share_saved(before[key], after[key]).text('.1f', ' %')}"
        for gpu, name in _GPUS.items()
        if (key := (gpu, app, str(size))) in before and key in after
    )


def share_saved(before_s: list[float], after_s: list[float]) -> Estimate:
    """Return the percentage of time saved, from the ratio of geometric means (Welch's t)."""
    found = log_difference(after_s, before_s)
    ratio = Estimate.from_log(found.mean, found.half_width(0.95))
    return Estimate(*(100 * (1 - part) for part in (ratio.value, ratio.high, ratio.low)))


# ------------------------------------------------------------------------------------ stencils


def best_points(data: Path) -> str:
    """Describe the features of the fastest point of each program and size."""
    with (ROOT / "results" / "stencil" / "best.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    local = sum(float(row["local_bytes"]) > 0 for row in rows)
    strided = sum(float(row["cache_lines"]) == 32 for row in rows)
    return f"of {len(rows)} best points {local} use local memory, {strided} touch 32 lines a warp"


def split_example(data: Path) -> str:
    """Count the cache lines that a warp touches where each thread reads a part of an array."""
    square, sizes, found = user_fun("square", "x", "x * x"), (1, 2, 4, 32), list[str]()
    for size in sizes:
        parts = split(size, grid("x", 64 * size))
        expression = join(map_global(0, lambda part: map_seq(square, part), parts))
        kernel = lower("k", expression, NdRange((32, 1, 1), (2, 1, 1)))
        found.append(f"{features(kernel)['cache_lines']:.4g}")
    return f"{', '.join(found)} for parts of {', '.join(map(str, sizes))}"


def expressions(data: Path) -> str:
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


COMPUTED: Mapping[str, Callable[[Path], str]] = {
    "starchart-time": partial(tree_error, target="runtime"),
    "starchart-power": partial(tree_error, target="wattage"),
    "starchart-leaves": leaf_counts,
    "starchart-share": space_sizes,
    "starchart-platforms": platforms,
    "starchart-watts": power_saving,
    "nvcc-matmul-1": partial(saved, app="MatMulUn", size=1024),
    "nvcc-matmul-2": partial(saved, app="MatMulGPU", size=1024),
    "nvcc-matmul-shared": partial(saved, app="MatMulShared", size=1024),
    "nvcc-matmul-4": partial(saved, app="MatMulSharedUn", size=256),
    "nvcc-subarray": partial(saved, app="SubSeqMax", size=2**27),
    "lift-best": best_points,
    "lift-split": split_example,
    "lift-expressions": expressions,
}
"""By the claim's name in claims.yaml."""
