"""Inputs, configurations and what was found there as a pandas table with plain columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from harness.core.records import Input

if TYPE_CHECKING:
    import pandas as pd


def flat_table(
    points: Sequence[tuple[Input, Mapping[str, object]]], found: Sequence[Mapping[str, object]]
) -> pd.DataFrame:
    """Return a table of inputs and configurations with what was found there, in plain columns; a
    feature or parameter whose name is taken is `input.NAME` or `config.NAME`."""
    import pandas as pd  # here: it takes half a second to load

    last = pd.DataFrame(found)
    inputs, configs = (pd.DataFrame([dict(point[part]) for point in points]) for part in (0, 1))
    inputs = inputs.rename(columns={name: f"input.{name}" for name in last})
    configs = configs.rename(columns={name: f"config.{name}" for name in last})
    joined: pd.DataFrame = pd.concat([inputs, configs, last], axis=1)
    return joined
