"""Simulate how often `tune` calls a winner faster: one of equal code, and one that is faster.

    python -m benchmarks.claim_power

Each input has a default and three finalists of equal code. Ten models draw the noise of launches in
the order in which they are made. Three tests judge:

    before      20 rounds of all four; the same rounds choose the winner and judge it
    rounds      other rounds judge, paired, as if they were independent
    occasions   other rounds judge, on six occasions: Student's t over the occasions' means (`tune`)

The table has the rate of claims in percent, where the finalists are equal to the default and where
they are 2, 5 and 10 % faster. Its standard error is at most 0.6, and 0.2 near 2.5. The last line is
one JSON object. It takes some seconds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from rich.console import Console
from scipy.special import stdtr

from benchmarks.arguments import count, make_parser
from harness.display.text import make_table
from harness.measure.occasions import split_rounds
from harness.stats.timing import NEGLIGIBLE

Logs = npt.NDArray[np.float64]
Schedule = Sequence[tuple[int, int]]
"""The configuration and the occasion of each launch, in order; configuration 0 is the default."""

Noise = Callable[[np.random.Generator, int, Schedule], Logs]
"""Draws the noise of each launch of so many inputs, shape (inputs, launches)."""

FASTER = (0.0, 0.02, 0.05, 0.1)
FINALISTS, ROUNDS, CHOOSING, OCCASIONS = 3, 20, 7, 6
LEVEL = 0.025

# ------------------------------------------------------------------------------------ noise


def _white(rng: np.random.Generator, inputs: int, plan: Schedule, size: float = 1.0) -> Logs:
    return size * rng.standard_normal((inputs, len(plan)))


def normal(rng: np.random.Generator, inputs: int, plan: Schedule) -> Logs:
    """Draw independent launches, 3 %."""
    return _white(rng, inputs, plan, 0.03)


def bimodal(rng: np.random.Generator, inputs: int, plan: Schedule) -> Logs:
    """Draw launches of which 3 in 10 take 15 % longer."""
    slow = rng.random((inputs, len(plan))) < 0.3
    return 0.15 * slow + _white(rng, inputs, plan, 0.01)


def random_walk(rng: np.random.Generator, inputs: int, plan: Schedule) -> Logs:
    """Draw a clock that wanders by 1 % a launch."""
    walk = np.cumsum(_white(rng, inputs, plan, 0.01), axis=1)
    return walk + _white(rng, inputs, plan, 0.01)


def heavy_tails(rng: np.random.Generator, inputs: int, plan: Schedule) -> Logs:
    """Draw from Student's t with two degrees of freedom."""
    return 0.02 * rng.standard_t(2, (inputs, len(plan)))


def drift(rng: np.random.Generator, inputs: int, plan: Schedule) -> Logs:
    """Draw a steady drift of some 30 % over all launches."""
    slope = rng.standard_normal((inputs, 1))
    return 0.3 * slope * np.linspace(0, 1, len(plan)) + _white(rng, inputs, plan, 0.02)


def bursts(rng: np.random.Generator, inputs: int, plan: Schedule) -> Logs:
    """Draw bursts of 8 launches on average that are 30 % slower."""
    noise, is_on = _white(rng, inputs, plan, 0.02), np.zeros(inputs, bool)
    for launch in range(len(plan)):
        drawn = rng.random(inputs)
        is_on = np.where(is_on, drawn > 1 / 8, drawn < 1 / 40)
        noise[:, launch] += 0.3 * is_on
    return noise


def load_offset(rng: np.random.Generator, inputs: int, plan: Schedule) -> Logs:
    """Draw an offset of 1 % for each load of a configuration."""
    loads = sorted(set(plan))
    offsets = 0.01 * rng.standard_normal((inputs, len(loads)))
    return offsets[:, [loads.index(one) for one in plan]] + _white(rng, inputs, plan, 0.01)


def coarse_ticks(rng: np.random.Generator, inputs: int, plan: Schedule) -> Logs:
    """Draw launches of 1 %, which `claims` rounds to ticks of 2 %."""
    return _white(rng, inputs, plan, 0.01)


def autocorrelated(rng: np.random.Generator, inputs: int, plan: Schedule) -> Logs:
    """Draw an autoregressive process of which 0.9 remains from launch to launch."""
    noise = _white(rng, inputs, plan, 0.02)
    for launch in range(1, len(plan)):
        noise[:, launch] += 0.9 * noise[:, launch - 1]
    return noise + _white(rng, inputs, plan, 0.01)


def unequal(rng: np.random.Generator, inputs: int, plan: Schedule) -> Logs:
    """Draw noise of another size for each input, and six times as large for finalists."""
    sizes = np.where([config == 0 for config, _ in plan], 0.005, 0.03)
    return rng.lognormal(0, 0.8, (inputs, 1)) * sizes * _white(rng, inputs, plan)


