"""The claims of the work that tuned nvcc's flags with OpenTuner (2015).

The authors' own logs (github.com/phrb/gpu-autotuning) are read as tables: `baseline.csv.gz` has the
times of programs built with -O0 to -O3, `tuned_final.csv.gz` those with the tuned flags, and
`trajectories.csv.gz` every time that the tuner saw. Seconds are of whole programs.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from benchmarks.papers.claim import Claim, Figure, Paper, Settings
from harness.commands.check import main as check
from harness.core.errors import RecordingError
from harness.stats import Estimate
from harness.stats.timing import log_difference

BASELINE, TUNED, SEEN = (
    f"flags/{name}.csv.gz" for name in ("baseline", "tuned_final", "trajectories")
)
LOGS = "the authors' logs"
PENALTY_S = 9999
"""The time that the authors' tuner gave to a program that did not compile or run."""

SPACES = Path(__file__).resolve().parents[2] / "spaces"

_BUILDS = 4  # besides the default
_OWN = {
    "matmul_1": "up to 30 %",
    "matmul_2": "9.2 %",
    "matmul_3": "2.7 %",
    "matmul_4": "none",
    "max_subarray": "1 to 2 %",
}
"""Our programs, and what tuned flags gain over -O2 in the paper."""

_GPUS = ("GTX-680", "Tesla-K20", "Tesla-K40-nvcc65")
_NAMES = {"GTX-680": "GTX 680", "Tesla-K20": "K20", "Tesla-K40-nvcc65": "K40"}


def saved(data: Settings, app: str, size: int) -> Figure:
    """Estimate the share of the time with -O2 that the tuned flags save, on each GPU."""
    baseline, tuned = (_table(data.recording(path)) for path in (BASELINE, TUNED))
    of_o2 = baseline[baseline["opt_level"] == 2]
    parts, gpus = list[str](), list[str]()
    for gpu in _GPUS:
        before, after = (_times(table, gpu, app, size) for table in (of_o2, tuned))
        if before and after:
            share = share_saved(before, after)
            parts.append(f"{_NAMES[gpu]} {share.text('.1f', ' %')}")
            gpus.append(_NAMES[gpu])
    return Figure("; ".join(parts), f"{', '.join(gpus)}, {LOGS}")


def share_saved(before_s: list[float], after_s: list[float]) -> Estimate:
    """Return the percentage of time saved, from the ratio of geometric means (Welch's t)."""
    found = log_difference(after_s, before_s)
    ratio = Estimate.from_log(found.mean, found.half_width(0.95))
    return Estimate(*(100 * (1 - part) for part in (ratio.value, ratio.high, ratio.low)))


def failures(data: Settings) -> Figure:
    """Compute the share of the tuner's tests that failed, by program and GPU."""
    table = _table(data.recording(SEEN))
    failed = table["time_s"] >= PENALTY_S
    shares = failed.groupby([table["gpu"], table["app"]]).mean()
    return Figure(
        f"{failed.mean():.0%} of {len(table):,} tests, {shares.min():.0%} to {shares.max():.0%} "
        f"by program and GPU, {shares.median():.1%} in the median of {len(shares)}",
        f"{table['gpu'].nunique()} set-ups of GTX 680, 750, 980, K20 and K40, {LOGS}",
    )


def overall(data: Settings) -> Figure:
    """Compute the speed-up over -O2 of every program, size and GPU of the logs."""
    baseline, tuned = (_table(data.recording(path)) for path in (BASELINE, TUNED))
    of_o2 = baseline[baseline["opt_level"] == 2]
    before = {key: _seconds(text) for key, text in _rows(of_o2)}
    ratios = pd.Series(
        [
            pd.Series(before[key]).median() / pd.Series(after).median()
            for key, text in _rows(tuned)
            if key in before and min(after := _seconds(text)) < PENALTY_S
        ]
    )
    return Figure(
        f"median {ratios.median():.3f}x, {(ratios > 1.3).sum()} of {len(ratios)} above 1.3x, "
        f"{(ratios > 10).sum()} above 10x",
        f"GTX 680, 750, 980, K20 and K40, {LOGS}",
    )


