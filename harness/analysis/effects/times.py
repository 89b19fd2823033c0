"""What each value of each parameter does to the time, alone and in pairs, with intervals.

A linear model of the logarithm of the time with an effect of each level of each parameter, over
samples that were designed or drawn uniformly; for a Plackett-Burman design it gives that design's
main effects (Plackett and Burman, "The Design of Optimum Multifactorial Experiments", 1946). Each
input has a mean of its own. The tests of one configuration on several inputs count as one cluster,
and so do those of all configurations that share a measurement, their machine code being equal:
many that were measured once are one sample.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.analysis.effects.factors import MOST_LEVELS, Factor, factors
from harness.analysis.effects.trials import Trials, independent
from harness.stats import Estimate
from harness.stats.clustered_regression import Fit, degrees_of_freedom, demean, fit
from harness.stats.multiple_tests import holm
from harness.stats.timing import NEGLIGIBLE

Array = npt.NDArray[np.float64]

ALPHA = 0.05
MOST_SAMPLES = 10_000
"""More are drawn from at random."""

_MOST_PAIRS = 12  # whose interactions are estimated together, the most conspicuous ones
_FEWEST_TOGETHER = 5  # samples with both levels of an interaction
_LARGEST = 700.0  # half-width of a logarithm: e to this power is finite, so it can be drawn
_FEWEST_LEFT = 10  # degrees of freedom for an interval


@dataclass(frozen=True)
class Effect:
    """The ratio of the time with some `levels` of parameters to that with their `baselines`.

    One name: the effect of one level, averaged over the other parameters. Two names: the
    interaction, which is the effect of both levels together beyond their separate effects. The
    interval is at 95 %; `p_value` is Holm's, over all effects of the same order.
    """

    names: tuple[str, ...]
    levels: tuple[str, ...]
    baselines: tuple[str, ...]
    ratio: Estimate
    p_value: float
    count: int

    @property
    def is_significant(self) -> bool:
        """Whether the effect is significant and beyond half a percent."""
        return self.p_value <= ALPHA and abs(math.log(self.ratio.value)) > NEGLIGIBLE

    @property
    def label(self) -> str:
        """What was set: `ftz=true and fmad=false`."""
        return " and ".join(f"{n}={v}" for n, v in zip(self.names, self.levels, strict=True))

    def __str__(self) -> str:
        return f"{self.label}: {self.ratio.text('.2f', 'x')}"


@dataclass(frozen=True)
class Effects:
    """First-order effects, a parameter's together, the most important parameter first; pairwise
    ones, the clearest first; and `shares`: how much of the variance of the logarithm of the time
    each parameter's first-order effects explain, largest first.

    `samples` were used, of `configurations` distinct configurations, of which `independent` share
    no measurement with another; `measurements` were really made. `fewest` independent ones would
    do for the first-order effects; with less there are none. `asked` is how many configurations to
    ask for so that as many come of them, where as many fail and share a measurement as here.
    `undetermined` parameters have levels that these samples cannot tell from others', or that one
    measurement alone tells of.
    """

    first: tuple[Effect, ...]
    pairs: tuple[Effect, ...]
    shares: dict[str, float]
    samples: int
    configurations: int
    measurements: int
    independent: int
    fewest: int
    asked: int
    undetermined: tuple[str, ...] = ()

    @property
    def is_enough(self) -> bool:
        """Whether there were samples enough."""
        return bool(self.first)


def effects_on_time(found: Trials) -> Effects:
    """From the unbiased samples that worked."""
    ends = found.ends[found.ends["unbiased"] & found.ends["time_s"].notna()]
    if len(ends) > MOST_SAMPLES:
        ends = ends.sample(MOST_SAMPLES, random_state=0)
    ends = ends[ends.groupby("input")["input"].transform("size") > 1]
    made = factors(found.settings.loc[ends.index], found)
    clusters = independent(ends)
    design = _Design.of(made, ends["input"].to_numpy(), clusters)
    fewest = _fewest(found)
    counts = (
        len(ends),
        ends["configuration"].nunique(),
        ends["measurement"].nunique(),
        len(np.unique(clusters)),
        fewest,
        _asked(found, fewest),
    )
    logs = np.log(ends["time_s"].to_numpy(dtype=np.float64))
    if not made or design.spare < _FEWEST_LEFT:
        return Effects((), (), {}, *counts)
    outputs = demean(logs[:, None], design.groups)[:, 0]
    main = fit(design.columns, outputs, design.groups, design.clusters)
    first = _first(design, main)
    shares = _shares(design, main, outputs)
    ordered = sorted(first, key=lambda effect: -shares[effect.names[0]])
    told = {effect.names[0] for effect in first}
    lacking = tuple(factor.name for factor in made if factor.name not in told)
    pairs = tuple(_pairs(design, main, outputs))
    return Effects(tuple(ordered), pairs, shares, *counts, lacking)


def _fewest(found: Trials) -> int:
    """Samples that first-order effects want: twice as many as there are effects, so that half of
    them tell of the spread."""
    values = (found.settings[name].map(repr).nunique() for name in found.parameters)
    return 2 * sum(min(MOST_LEVELS, count) - 1 for count in values) + 2 * _FEWEST_LEFT


def _asked(found: Trials, fewest: int) -> int:
    """Configurations that give so many independent ones, from those that were tried so far: the
    unbiased ones, or all where there are none."""
    ends = found.ends[found.ends["unbiased"]] if found.ends["unbiased"].any() else found.ends
    worked = ends[ends["time_s"].notna()]
    if worked.empty:
        return fewest
    share = len(np.unique(independent(worked))) / ends["configuration"].nunique()
    return math.ceil(fewest / share)


@dataclass(frozen=True)
class _Design:
    """Levels as columns: `columns` without the inputs' means, `raw` with; of each column its
    factor and level. `groups` and `clusters` number the rows' inputs and independent parts."""

    factors: Sequence[Factor]
    raw: Array
    columns: Array
    owner: npt.NDArray[np.intp]
    level: npt.NDArray[np.intp]
    groups: npt.NDArray[np.intp]
    clusters: npt.NDArray[np.intp]

    @classmethod
    def of(
        cls,
        made: Sequence[Factor],
        inputs: npt.NDArray[np.intp],
        clusters: npt.NDArray[np.intp],
    ) -> _Design:
        raw = np.hstack([np.empty((len(inputs), 0)), *(factor.columns() for factor in made)])
        widths = [len(factor.levels) - 1 for factor in made]
        groups = np.unique(inputs, return_inverse=True)[1]
        return cls(
            made,
            raw,
            demean(raw, groups) if len(raw) else raw,
            np.repeat(np.arange(len(made)), widths),
            np.array([level for width in widths for level in range(1, width + 1)], dtype=np.intp),
            groups,
            np.unique(clusters, return_inverse=True)[1],
        )

    @property
    def inputs(self) -> int:
        """How many there are."""
        return int(self.groups.max()) + 1 if len(self.groups) else 0

    @property
    def spare(self) -> int:
        """Degrees of freedom beyond the effects of all levels."""
        return degrees_of_freedom(self.clusters, self.inputs) - len(self.owner)

    def effect(
        self, columns: Sequence[int], log_ratio: tuple[float, float], p_value: float, count: int
    ) -> Effect:
        """An effect of one level, or of two together, by their columns."""
        mean, half = log_ratio
        owners = [self.factors[self.owner[column]] for column in columns]
        return Effect(
            tuple(factor.name for factor in owners),
            tuple(f.levels[self.level[c]] for f, c in zip(owners, columns, strict=True)),
            tuple(factor.levels[0] for factor in owners),
            Estimate.from_log(mean, min(half, _LARGEST)),
            p_value,
            count,
        )


