"""A designed experiment: the samples that determine the effect of each value best."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy  # its parts load when they are first used

from harness.core.records import Config
from harness.search.techniques.self_contained import SelfContained
from harness.search.techniques.uniform_random import REFUSALS
from harness.space import PointArray, Space

Array = npt.NDArray[np.float64]

_MOST_LEVELS = 8  # of a parameter; neighbouring values share a level
_DRAWN = 64  # candidates besides those of the two-level design
_UNKNOWN = 1e-6  # information about each effect before there are samples
_TIE = 1e-9


class Designed(SelfContained):
    """Proposes the legal configurations that determine the effects of all levels best.

    The next configuration is the one that a linear model of all levels knows least about: it
    raises the determinant of the information matrix most (Dykstra, "The Augmentation of
    Experimental Data to Maximize |X'X|", Technometrics 1971). Candidates are uniform draws and a
    two-level design of Plackett and Burman (1946): a Hadamard matrix with its mirror image, which
    separates first-order effects from pairwise ones (Box and Wilson, 1951). Each parameter's two
    values are drawn at random, and each row is mapped to a legal configuration near it. Where all
    parameters have two values and everything is legal, the two-level design is the optimum, and
    comes first.

    A failure counts as known. Its time stays missing, and a design that made up for it would ask
    for little else. Refusals (REFUSALS) do not count against the test limit.
    """

    free_outcomes = REFUSALS

    def __init__(self) -> None:
        super().__init__()
        self._design: _OptimalDesign | None = None

    @property
    def _known(self) -> _OptimalDesign:
        if self._design is None:
            self._design = _OptimalDesign(self.manipulator.space, self.manipulator.rng)
        return self._design

    def on_result(self, result: Any) -> None:
        """Note a result, whichever technique asked for it."""
        self._known.add(Config(result.configuration.data))

    def desired_configuration(self) -> Any:
        """Return the next sample; None when all are drawn."""
        space: Space = self.manipulator.space
        pending = [Config(request.configuration.data) for request in self.driver.pending]
        return self._known.propose(space, self.driver.taken, pending)


class _OptimalDesign:
    """The information matrix of the samples so far, and the rows of the two-level design."""

    def __init__(self, space: Space, rng: Any) -> None:
        self._space, self._rng = space, rng
        self._levels = [min(_MOST_LEVELS, len(p.values)) for p in space.parameters]
        width = 1 + sum(levels - 1 for levels in self._levels)
        self._information = _UNKNOWN * np.eye(width)
        rows = (space.canonical(Config(dict(row))) for row in self._two_level())
        self._rows = dict.fromkeys(space.nearest_legal(row, rng) for row in rows)

    def add(self, config: Config) -> None:
        """Add a sample to the information."""
        self._information += _products(self._coded([config]))

    def propose(self, space: Space, taken: set[Config], pending: list[Config]) -> Any:
        """Return the candidate that adds most information; None where there is none."""
        drawn = space.sample(self._rng, _DRAWN, taken)
        planned = [config for config in self._rows if config not in taken]
        candidates = [*planned, *drawn]
        if not candidates:
            return None
        coded = self._coded(candidates)
        inverse = np.linalg.inv(self._information + _products(self._coded(pending)))
        unknown = ((coded @ inverse) * coded).sum(axis=1)
        # Among equals the first: the planned rows are balanced.
        first = int(np.argmax(unknown >= unknown.max() * (1 - _TIE)))
        return dict(candidates[first])

    def _two_level(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of a folded-over two-level design, over two values of each parameter."""
        varying = [p for p in self._space.parameters if len(p.values) > 1]
        order = (
            1 << len(varying).bit_length()
        )  # more than parameters, since the first column is constant
        columns = scipy.linalg.hadamard(order)[:, self._rng.sample(range(1, order), len(varying))]
        pairs = [self._rng.sample(range(len(p.values)), 2) for p in varying]
        for row in np.vstack([columns, -columns]).tolist():
            chosen = {
                p.name: p.values[pair[sign > 0]]
                for p, pair, sign in zip(varying, pairs, row, strict=True)
            }
            yield {**self._space.default, **chosen}

    def _coded(self, configs: list[Config]) -> Array:
        """Encode levels as orthonormal contrasts, so that all levels have equal weight; shape
        (configs, effects)."""
        positions = self._space.encode_all(configs)
        columns = [np.ones((len(configs), 1))]
        columns += [
            _contrasts(levels)[_level_of(positions[:, axis], levels, len(p.values))]
            for axis, (p, levels) in enumerate(
                zip(self._space.parameters, self._levels, strict=True)
            )
        ]
        return np.hstack(columns)


def _level_of(positions: PointArray, levels: int, values: int) -> npt.NDArray[np.intp]:
    """Return the level of each position; neighbouring values share a level."""
    found: npt.NDArray[np.intp] = (positions.astype(np.int64) * levels // values).astype(np.intp)
    return found


def _contrasts(levels: int) -> Array:
    """Return orthogonal columns that sum to 0, with rows of equal length; shape (levels,
    levels - 1)."""
    found: Array = scipy.linalg.helmert(levels).T * np.sqrt(levels)
    return found


def _products(coded: Array) -> Array:
    found: Array = coded.T @ coded
    return found
