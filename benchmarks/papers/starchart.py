"""The claims of Starchart (2013).

Errors and powers are tried on the samples that its authors published, which are in tests/data, and
on recordings of two GPUs. Those of our own spaces come from `benchmarks/starchart.py`, whose JSON
lines are in results/starchart/.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.papers.claim import RESULTS, Claim, Figure, Paper, Settings, joined, runs
from benchmarks.starchart import PUBLISHED_SAMPLES, SPACES
from harness.core.records import Config
from harness.models.starchart import Growth, grow, published_growth
from harness.recordings.read import RecordingFile
from harness.space import ConstrainedSpace
from harness.space_file import load_spec

RECORD = RESULTS / "starchart" / "kernels.jsonl"
SAMPLES = Path(__file__).resolve().parents[2] / "tests" / "data" / "starchart" / "kmeans.csv"
COMMAND = "python -m benchmarks.starchart"
KMEANS = ["ppb", "tpp", "consec"]
GPU = "AMD HD 7970, the authors' 500 samples of kmeans"
AMD, NVIDIA = "convolution_milo_W6600.json.gz", "convolution_milo_A100.json.gz"

_DRAWS, _FEW_DRAWS = 50, 2
_MORE_TIME = 1.1


def published_samples() -> pd.DataFrame:
    """Read the authors' samples: three parameters, the time and the power."""
    table: pd.DataFrame = pd.read_csv(SAMPLES, comment="#")
    return table


def errors(target: str, growth: Growth, draws: int) -> tuple[list[float], list[int]]:
    """Return for each draw of 200 samples the median relative error of their tree on all others,
    and the number of its leaves."""
    table, found, leaves = published_samples(), list[float](), list[int]()
    for seed in range(draws):
        order = np.random.default_rng(seed).permutation(len(table))
        known, unseen = table.iloc[order[:200]], table.iloc[order[200:]]
        tree = grow(known, target, KMEANS, growth)
        actual = unseen[target].to_numpy()
        found.append(float(np.median(np.abs(tree.predict(unseen).to_numpy() - actual) / actual)))
        leaves.append(len(list(tree.root.leaves())))
    return found, leaves


def _error(target: str) -> Callable[[Settings], Figure]:
    def measure(settings: Settings) -> Figure:
        draws = _FEW_DRAWS if settings.quick else _DRAWS
        found, _ = errors(target, published_growth(), draws)
        text = f"{statistics.median(found):.1%} [{min(found):.1%}, {max(found):.1%}]"
        return Figure(f"{text}, median and range of {draws} draws of 200", GPU)

    return measure


def leaf_counts(settings: Settings) -> Figure:
    """Count the leaves of the tree with the published rule and of the cross-validated one."""
    draws = _FEW_DRAWS if settings.quick else 10
    parts = []
    for name, growth in (("published rule", published_growth()), ("cross-validated", Growth())):
        found, leaves = errors("runtime", growth, draws)
        error = f"error {statistics.median(found):.1%}"
        parts.append(f"{name}: {min(leaves)} to {max(leaves)}, {error}")
    return Figure(f"{'; '.join(parts)}; {draws} draws of 200", GPU)


def power_saving(settings: Settings) -> Figure:
    """Find the sample of the least power that takes at most a tenth longer than the fastest."""
    table = published_samples()
    runtime_s, watts = table["runtime"].to_numpy(), table["wattage"].to_numpy()
    of_fastest, most = watts[runtime_s.argmin()], watts.max()
    least = watts[runtime_s <= _MORE_TIME * runtime_s.min()].min()
    return Figure(
        f"{of_fastest - least:.0f} W ({1 - least / of_fastest:.0%}) less than the fastest sample, "
        f"{most - least:.0f} W ({1 - least / most:.0%}) less than the one with the most power, "
        f"at up to {_MORE_TIME - 1:.0%} more time",
        GPU,
    )


def space_sizes(settings: Settings) -> Figure:
    """Count the points of the published spaces; 200 samples are a share of them."""
    points = {}
    for path in sorted(SPACES.glob("*.yaml")):
        spec = load_spec(path)
        points[path.stem] = ConstrainedSpace.of(spec, spec.inputs[0], None, "opencl").raw_count
    least = min(points, key=lambda name: points[name])
    share = PUBLISHED_SAMPLES / points[least]
    sizes = ", ".join(f"{name} {points[name]:,}" for name in ("kmeans_swap", "bfs"))
    return Figure(f"{sizes} points; 200 samples are at most {share:.2%} ({least})")


