"""Figures for claims of papers from public measurements of real GPUs; nothing runs on a GPU.

The folder of recordings has spaces/ with Kernel Tuner's caches of its benchmark_hub (MIT licence),
and flags/ with the logs of the authors who tuned nvcc's flags (github.com/phrb/gpu-autotuning,
LGPL-3) as CSV: results/reproduction.md has its columns. Each function takes that folder, and
returns the figure's text and its rows. All take a minute together.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.paper_figures import PUBLISHED_THRESHOLD, tree_errors
from benchmarks.recordings import RecordingFile, recorded
from harness.core.errors import RecordingError
from harness.models.starchart import Growth
from harness.recordings.recording import Recording
from harness.stats import Estimate

HUB = "Kernel Tuner's benchmark_hub, MIT"

_DRAWS = 50
_GOAL = 0.15  # the error to which Starchart's authors add samples
_TREES = {
    "200 samples, threshold 0": (200, Growth(0)),
    f"200 samples, threshold {PUBLISHED_THRESHOLD:g}": (200, Growth(PUBLISHED_THRESHOLD)),
    "400 samples, threshold 0": (400, Growth(0)),
}
_AMD, _NVIDIA = "convolution_milo_W6600", "convolution_milo_A100"

_GPUS = {"GTX-680": "GTX 680", "Tesla-K20": "K20", "Tesla-K40-nvcc65": "K40"}
"""The set-ups that the paper has, as the logs and as people name them."""
_KEY = ["gpu", "app", "app_size", "opt_level"]
_PENALTY_S = 9999  # of a program that did not compile or run, in the authors' tuner
_RESAMPLES = 10_000
_NEAR = 1.01
_HOUR_S = 3600
_TOLD = (256, 1024, 2**27, 2**30)  # sizes in a figure's text: of the paper, and where it agrees

PublicFigure = dict[str, Any]
"""A figure's text, `ours`, and maybe `rows`: one for each recording or log that it comes from."""


# ---------------------------------------------------------------------------------- Starchart


def recording_errors(folder: Path) -> PublicFigure:
    """Find the error of trees of few samples on each exhaustive recording."""
    rows, medians = list[dict[str, str]](), {name: list[float]() for name in _TREES}
    for path in sorted((folder / "spaces").glob("*.json.gz")):
        recording = recorded(RecordingFile(path))
        table = _table(recording)
        names = [str(name) for name in table if name != "time_s" and table[name].nunique() > 1]
        row = {"recording": path.name.partition(".")[0], "device": str(recording.device)}
        row |= {"source": HUB, "configurations that ran": f"{len(table):,}"}
        for name, (samples, growth) in _TREES.items():
            found, _ = tree_errors(table, "time_s", names, growth, samples, _DRAWS)
            medians[name].append(statistics.median(found))
            row[name] = f"{medians[name][-1]:.1%} [{min(found):.1%}, {max(found):.1%}]"
        rows.append(row)
    if not rows:
        raise RecordingError(f"{folder / 'spaces'}: has no recording; name the folder with --data")
    parts = [
        f"{name}: {statistics.median(found):.1%} ({min(found):.1%} to {max(found):.1%})"
        for name, found in medians.items()
    ]
    good = f"{sum(error < _GOAL for error in medians[[*_TREES][-1]])} of them below {_GOAL:.0%}"
    return {
        "ours": f"median of {len(rows)} recordings with {'; '.join(parts)}, {good}",
        "rows": rows,
    }


def platforms(folder: Path) -> PublicFigure:
    """Compare the best configuration of each of two GPUs with the one that suits both best."""
    paths = [folder / "spaces" / f"{name}.json.gz" for name in (_AMD, _NVIDIA)]
    amd, nvidia = (_table(recorded(RecordingFile(path))) for path in paths)
    both = amd.merge(nvidia, on=[name for name in amd if name != "time_s"])
    least_s = [table["time_s"].min() for table in (amd, nvidia)]
    slowdowns = both[["time_s_x", "time_s_y"]].to_numpy() / least_s
    gains = slowdowns[slowdowns.prod(axis=1).argmin()].tolist()
    return {"ours": "{:.2f}x (AMD), {:.2f}x (NVIDIA), of a convolution".format(*gains)}


def _table(recording: Recording) -> pd.DataFrame:
    """Tabulate the configurations that ran, with their times."""
    timed = [(config, m.time_s) for (_, config), m in recording.measurements.items() if m.timing]
    rows = [dict(config) | {"time_s": time_s} for config, time_s in timed]
    table: pd.DataFrame = pd.DataFrame(rows)
    return table


# --------------------------------------------------------------------------------- nvcc's flags


def saved(folder: Path, app: str, sizes: Sequence[int]) -> PublicFigure:
    """Estimate the share of the time that tuned flags save, over -O2 and over the fastest of -O0
    to -O3, on each GPU of the paper."""
    baseline, tuned = _log(folder, "baseline"), _log(folder, "tuned_final")
    rows, texts = list[dict[str, str]](), list[str]()
    for log, gpu in _GPUS.items():
        for size in sizes:
            key = (log, app, str(size))
            after = _seconds(tuned, key)
            levels = {level: _seconds(baseline, (*key, level)) for level in range(4)}
            if not (after and all(levels.values())):
                continue
            best = min(levels, key=lambda level: statistics.median(levels[level]))
            over_2, over_best = (share_saved(levels[level], after) for level in (2, best))
            n = f"2^{size.bit_length() - 1}"
            row = {"program": app, "n": n, "device": gpu, "repetitions": f"{len(after)}"}
            row |= {"saved over -O2": over_2, "fastest level": f"-O{best}"}
            rows.append(row | {"saved over it": over_best})
            if size in _TOLD:
                texts.append(f"{gpu}{f' at n = {n}' if len(sizes) > 1 else ''} {over_2}")
    return {"ours": "; ".join(texts), "rows": rows}


