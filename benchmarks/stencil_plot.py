"""Draw the predictions of stencils: correlation, runs, time saved and informative features."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd

_COLOURS = {
    "forest": "#ff7f0e",
    "pca_knn": "#1f77b4",
    "random": "#7f7f7f",
}


def draw(folder: Path, judged: Mapping[str, pd.DataFrame], ranking: Any, device: str) -> None:
    """Write `predictions.png` and `information.png`; every picture names the device."""
    matplotlib.use("Agg")
    from matplotlib import pyplot  # only now, with the backend chosen

    figure, panels = pyplot.subplots(3, 1, figsize=(9, 8), layout="constrained")
    first = next(iter(judged.values()))
    names = [f"{row.program}\n{row.size}" for row in first.itertuples()]
    _bars(panels[0], names, {n: rows["correlation"] for n, rows in judged.items()})
    panels[0].set_ylabel("correlation")
    runs = {n: rows["runs"] for n, rows in judged.items()} | {"random": first["random_runs"]}
    _bars(panels[1], names, runs)
    panels[1].set_yscale("log")
    panels[1].set_ylabel("runs to 90 % of the best")
    _bars(panels[2], names, {n: rows["time_saved"] for n, rows in judged.items()})
    panels[2].set_ylabel("times less than at random")
    figure.suptitle(f"each program predicted from the others, on {device}", fontsize=10)
    figure.savefig(folder / "predictions.png", dpi=110)
    pyplot.close(figure)

    figure, panel = pyplot.subplots(figsize=(6, 4), layout="constrained")
    panel.barh(list(ranking.index)[::-1], ranking.to_numpy()[::-1], color=_COLOURS["pca_knn"])
    panel.set_xlabel("mutual information with throughput / sum of entropies")
    panel.set_title(device, fontsize=10)
    figure.savefig(folder / "information.png", dpi=110)
    pyplot.close(figure)


def _bars(panel: Any, names: list[str], values: Mapping[str, Any]) -> None:
    width = 0.8 / len(values)
    for number, (name, column) in enumerate(values.items()):
        positions = np.arange(len(names)) + (number - (len(values) - 1) / 2) * width
        panel.bar(positions, column, width, label=name, color=_COLOURS.get(name))
    panel.set_xticks(range(len(names)), labels=names, fontsize=7)
    panel.legend(fontsize=8)
    panel.grid(axis="y", alpha=0.3)