def programs(settings: Settings) -> Figure:
    """Build each of our programs with its default flags and others, and count those that build."""
    names = list(_OWN)[: 1 if settings.quick else None]
    built = 0
    for name in names:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            space = str(SPACES / f"{name}_nvcc.yaml")
            built += check([space, "--compile", f"{_BUILDS}", "--strict"]) == 0
    text = f"{built} of {len(names)} build with their default flags and with {_BUILDS} others"
    return Figure(text, "no GPU: nvcc")


def _table(path: Path) -> pd.DataFrame:
    try:
        table: pd.DataFrame = pd.read_csv(path)
    except (OSError, ValueError, EOFError) as error:
        raise RecordingError(f"{path}: cannot be read as CSV: {error}") from None
    return table


def _rows(table: pd.DataFrame) -> list[tuple[tuple[str, str, str], str]]:
    """Return the GPU, program and size of each row, with the text of its times."""
    sizes = table["exp"].str.extract(r"^size_([^_]+)_", expand=False)
    keys = zip(table["gpu"], table["app"], sizes, strict=True)
    return list(zip(keys, table["times_json"], strict=True))


def _times(table: pd.DataFrame, gpu: str, app: str, size: int) -> list[float]:
    """Return the seconds of the first row of a GPU, program and size; empty where there is none."""
    found = [text for key, text in _rows(table) if key == (gpu, app, str(size))]
    return _seconds(found[0]) if found else []


def _seconds(text: str) -> list[float]:
    return [float(value) for value in json.loads(text)]


def _saved(app: str, size: int) -> Callable[[Settings], Figure]:
    return lambda settings: saved(settings, app, size)


def _claim(name: str, text: str, published: str, measure: Callable[[Settings], Figure]) -> Claim:
    name = f"nvcc-{name}"
    command = f"python -m benchmarks.published --claim {name} --data FOLDER"
    return Claim(name, text, published, command, measure)


def _own(name: str, published: str) -> Claim:
    """Make a claim of one of our programs, which only a GPU can run."""
    return Claim(
        f"nvcc-own-{name.replace('_', '-')}",
        f"our {name}: tuned flags over -O2, 20 repetitions",
        published,
        f"python -m harness.tune spaces/{name}_nvcc.yaml",
        None,
    )


PAPERS = (
    Paper(
        "Autotuning GPU Compiler Parameters Using OpenTuner (Bruel, Amarís, Goldman, WSCAD 2015)",
        (
            _claim(
                "matmul-1",
                "matmul 1 (n = 1024): time saved over -O2",
                "up to 30 %",
                _saved("MatMulUn", 1024),
            ),
            _claim(
                "matmul-2",
                "matmul 2 (n = 1024): time saved over -O2",
                "9.2 %",
                _saved("MatMulGPU", 1024),
            ),
            _claim(
                "matmul-shared",
                "matmul in shared memory (n = 1024): time saved over -O2",
                "2.7 %",
                _saved("MatMulShared", 1024),
            ),
            _claim(
                "matmul-4",
                "matmul 4 (n = 256, the only size that is logged): time saved over -O2",
                "none",
                _saved("MatMulSharedUn", 256),
            ),
            _claim(
                "subarray",
                "maximum sub-array (n = 2^27): time saved over -O2",
                "1 to 2 %",
                _saved("SubSeqMax", 2**27),
            ),
            _claim("failures", "failed tests of the tuner", "a chart (figure 3)", failures),
            _claim("overall", "speed-up over -O2, all programs", "a chart (figure 4)", overall),
            Claim(
                "nvcc-programs",
                "five whole programs, built with tuned flags",
                "5, which verify themselves",
                "python -m benchmarks.published --claim nvcc-programs",
                programs,
            ),
            *(_own(name, published) for name, published in _OWN.items()),
            Claim(
                "nvcc-own-summary",
                "our programs: failures and speed-ups by program and GPU",
                "charts (figures 3 and 4)",
                "python -m harness.analyse all.db --summary",
                None,
            ),
        ),
    ),
)
