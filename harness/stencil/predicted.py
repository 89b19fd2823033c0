"""A stencil's points in the order in which a predictor, trained on other stencils, expects them to
be fast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from harness.core.errors import UsageError
from harness.core.records import Config, Environment, Input, Measurement
from harness.results import sqlite_path
from harness.results.view import Results, read_results
from harness.stencil.features import FEATURES
from harness.stencil.model import forest, table_of


@dataclass(frozen=True)
class Order:
    """Configurations, the most promising first, and a line that says what that rests on."""

    configs: tuple[Config, ...]
    told: str


def training_table(
    found: Sequence[Results], environment: Environment, without: str | None = None
) -> pd.DataFrame:
    """The points of stencils that results databases hold of an environment, as
    `harness.stencil.model` wants them; without those of one program, if one is given."""
    parts = [
        table_of(
            results.campaign.space_name,
            int(given["size"]),  # type: ignore[arg-type]
            measured.values(),
            results.finals.get(given, ()),
        )
        for results in found
        for given, measured in results.measured.items()
        if results.campaign.space_name != without
        and results.campaign.environment == environment
        and _is_stencil(given, list(measured.values()))
    ]
    table: pd.DataFrame = pd.concat(parts, ignore_index=True) if parts else table_of("", 0, [])
    return table


def _is_stencil(given: Input, measured: Sequence[Measurement]) -> bool:
    return list(given) == ["size"] and any(FEATURES[0] in m.observed for m in measured)


def read_points(path: Path) -> tuple[list[Config], pd.DataFrame]:
    """The configurations of NAME.features.csv beside a stencil's space, and their features."""
    points = pd.read_csv(path)
    tuned = [name for name in points.columns if name.isupper()]
    configs = [Config(row) for row in points[tuned].to_dict("records")]
    return configs, points


def predicted_order(known: pd.DataFrame, path: Path) -> Order | None:
    """The points of a stencil's space by the default predictor; None where nothing is known.

    What it was trained on is told, and how much of that has the designs of this space: common
    ones make a predictor look better than it is on new ones.
    """
    if known.empty:
        return None
    configs, points = read_points(path)
    scores = forest(known, points.assign(program=path.name, size=0))
    shared = points["design"].isin(known["design"]).mean()
    programs = sorted(known["program"].unique())
    told = (
        f"ordered by a forest trained on {len(known):,} points of {', '.join(programs)}; "
        f"{shared:.0%} of this space's designs are among theirs"
    )
    best = np.argsort(-scores, kind="stable")
    return Order(tuple(configs[place] for place in best), told)


@dataclass(frozen=True)
class Teacher:
    """What databases hold of stencils, to order a stencil's space by; read before the search
    begins to write."""

    space: Path
    found: tuple[Results, ...]

    def order(self, environment: Environment) -> Order | None:
        """The order by what is known of other stencils in an environment; None where nothing
        is."""
        table = training_table(self.found, environment, self.space.stem)
        return predicted_order(table, _points_of(self.space))


def read_teacher(place: str, space: Path) -> Teacher:
    """Raises UsageError for a space that is no stencil's."""
    points = _points_of(space)
    if not points.exists():
        raise UsageError(
            f"{space} is no stencil's space: there is no {points.name} beside it; "
            "python -m harness.stencil explore writes both"
        )
    path = sqlite_path(place)
    if path is not None and not path.exists():
        return Teacher(space, ())
    try:
        return Teacher(space, tuple(read_results([place])))
    except UsageError:  # no results yet
        return Teacher(space, ())


def _points_of(space: Path) -> Path:
    return space.with_suffix(".features.csv")