def platforms(settings: Settings) -> Figure:
    """Compare the best configuration of each of two GPUs with the one that suits both best."""
    times = [_times(settings.recording(f"spaces/{name}")) for name in (AMD, NVIDIA)]
    least = [min(found.values()) for found in times]
    both = times[0].keys() & times[1].keys()
    general = min(
        both, key=lambda config: times[0][config] / least[0] * times[1][config] / least[1]
    )
    gains = [found[general] / best for found, best in zip(times, least, strict=True)]
    return Figure(
        "{:.2f}x (AMD), {:.2f}x (NVIDIA)".format(*gains),
        "AMD W6600 and NVIDIA A100, recordings of a convolution",
    )


def _times(path: Path) -> dict[Config, float]:
    found = RecordingFile(path).read().measurements
    return {config: m.time_s for (_, config), m in found.items() if m.timing}


def _kernels(
    text: Callable[[dict[str, Any]], str], only: tuple[str, ...] = ()
) -> Callable[[Settings], Figure]:
    def measure(settings: Settings) -> Figure:
        rows = list(runs(RECORD, "kernels"))
        return joined(
            [
                (f"{row['kernel']} {text(row)}", figure)
                for row, figure in rows
                if row["kernel"] in only or not only
            ]
        )

    return measure


def _error_of_200(row: dict[str, Any]) -> str:
    found = row["error_of_200"]
    return "{:.1%} [{:.1%}, {:.1%}]".format(*found) if found else "not sampled so often"


def _samples(row: dict[str, Any]) -> str:
    return f"{'' if row['is_reached'] else 'over '}{row['samples']}"


def _speedup(row: dict[str, Any]) -> str:
    return "{:.2f}x [{:.2f}, {:.2f}]".format(*row["speedup"]) if row["speedup"] else "failed"


def _claim(name: str, text: str, published: str, measure: Callable[[Settings], Figure]) -> Claim:
    """Make a claim whose figure is computed by `benchmarks/published.py` itself."""
    return Claim(
        f"starchart-{name}",
        text,
        published,
        f"python -m benchmarks.published --claim starchart-{name}",
        measure,
    )


PAPERS = (
    Paper(
        "Starchart (Jia, Shaw, Martonosi, PACT 2013)",
        (
            _claim("time", "error of predicted times, 200 samples", "8 %", _error("runtime")),
            _claim("power", "error of predicted power, 200 samples", "4 %", _error("wattage")),
            _claim("leaves", "leaves of a tree from 200 samples", "40 to 50", leaf_counts),
            _claim(
                "share",
                "size of the spaces, and the share of them that is sampled",
                "kmeans 63,552, bfs 98,816; at most 0.3 %",
                space_sizes,
            ),
            Claim(
                "starchart-error",
                "error of predicted times, 200 samples, each kernel",
                "8 % in the median",
                COMMAND,
                _kernels(_error_of_200),
            ),
            Claim(
                "starchart-samples",
                "samples to an error of 15 %",
                "matrix 3,200, nbody 400",
                f"{COMMAND} --samples 3200",
                _kernels(_samples),
            ),
            Claim(
                "starchart-hotspot",
                "hotspot: best design; ours over the default",
                "6.3x (AMD), 1.3x (NVIDIA) as fast as one general setting",
                f"{COMMAND} --kernel hotspot",
                _kernels(_speedup, ("hotspot",)),
            ),
            Claim(
                "starchart-nbody",
                "nbody: best design over the default",
                "17x",
                f"{COMMAND} --kernel nbody",
                _kernels(_speedup, ("nbody",)),
            ),
            _claim(
                "platforms",
                "best setting of each platform over one for both",
                "6.3x (AMD), 1.3x (NVIDIA) on hotspot",
                platforms,
            ),
            _claim(
                "watts",
                "power saved with little loss of time",
                "47 W (26 %)",
                power_saving,
            ),
        ),
    ),
)
