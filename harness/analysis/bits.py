"""Classes of configurations whose outputs are equal bit for bit, and what staying in one costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
        known = [of_input.slowdown for of_input in self.inputs if of_input.slowdown]
        return float(np.exp(np.mean(np.log(known)))) if known else None


def equal_bits(results: Results) -> EqualBits | None:
    """Find the classes of equal bits, by the times of the search; None where no bits are known."""
    rows = results.searched
    bits = rows.columns.observed.get(OUTPUT_BITS)
    if bits is None:
        return None
    known = rows.where(np.isfinite(rows.of(bits)) & rows.of(rows.columns.works))
    by_input = measured_by_input(known)
    if not by_input:
        return None
    inputs = tuple(_of_input(results, problem, own) for problem, own in by_input.items())
    last = known.take(np.concatenate([own.rows.selected for own in by_input.values()]))
    steady = last.where(last.of(bits) != VARYING_BITS)
    codes = steady.of(steady.columns.input_codes)
    settings = steady.columns.configs.settings(steady.of(steady.columns.config_codes))
    values = {name: of_rows for name, (_, of_rows) in settings.items()}
    return EqualBits(inputs, tuple(_split_by(codes, _joined(codes, steady.of(bits)), values)))


def _of_input(results: Results, problem: Input, own: MeasuredConfigs) -> _InputBits:
    bits, time_s = (
        own.rows.of(column) for column in (own.columns.observed[OUTPUT_BITS], own.columns.time_s)
    )
    default = own.get(results.default)
    of_default = default.observed[OUTPUT_BITS] if default else VARYING_BITS
    same, is_known = bits == of_default, of_default != VARYING_BITS
    return _InputBits(
        problem,
        configs=len(bits),
        varying=int((bits == VARYING_BITS).sum()),
        classes=len(np.unique(bits[bits != VARYING_BITS])),
        in_default=int(same.sum()) if is_known else None,
        slowdown=float(time_s[same].min() / time_s.min()) if is_known else None,
    )


def _split_by(inputs: Codes, classes: Codes, values: Mapping[str, Codes]) -> Iterator[str]:
    """Yield parameters that determine the class of each row: first those that agree best with the
    classes, by the adjusted Rand index (Hubert and Arabie, 1985); none that is not needed."""
    from sklearn.metrics import adjusted_rand_score  # here: it takes a second to load

    cells, chosen = inputs, list[str]()
    while not _determines(cells, classes) and len(chosen) < len(values):
        joined = {n: _joined(cells, codes) for n, codes in values.items() if n not in chosen}
        best = max(joined, key=lambda name: adjusted_rand_score(classes, joined[name]))
        chosen.append(best)
        cells = joined[best]
    for name in chosen[:-1]:
        rest = [values[other] for other in chosen if other != name]
        if _determines(_joined(inputs, *rest), classes):
            chosen.remove(name)
    return iter(chosen)


def _joined(*columns: Codes) -> Codes:
    """Return codes that are equal where all columns are."""
    _, codes = np.unique(np.stack(columns), axis=1, return_inverse=True)
    return codes.reshape(-1).astype(np.int32)


def _determines(cells: Codes, classes: Codes) -> bool:
    return len(np.unique(cells)) == len(np.unique(_joined(cells, classes)))
