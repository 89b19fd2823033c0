"""The claims of the prediction of LIFT's stencils (2020).

Predictions come from `benchmarks/stencil.py`, whose figures are in results/stencil/. What the
rewrite rules and the features say of an expression is computed here.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.papers.claim import RESULTS, Claim, Figure, Paper, Settings, short
from harness.core.errors import UsageError
from harness.stencil.definition import load_definition, program_names
from harness.stencil.explore import explore
from harness.stencil.features import features
from harness.stencil.ir import user_fun
from harness.stencil.language import grid, join, map_global, map_seq, split
from harness.stencil.lower import lower
from harness.stencil.nest import NdRange

RECORD = RESULTS / "stencil" / "overall.json"
BEST = RESULTS / "stencil" / "best.csv"
COMMAND = (
    "python -m benchmarks.stencil --sizes 256 512 1024 --count 40 --threads 4 --campaigns 3 "
    "--finalists 12 --repeats 3"
)
_EXPRESSIONS, _FEW = 1000, 10
_SPLITS = (1, 2, 4, 32)


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} does not hold the JSON line of its benchmark: {error}") from None
    return found


def _recorded(text: Callable[[dict[str, Any]], str]) -> Callable[[Settings], Figure]:
    def measure(settings: Settings) -> Figure:
        record = _read(RECORD)
        return Figure(text(record), short(record["device"]), record["date"])

    return measure


def _predicted(name: str, form: str, unit: str = "") -> Callable[[dict[str, Any]], str]:
    """Render a figure of both predictors: median of the campaigns, with the least and largest."""

    def text(record: dict[str, Any]) -> str:
        parts = []
        for predictor in ("pca_knn", "forest"):
            found = record["predictors"][predictor][name]
            middle, least, most = (format(found[key], form) for key in ("median", "min", "max"))
            parts.append(f"{predictor} {middle}{unit} [{least}, {most}]")
        return ", ".join(parts)

    return text


def _correlations(record: dict[str, Any]) -> str:
    kinds = {"Spearman": "spearman", "Pearson": "pearson"}
    return "; ".join(f"{kind}: {_predicted(name, '.3f')(record)}" for kind, name in kinds.items())


def _runs(record: dict[str, Any]) -> str:
    chance = record["predictors"]["forest"]["random_runs"]["median"]
    return f"{_predicted('runs', '.3g')(record)}, random {chance:.3g}"


def _breakdown(record: dict[str, Any]) -> str:
    spent = record["mean_seconds_a_point"]
    names = ("explore", "lower", "features", "build", "run")
    whole = sum(spent[f"{name}_s"] for name in names)
    return ", ".join(f"{name} {spent[f'{name}_s'] / whole:.2%}" for name in names)


def best_points(settings: Settings) -> Figure:
    """Describe the features of the fastest point of each program and size."""
    with BEST.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    local = sum(float(row["local_bytes"]) > 0 for row in rows)
    strided = sum(float(row["cache_lines"]) == 32 for row in rows)
    record = _read(RECORD)
    return Figure(
        f"of {len(rows)} best points {local} use local memory, {strided} touch 32 lines a warp",
        short(record["device"]),
        record["date"],
    )


def split_example(settings: Settings) -> Figure:
    """Count the cache lines that a warp touches where each thread reads a part of an array."""
    square, found = user_fun("square", "x", "x * x"), list[str]()
    for size in _SPLITS:
        parts = split(size, grid("x", 64 * size))
        expression = join(map_global(0, lambda part: map_seq(square, part), parts))
        kernel = lower("k", expression, NdRange((32, 1, 1), (2, 1, 1)))
        found.append(f"{features(kernel)['cache_lines']:.4g}")
    return Figure(f"{', '.join(found)} for parts of {', '.join(map(str, _SPLITS))}")


def expressions(settings: Settings) -> Figure:
    """Derive different low-level expressions of each program."""
    wanted = _FEW if settings.quick else _EXPRESSIONS
    found = {}
    for program in program_names():
        expression = load_definition(program).expression(1024)
        found[program] = len(explore("k", expression, wanted, random.Random(0), threads_each=1))
    least = min(found, key=lambda name: found[name])
    return Figure(f"{found[least]:,} of {wanted:,} asked for, at least, for {len(found)} programs")


def _computed(name: str, text: str, published: str, measure: Callable[[Settings], Figure]) -> Claim:
    command = f"python -m benchmarks.published --claim lift-{name}"
    return Claim(f"lift-{name}", text, published, command, measure)


def _measured(
    name: str, text: str, published: str, render: Callable[[dict[str, Any]], str]
) -> Claim:
    return Claim(f"lift-{name}", text, published, COMMAND, _recorded(render))


PAPERS = (
    Paper(
        "High-Level Hardware Feature Extraction for GPU Performance Prediction of Stencils "
        "(Remmelg and others, GPGPU 2020)",
        (
            _measured(
                "correlation",
                "correlation of predicted and measured throughput, program left out",
                "0.8 and 0.9 on two GPUs",
                _correlations,
            ),
            _measured(
                "runs",
                "runs to 90 % of the best, model against random",
                "3 against 97 (NVIDIA), 5 against 240 (AMD)",
                _runs,
            ),
            _measured(
                "saving",
                "search time saved, relative to random",
                "35x and 77x",
                _predicted("time_saved", ".1f", "x"),
            ),
            _measured(
                "information",
                "most informative feature",
                "cache lines a warp touches",
                lambda record: f"`{record['most_informative_feature']}`",
            ),
            _measured("breakdown", "time of each phase of a point", "a chart", _breakdown),
            Claim("lift-best", "features of the best points", "a table", COMMAND, best_points),
            _computed(
                "split",
                "cache lines a warp touches where each thread reads a part",
                "8 for parts of 4 (section 4.2.3; 4 is right)",
                split_example,
            ),
            _computed(
                "expressions",
                "low-level expressions derived of a program",
                "about 1,000, each with about 10 thread configurations",
                expressions,
            ),
            Claim(
                "lift-full",
                "the above on a GPU, with 10,000 points a program at sizes of 512 to 8192",
                "as above",
                "python -m benchmarks.stencil --sizes 512 1024 2048 4096 8192 --count 10000 "
                "--backend cuda",
                None,
            ),
        ),
    ),
)
