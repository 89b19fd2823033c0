"""A designed experiment: samples that tell most of what each value of each parameter does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import hadamard, helmert

from harness.core.records import Config
from harness.search.techniques.self_contained import SelfContained
from harness.search.techniques.uniform_random import REFUSALS
from harness.space import Places, Space

Array = npt.NDArray[np.float64]

_MOST_LEVELS = 8  # of a parameter; places beyond are taken together
_DRAWN = 64  # candidates beside those of the two-level design
_UNKNOWN = 1e-6  # information about each effect before there are samples
_TIE = 1e-9


class Designed(SelfContained):
    """Legal configurations that make the effects of all levels known best, until there are no more.

    The next one is that of which a linear model of all levels, fitted to those so far, knows the
    least: it raises the determinant of the information most (Dykstra, "The Augmentation of
    Experimental Data to Maximize |X'X|", Technometrics 1971). Candidates are a two-level design of
    Plackett and Burman (1946) from a Hadamard matrix with its mirror image, which frees first-order
    effects of pairwise ones (Box and Wilson, 1951), with two values of each parameter drawn by
    lot, each row mapped to a legal configuration near it; and uniform draws. Where all parameters
    have two values and all is legal, the two-level design is the optimum, and comes first.

    What failed counts as known: its times are missing for good, and a design that made up for
    them would ask for little else. Refusals (REFUSALS) do not count against the test limit.
    """

    free_outcomes = REFUSALS

    def __init__(self) -> None:
        super().__init__()
        self._design: _Design | None = None

    @property
    def _known(self) -> _Design:
        if self._design is None:
            self._design = _Design(self.manipulator.space, self.manipulator.rng)
        return self._design

    def on_result(self, result: Any) -> None:
        """Count a result, whoever asked for it."""
        self._known.add(Config(result.configuration.data))

    def desired_configuration(self) -> Any:
        """The next sample; None when all are drawn."""
        space: Space = self.manipulator.space
        pending = [Config(asked.configuration.data) for asked in self.driver.pending]
        return self._known.propose(space, self.driver.taken, pending)


class _Design:
    """The information of the samples so far, and what is left of the two-level design."""

    def __init__(self, space: Space, rng: Any) -> None:
        self._space, self._rng = space, rng
        self._levels = [min(_MOST_LEVELS, len(p.values)) for p in space.parameters]
        width = 1 + sum(levels - 1 for levels in self._levels)
        self._information = _UNKNOWN * np.eye(width)
        rows = (space.canonical(Config(dict(row))) for row in self._two_level())
        self._rows = dict.fromkeys(space.nearest_legal(row, rng) for row in rows)

    def add(self, config: Config) -> None:
        """A sample was taken."""
        self._information += _products(self._coded([config]))

    def propose(self, space: Space, taken: set[Config], pending: list[Config]) -> Any:
        """The most telling of the candidates; None where there is none."""
        drawn = space.sample(self._rng, _DRAWN, taken)
        planned = [config for config in self._rows if config not in taken]
        candidates = [*planned, *drawn]
        if not candidates:
            return None
        coded = self._coded(candidates)
        inverse = np.linalg.inv(self._information + _products(self._coded(pending)))
        unknown = ((coded @ inverse) * coded).sum(axis=1)
        # Of those that tell as much the first: the planned ones are balanced.
        first = int(np.argmax(unknown >= unknown.max() * (1 - _TIE)))
        return dict(candidates[first])

    def _two_level(self) -> Iterator[dict[str, Any]]:
        """The rows of a folded-over two-level design, over two values of each parameter."""
        varying = [p for p in self._space.parameters if len(p.values) > 1]
        order = 1 << len(varying).bit_length()  # above their number: the first column is constant
        columns = hadamard(order)[:, self._rng.sample(range(1, order), len(varying))]
        pairs = [self._rng.sample(range(len(p.values)), 2) for p in varying]
        for row in np.vstack([columns, -columns]).tolist():
            chosen = {
                p.name: p.values[pair[sign > 0]]
                for p, pair, sign in zip(varying, pairs, row, strict=True)
            }
            yield {**self._space.default, **chosen}

    def _coded(self, configs: list[Config]) -> Array:
        """Levels as orthonormal contrasts, so that every level weighs alike; shape (configs,
        effects)."""
        places = self._space.places_of(configs)
        columns = [np.ones((len(configs), 1))]
        columns += [
            _contrasts(levels)[_level_of(places[:, axis], levels, len(p.values))]
            for axis, (p, levels) in enumerate(
                zip(self._space.parameters, self._levels, strict=True)
            )
        ]
        return np.hstack(columns)


def _level_of(places: Places, levels: int, values: int) -> npt.NDArray[np.intp]:
    """Which of the levels each place is of: neighbouring values are taken together."""
    found: npt.NDArray[np.intp] = (places.astype(np.int64) * levels // values).astype(np.intp)
    return found


def _contrasts(levels: int) -> Array:
    """Orthogonal columns that sum to nothing, with rows of equal length; shape (levels,
    levels - 1)."""
    found: Array = helmert(levels).T * np.sqrt(levels)
    return found


def _products(coded: Array) -> Array:
    found: Array = coded.T @ coded
    return found
