"""Estimate the effect of each parameter value on the time, alone and in pairs, with intervals.

The model is linear in the logarithm of the time, with an effect of each level of each parameter and
a mean for each input. For a Plackett-Burman design it gives that design's main effects (Plackett
and Burman, "The Design of Optimum Multifactorial Experiments", 1946). It uses only samples that
were designed or drawn uniformly. Tests of one configuration on several inputs are one cluster, and
so are those of configurations that share a measurement because their machine code is the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.analysis.effects.factors import MOST_LEVELS, TreatmentFactor, factors
from harness.analysis.effects.trials import Trials, independent_clusters
from harness.core.arrays import Array, Indices
from harness.stats import Estimate
from harness.stats.clustered_regression import Fit, degrees_of_freedom, demean, fit
from harness.stats.multiple_tests import holm
from harness.stats.timing import NEGLIGIBLE

ALPHA = 0.05
MOST_SAMPLES = 10_000
"""If there are more samples, so many are drawn at random."""

_MOST_PAIRS = 12  # pairs of parameters whose interactions are estimated together
_MIN_TOGETHER = 5  # samples with both levels of an interaction
_MIN_SPARE = 10  # degrees of freedom for an interval
_LARGEST = 700.0  # half-width of a logarithm: e to this power is finite, so it can be drawn


@dataclass(frozen=True)
class Effect:
    """The ratio of the time with some `levels` of parameters to that with their `baselines`.

    One name: the effect of one level, averaged over the other parameters. Two names: the
    interaction, which is the effect of both levels together beyond their separate effects. The
    interval is at 95 %; `p_value` is Holm's, over all effects of the same order. `count` samples
    have these levels.
    """

    names: tuple[str, ...]
    levels: tuple[str, ...]
    baselines: tuple[str, ...]
    ratio: Estimate
    p_value: float
    count: int

    @property
    def is_significant(self) -> bool:
        """Whether the effect is significant and larger than half a percent."""
        return self.p_value <= ALPHA and abs(math.log(self.ratio.value)) > NEGLIGIBLE

    @property
    def label(self) -> str:
        """The levels: `ftz=true and fmad=false`."""
        return " and ".join(f"{n}={v}" for n, v in zip(self.names, self.levels, strict=True))

    def __str__(self) -> str:
        return f"{self.label}: {self.ratio.text('.2f', 'x')}"


@dataclass(frozen=True)
class SampleCounts:
    """How many samples there are to estimate effects from, and how many are needed.

    The `samples` are of so many different `configurations`, come from so many real `measurements`
    and form so many `independent` clusters. First-order effects need `needed` clusters. To get
    them, `to_request` configurations must be asked for, if as many fail or share a measurement as
    so far.
    """

    samples: int
    configurations: int
    measurements: int
    independent: int
    needed: int
    to_request: int


@dataclass(frozen=True)
class Effects:
    """The effects of parameters on the time.

    `first` are first-order effects, those of the most important parameter first; empty where there
    are too few samples. `pairs` are significant interactions, the largest first. `shares` is the
    share of the variance of log time that each parameter's first-order effects explain, the largest
    first. `undetermined` parameters have levels that the samples cannot separate from others, or
    that only one measurement has.
    """

    first: tuple[Effect, ...]
    pairs: tuple[Effect, ...]
    shares: dict[str, float]
    counts: SampleCounts
    undetermined: tuple[str, ...] = ()

    @property
    def is_enough(self) -> bool:
        """Whether there were enough samples."""
        return bool(self.first)

    @property
    def significant(self) -> tuple[Effect, ...]:
        """The significant first-order effects."""
        return tuple(effect for effect in self.first if effect.is_significant)


def effects_on_time(found: Trials) -> Effects:
    """Estimate the effects from the unbiased samples that worked."""
    ends = found.ends[found.ends["unbiased"] & found.ends["time_s"].notna()]
    if len(ends) > MOST_SAMPLES:
        ends = ends.sample(MOST_SAMPLES, random_state=0)
    ends = ends[ends.groupby("input")["input"].transform("size") > 1]
    made = factors(found.settings.loc[ends.index], found)
    clusters = independent_clusters(ends)
    design = _DesignMatrix.of(made, ends["input"].to_numpy(), clusters)
    needed = _needed(found)
    counts = SampleCounts(
        samples=len(ends),
        configurations=ends["configuration"].nunique(),
        measurements=ends["measurement"].nunique(),
        independent=len(np.unique(clusters)),
        needed=needed,
        to_request=_to_request(found, needed),
    )
    if not made or design.spare < _MIN_SPARE:
        return Effects((), (), {}, counts)
    logs = np.log(ends["time_s"].to_numpy(dtype=np.float64))
    outputs = demean(logs[:, None], design.groups)[:, 0]
    main = fit(design.columns, outputs, design.groups, design.clusters)
    shares = _shares(design, main, outputs)
    first = sorted(_first_order(design, main), key=lambda effect: -shares[effect.names[0]])
    known = {effect.names[0] for effect in first}
    undetermined = tuple(factor.name for factor in made if factor.name not in known)
    pairs = tuple(_interactions(design, main, outputs))
    return Effects(tuple(first), pairs, shares, counts, undetermined)


def _needed(found: Trials) -> int:
    """Return the samples that first-order effects need: twice their number, so that half of the
    samples determine the variance."""
    values = (found.settings[name].map(repr).nunique() for name in found.parameters)
    return 2 * sum(min(MOST_LEVELS, count) - 1 for count in values) + 2 * _MIN_SPARE


def _to_request(found: Trials, needed: int) -> int:
    """Return how many configurations yield so many independent ones, at the rate of the unbiased
    ones so far, or of all if none are unbiased."""
    ends = found.ends[found.ends["unbiased"]] if found.ends["unbiased"].any() else found.ends
    worked = ends[ends["time_s"].notna()]
    if worked.empty:
        return needed
    share = len(np.unique(independent_clusters(worked))) / ends["configuration"].nunique()
    return math.ceil(needed / share)


@dataclass(frozen=True)
class _DesignMatrix:
    """Levels as indicator columns, shape (rows, columns): `raw`, and `columns` without the means of
    the inputs.

    `owner` and `level`, shape (columns,), are each column's factor and level. `groups` and
    `clusters`, shape (rows,), number the inputs and the independent clusters.
    """

    factors: Sequence[TreatmentFactor]
    raw: Array
    columns: Array
    owner: Indices
    level: Indices
    groups: Indices
    clusters: Indices

    @classmethod
    def of(
        cls, made: Sequence[TreatmentFactor], inputs: Indices, clusters: Indices
    ) -> _DesignMatrix:
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
    def spare(self) -> int:
        """Degrees of freedom beyond the effects of all levels."""
        return degrees_of_freedom(self.clusters, self.groups) - len(self.owner)

    def effect(self, columns: Sequence[int], ratio: Estimate, p_value: float, count: int) -> Effect:
        """Name the levels of an effect by its columns."""
        owners = [self.factors[self.owner[column]] for column in columns]
        return Effect(
            tuple(factor.name for factor in owners),
            tuple(f.levels[self.level[c]] for f, c in zip(owners, columns, strict=True)),
            tuple(factor.levels[0] for factor in owners),
            ratio,
            p_value,
            count,
        )


def _ratios(found: Fit) -> list[Estimate]:
    """Return the ratio of times of each coefficient."""
    halves = np.minimum(found.half_widths(), _LARGEST)
    return [
        Estimate.from_log(log, half)
        for log, half in zip(found.coefficients.tolist(), halves.tolist(), strict=True)
    ]


def _first_order(design: _DesignMatrix, main: Fit) -> list[Effect]:
    """Return the first-order effects that the samples determine."""
    ratios, counts = _ratios(main), design.raw.sum(axis=0).astype(int).tolist()
    p_values = holm(main.p_values(), len(ratios)).tolist()
    return [
        design.effect([column], ratios[column], p_values[column], counts[column])
        for column in np.flatnonzero(main.estimable).tolist()
    ]


def _shares(design: _DesignMatrix, main: Fit, outputs: Array) -> dict[str, float]:
    """Return by how much the squared error would rise without each parameter, relative to the
    variance."""
    whole = float(outputs @ outputs)
    shares = {}
    for index, factor in enumerate(design.factors):
        own = np.flatnonzero(design.owner == index)
        effects = main.coefficients[own]
        rise = float(effects @ np.linalg.pinv(main.inverse[np.ix_(own, own)]) @ effects)
        shares[factor.name] = rise / whole if whole > 0 else 0.0
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


# ------------------------------------------------------------------------------ pairs


def _interactions(design: _DesignMatrix, main: Fit, outputs: Array) -> list[Effect]:
    """Estimate the most conspicuous interactions together; return the significant ones."""
    one, other, tests = _conspicuous(design, main)
    if not len(one):
        return []
    products = design.raw[:, one] * design.raw[:, other]
    columns = np.hstack([design.columns, demean(products, design.groups)])
    both = fit(columns, outputs, design.groups, design.clusters)
    rest = slice(design.columns.shape[1], None)
    ratios, counts = _ratios(both)[rest], products.sum(axis=0).astype(int).tolist()
    p_values = holm(both.p_values()[rest], tests).tolist()
    found = [
        design.effect([int(one[k]), int(other[k])], ratios[k], p_values[k], counts[k])
        for k in np.flatnonzero(both.estimable[rest]).tolist()
    ]
    significant = [effect for effect in found if effect.is_significant]
    return sorted(significant, key=lambda effect: -abs(math.log(effect.ratio.value)))


def _conspicuous(design: _DesignMatrix, main: Fit) -> tuple[Indices, Indices, int]:
    """Return the columns of the pairs with the largest standardized residuals, and the number of
    products of columns that were candidates."""
    raw, residuals = design.raw, main.residuals
    together = raw.T @ raw
    sums = raw.T @ (raw * residuals[:, None])
    variances = raw.T @ (raw * (residuals**2)[:, None])
    apart = np.triu(design.owner[:, None] != design.owner[None, :], 1)
    usable = apart & (together >= _MIN_TOGETHER)
    scores = np.where(usable, np.abs(sums) / np.sqrt(np.maximum(variances, 1e-300)), 0.0)
    best = np.zeros((len(design.factors), len(design.factors)))
    np.maximum.at(best, (design.owner[:, None], design.owner[None, :]), scores)
    spare = (design.spare - len(design.owner)) // 2  # half of the samples is for intervals
    one: list[int] = []
    other: list[int] = []
    for index in np.argsort(-best, axis=None)[:_MOST_PAIRS].tolist():
        row, column = divmod(index, len(design.factors))
        cells = np.argwhere(
            usable & (design.owner[:, None] == row) & (design.owner[None, :] == column)
        )
        if not best[row, column] or len(one) + len(cells) > spare:
            break
        one += cells[:, 0].tolist()
        other += cells[:, 1].tolist()
    return np.array(one, dtype=np.intp), np.array(other, dtype=np.intp), int(usable.sum())