def share_saved(before_s: Sequence[float], after_s: Sequence[float]) -> str:
    """Render the percentage of the median time that is saved, with its 95 % bootstrap interval."""
    rng = np.random.default_rng(0)
    before, after = (
        np.median(rng.choice(times_s, (_RESAMPLES, len(times_s))), axis=1)
        for times_s in (before_s, after_s)
    )
    low, high = np.percentile(100 * (1 - after / before), [2.5, 97.5])
    value = 100 * (1 - statistics.median(after_s) / statistics.median(before_s))
    return Estimate(value, float(low), float(high)).text(".1f", " %")


def seconds_to_best(folder: Path, apps: Sequence[str]) -> PublicFigure:
    """Find how much of its hour the tuner took to come within 1 % of its best, on the GTX 680."""
    table = _log(folder, "trajectories")
    texts = list[str]()
    for app in apps:
        key = ("GTX-680", app, "1024")
        trace = table[(table[_KEY[:3]] == list(key)).all(axis=1)].sort_values("elapsed_s")
        is_near = trace["time_s"] <= _NEAR * trace["time_s"].min()
        after_s = trace["elapsed_s"][is_near].iloc[0]
        texts.append(
            f"{app} {after_s / _HOUR_S:.0%} ({after_s:.0f} s; {len(trace):,} tests in all)"
        )
    return {"ours": "; ".join(texts)}


def failures(folder: Path) -> PublicFigure:
    """Compute the share of the tuner's tests that failed, by program and GPU."""
    table = _log(folder, "trajectories")
    failed = table["time_s"] >= _PENALTY_S
    shares = failed.groupby([table["gpu"], table["app"]]).mean()
    text = (
        f"{failed.mean():.0%} of {len(table):,} tests, {shares.min():.0%} to {shares.max():.0%} "
        f"by program and GPU, {shares.median():.1%} in the median of {len(shares)}"
    )
    return {"ours": text}


def speedups(folder: Path) -> PublicFigure:
    """Compute the speed-up over -O2 of every program, size and GPU of the logs."""
    baseline, tuned = _log(folder, "baseline"), _log(folder, "tuned_final")
    both = tuned.merge(baseline[baseline["opt_level"] == 2], on=_KEY[:3])
    after, before = (both[f"times_json_{side}"].map(json.loads) for side in ("x", "y"))
    ratios = (before.map(np.median) / after.map(np.median))[after.map(min) < _PENALTY_S]
    fast = f"{(ratios > 1.3).sum()} of {len(ratios)} above 1.3x, {(ratios > 10).sum()} above 10x"
    return {"ours": f"median {ratios.median():.3f}x, {fast}"}


def _log(folder: Path, name: str) -> pd.DataFrame:
    """Read a log, without the copies of the same times under another name."""
    path = folder / "flags" / f"{name}.csv.gz"
    try:
        table = pd.read_csv(path)
    except (OSError, ValueError, EOFError) as error:
        raise RecordingError(f"{path}: cannot be read as CSV: {error}") from None
    same = ["times_json"] if "times_json" in table else ["i", "elapsed_s", "time_s"]
    sizes = table["exp"].str.extract(r"^size_([^_]+)_", expand=False)
    distinct: pd.DataFrame = table.assign(app_size=sizes).drop_duplicates(same)
    return distinct


def _seconds(table: pd.DataFrame, key: Sequence[Any]) -> list[float]:
    """Return the seconds of a GPU, program, size and, in the baseline, level; empty for none."""
    rows = table[(table[_KEY[: len(key)]] == list(key)).all(axis=1)]
    return [float(value) for value in json.loads(rows["times_json"].iloc[0])] if len(rows) else []


SUBARRAY_SIZES = tuple(2**power for power in range(25, 31))

COMPUTED: Mapping[str, Callable[[Path], PublicFigure]] = {
    "starchart-recordings": recording_errors,
    "starchart-platforms": platforms,
    "nvcc-matmul-1": partial(saved, app="MatMulUn", sizes=(1024,)),
    "nvcc-matmul-2": partial(saved, app="MatMulGPU", sizes=(1024,)),
    "nvcc-matmul-shared": partial(saved, app="MatMulShared", sizes=(1024,)),
    "nvcc-matmul-4": partial(saved, app="MatMulSharedUn", sizes=(256,)),
    "nvcc-subarray": partial(saved, app="SubSeqMax", sizes=SUBARRAY_SIZES),
    "nvcc-seconds": partial(seconds_to_best, apps=("MatMulUn", "MatMulGPU")),
    "nvcc-failures": failures,
    "nvcc-overall": speedups,
}
"""By the claim's name in claims.yaml."""
