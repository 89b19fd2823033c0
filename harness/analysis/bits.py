"""Classes of configurations whose outputs are equal bit for bit, and what staying in one costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Codes
from harness.core.observations import OUTPUT_BITS, VARYING_BITS
from harness.core.records import Input
from harness.results.measured import MeasuredConfigs, measured_by_input
from harness.results.view import Results


@dataclass(frozen=True)
class _InputBits:
    """The classes of equal bits on one input: of `configs` configurations, those that are `varying`
    differ from run to run and are in none. `in_default` counts the default's class, and `slowdown`
    is the time of its fastest over that of the fastest of all; None where the default's bits are
    not known or vary."""

    problem: Input
    configs: int
    varying: int
    classes: int
    in_default: int | None
    slowdown: float | None


@dataclass(frozen=True)
class EqualBits:
    """The classes of each input; configurations with equal values of the parameters `split_by` are
    in one class. `slowdown` is the geometric mean over the inputs; None where none is known."""

    inputs: tuple[_InputBits, ...]
    split_by: tuple[str, ...]

    @property
    def slowdown(self) -> float | None:
        """The geometric mean of what staying in the default's class costs."""
        slowdowns = [of_input.slowdown for of_input in self.inputs if of_input.slowdown]
        return float(np.exp(np.mean(np.log(slowdowns)))) if slowdowns else None


def equal_bits(results: Results) -> EqualBits | None:
    """Find the classes of equal bits, by the times of the search; None where no bits are known."""
    rows = results.searched
    bits = rows.columns.observed.get(OUTPUT_BITS)
    if bits is None:
        return None
    with_bits = rows.where(np.isfinite(rows.of(bits)) & rows.of(rows.columns.works))
    measured = measured_by_input(with_bits)
    if not measured:
        return None
    inputs = [_of_input(results, problem, row) for problem, row in measured.items()]
    last = with_bits.take(np.concatenate([row.rows.selected for row in measured.values()]))
    steady = last.where(last.of(bits) != VARYING_BITS)
    codes = steady.of(steady.columns.input_codes)
    settings = steady.columns.configs.settings(steady.of(steady.columns.config_codes))
    values = {name: of_rows for name, (_, of_rows) in settings.items()}
    split_by = _split_by(codes, _joined(codes, steady.of(bits)), values)
    return EqualBits(tuple(inputs), tuple(split_by))


def _of_input(results: Results, problem: Input, measured: MeasuredConfigs) -> _InputBits:
    """Count the classes of an input, of whose configurations these have bits."""
    bits = measured.rows.of(measured.columns.observed[OUTPUT_BITS])
    varying = bits == VARYING_BITS
    default = measured.get(results.default)
    in_default = None
    slowdown = None
    if default is not None and default.observed[OUTPUT_BITS] != VARYING_BITS:
        time_s = measured.rows.of(measured.columns.time_s)
        same = bits == default.observed[OUTPUT_BITS]
        in_default = int(same.sum())
        slowdown = float(time_s[same].min() / time_s.min())
    classes = len(np.unique(bits[~varying]))
    return _InputBits(problem, len(bits), int(varying.sum()), classes, in_default, slowdown)


def _split_by(inputs: Codes, classes: Codes, values: Mapping[str, Codes]) -> list[str]:
    """Return parameters that determine the class of each row: first those that agree best with the
    classes, by the adjusted Rand index (Hubert and Arabie, 1985); none that is not needed."""
    from sklearn.metrics import adjusted_rand_score  # here: it takes a second to load

    cells = inputs
    chosen: list[str] = []
    while not _determines(cells, classes) and len(chosen) < len(values):
        joined = {n: _joined(cells, codes) for n, codes in values.items() if n not in chosen}
        best = max(joined, key=lambda name: adjusted_rand_score(classes, joined[name]))
        chosen.append(best)
        cells = joined[best]
    for name in chosen[:-1]:
        rest = [values[other] for other in chosen if other != name]
        if _determines(_joined(inputs, *rest), classes):
            chosen.remove(name)
    return chosen


def _joined(*columns: Codes) -> Codes:
    """Return codes that are equal where all columns are."""
    _, codes = np.unique(np.stack(columns), axis=1, return_inverse=True)
    return codes.reshape(-1).astype(np.int32)


def _determines(cells: Codes, classes: Codes) -> bool:
    return len(np.unique(cells)) == len(np.unique(_joined(cells, classes)))