def _first(design: _Design, main: Fit) -> list[Effect]:
    """The first-order effects that the samples determine."""
    halves, counts = main.half_widths(), design.raw.sum(axis=0).astype(int)
    p_values = holm(main.p_values(), len(main.coefficients))
    return [
        design.effect(
            [column],
            (float(main.coefficients[column]), float(halves[column])),
            float(p_values[column]),
            int(counts[column]),
        )
        for column in np.flatnonzero(main.estimable).tolist()
    ]


def _shares(design: _Design, main: Fit, outputs: Array) -> dict[str, float]:
    """By how much the squared error would rise without each parameter, of the whole."""
    whole = float(outputs @ outputs)
    shares = {}
    for place, factor in enumerate(design.factors):
        own = np.flatnonzero(design.owner == place)
        effects = main.coefficients[own]
        risen = float(effects @ np.linalg.pinv(main.inverse[np.ix_(own, own)]) @ effects)
        shares[factor.name] = risen / whole if whole > 0 else 0.0
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


# ------------------------------------------------------------------------------ pairs


def _pairs(design: _Design, main: Fit, outputs: Array) -> list[Effect]:
    """The clear interactions among the most conspicuous pairs, which are estimated together."""
    one, other, looks = _conspicuous(design, main)
    if not len(one):
        return []
    products = design.raw[:, one] * design.raw[:, other]
    columns = np.hstack([design.columns, demean(products, design.groups)])
    both = fit(columns, outputs, design.groups, design.clusters)
    rest = slice(design.columns.shape[1], None)
    halves, counts = both.half_widths()[rest], products.sum(axis=0).astype(int)
    p_values = holm(both.p_values()[rest], looks)
    found = [
        design.effect(
            [int(one[place]), int(other[place])],
            (float(both.coefficients[rest][place]), float(halves[place])),
            float(p_values[place]),
            int(counts[place]),
        )
        for place in np.flatnonzero(both.estimable[rest]).tolist()
    ]
    clear = [effect for effect in found if effect.is_significant]
    return sorted(clear, key=lambda effect: -abs(math.log(effect.ratio.value)))


def _conspicuous(
    design: _Design, main: Fit
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], int]:
    """The columns of the pairs whose residuals are farthest from 0 for their spread, and how many
    products of columns were looked at."""
    raw, residuals = design.raw, main.residuals
    together = raw.T @ raw
    sums = raw.T @ (raw * residuals[:, None])
    spreads = raw.T @ (raw * (residuals**2)[:, None])
    apart = np.triu(design.owner[:, None] != design.owner[None, :], 1)
    usable = apart & (together >= _FEWEST_TOGETHER)
    scores = np.where(usable, np.abs(sums) / np.sqrt(np.maximum(spreads, 1e-300)), 0.0)
    best = np.zeros((len(design.factors), len(design.factors)))
    np.maximum.at(best, (design.owner[:, None], design.owner[None, :]), scores)
    spare = (design.spare - len(design.owner)) // 2  # half of the samples for intervals
    one: list[int] = []
    other: list[int] = []
    for place in np.argsort(-best, axis=None)[:_MOST_PAIRS].tolist():
        row, column = divmod(place, len(design.factors))
        cells = np.argwhere(
            usable & (design.owner[:, None] == row) & (design.owner[None, :] == column)
        )
        if not best[row, column] or len(one) + len(cells) > spare:
            break
        one += cells[:, 0].tolist()
        other += cells[:, 1].tolist()
    return np.array(one, dtype=np.intp), np.array(other, dtype=np.intp), int(usable.sum())