MODELS: Mapping[str, Noise] = {
    model.__name__: model
    for model in (
        normal, bimodal, random_walk, heavy_tails, drift,
        bursts, load_offset, coarse_ticks, autocorrelated, unequal,
    )
}  # fmt: skip

# ------------------------------------------------------------------------------------ tests


def launched(
    model: str,
    rng: np.random.Generator,
    inputs: int,
    configs: int,
    rounds: Sequence[int],
    fast: float,
) -> list[Logs]:
    """Launch configurations interleaved, so many rounds on each occasion.

    Returns the logarithms of each occasion, shape (inputs, configurations, rounds).
    """
    orders = [rng.permutation(configs) for _ in range(sum(rounds))]
    occasions = np.repeat(np.arange(len(rounds)), rounds)
    plan = [(int(c), int(o)) for order, o in zip(orders, occasions, strict=True) for c in order]
    logs = MODELS[model](rng, inputs, plan) - np.log1p(fast) * np.array([c > 0 for c, _ in plan])
    if model == coarse_ticks.__name__:
        ticks = rng.uniform(50, 51, (inputs, 1))
        logs = np.log(np.maximum(1, np.round(np.exp(logs) * ticks)))
    by_round = logs.reshape(inputs, len(orders), configs)
    by_round = np.take_along_axis(by_round, np.argsort(orders, axis=1)[None], axis=2)
    ends = np.cumsum(rounds)[:-1]
    return [part.transpose(0, 2, 1) for part in np.split(by_round, ends, axis=1)]


def _claims(ratios: Logs) -> npt.NDArray[np.bool_]:
    """Judge logarithms of default over winner, shape (inputs, observations), by Student's t."""
    count_, mean = ratios.shape[1], ratios.mean(axis=1)
    error = ratios.std(axis=1, ddof=1) / np.sqrt(count_)
    with np.errstate(divide="ignore", invalid="ignore"):
        p_values = np.where(error > 0, stdtr(count_ - 1, -mean / error), mean <= 0)
    claimed: npt.NDArray[np.bool_] = (p_values <= LEVEL) & (mean > NEGLIGIBLE)
    return claimed


def before(model: str, rng: np.random.Generator, inputs: int, fast: float) -> float:
    """Choose and judge by the same rounds."""
    (logs,) = launched(model, rng, inputs, 1 + FINALISTS, [ROUNDS], fast)
    winner = 1 + logs[:, 1:].mean(axis=2).argmin(axis=1)
    return float(_claims(logs[:, 0] - logs[np.arange(inputs), winner]).mean())


def _judging(model: str, rng: np.random.Generator, inputs: int, fast: float) -> list[Logs]:
    """Judge whichever finalist other rounds have chosen: all of them are equal code."""
    sizes = [block.rounds for block in split_rounds(ROUNDS, [0] * OCCASIONS)]
    parts = launched(model, rng, inputs, 2, sizes, fast)
    return [part[:, 0] - part[:, 1] for part in parts]


def rounds(model: str, rng: np.random.Generator, inputs: int, fast: float) -> float:
    """Take each round for an observation."""
    return float(_claims(np.hstack(_judging(model, rng, inputs, fast))).mean())


def occasions(model: str, rng: np.random.Generator, inputs: int, fast: float) -> float:
    """Take each occasion's mean for an observation, as `tune` does."""
    means = [part.mean(axis=1) for part in _judging(model, rng, inputs, fast)]
    return float(_claims(np.stack(means, axis=1)).mean())


TESTS = {test.__name__: test for test in (before, rounds, occasions)}

# ------------------------------------------------------------------------------- the command


def rates(inputs: int, seed: int) -> dict[str, dict[str, list[float]]]:
    """Return the rate of claims by model and test, one for each of FASTER."""
    rng = np.random.default_rng(seed)
    return {
        model: {
            name: [test(model, rng, inputs, fast) for fast in FASTER]
            for name, test in TESTS.items()
        }
        for model in MODELS
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = make_parser("claim_power", __doc__)
    parser.add_argument("--inputs", type=count, default=8000, metavar="N", help="of each (8000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the noise (0)")
    args = parser.parse_args(arguments)
    found = rates(args.inputs, args.seed)
    head = ("noise", *(f"{test}, {fast:.0%}" for fast in FASTER for test in TESTS))
    rows = [
        (
            model,
            *(f"{100 * of_test[n]:.1f}" for n in range(len(FASTER)) for of_test in tests.values()),
        )
        for model, tests in found.items()
    ]
    Console(width=200, highlight=False).print(make_table(head, rows))
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
