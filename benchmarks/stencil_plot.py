"""Draw the predictions of stencils: correlation, runs, time saved and informative features."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd

from harness.stencil.predicted import GROUP

_COLOURS = {
    "forest": "#ff7f0e",
    "pca_knn": "#1f77b4",
    "random": "#7f7f7f",
}


_LABELS = {
    "spearman": "Spearman correlation",
    "pearson": "Pearson correlation",
    "runs": "runs to 90 % of the best",
    "time_saved": "times less than at random",
}


def draw(folder: Path, judged: Mapping[str, pd.DataFrame], ranking: Any, device: str) -> None:
    """Write `predictions.png` and `information.png`; every picture names the device."""
    matplotlib.use("Agg")
    from matplotlib import pyplot  # only now, with the backend chosen

    first = next(iter(judged.values()))
    names = ["\n".join(map(str, group)) for group, _ in first.groupby(GROUP)]
    width = max(9.0, 0.9 * len(names))
    figure, panels = pyplot.subplots(4, 1, figsize=(width, 10), layout="constrained")
    for panel, column in zip(panels, ("spearman", "pearson", "runs", "time_saved"), strict=True):
        shown = {name: rows.groupby(GROUP)[column] for name, rows in judged.items()}
        if column == "runs":
            shown["random"] = first.groupby(GROUP)["random_runs"]
            panel.set_yscale("log")
        _bars(panel, names, shown)
        panel.set_ylabel(_LABELS[column])
    campaigns = first["campaign"].nunique()
    of = f"\nmedian, least and largest of {campaigns} campaigns" if campaigns > 1 else ""
    figure.suptitle(f"each program predicted from the others, on {device}{of}", fontsize=10)
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
    for number, (name, groups) in enumerate(values.items()):
        positions = np.arange(len(names)) + (number - (len(values) - 1) / 2) * width
        middle = groups.median().to_numpy()
        low, high = middle - groups.min().to_numpy(), groups.max().to_numpy() - middle
        panel.bar(positions, middle, width, label=name, color=_COLOURS.get(name))
        panel.errorbar(positions, middle, [low, high], fmt="none", ecolor="black", elinewidth=0.7)
    panel.set_xticks(range(len(names)), labels=names, fontsize=7)
    panel.legend(fontsize=8)
    panel.grid(axis="y", alpha=0.3)
