"""Compare the false alarms and the power of significance tests for `harness.compare`.

A family is a comparison of many inputs. For each input a database holds two occasions: the
search's samples of the default, and the finals. Either nothing changed, or everything became 2 % or
5 % slower. All tests are Student's t on the difference of the mean logarithms of the finals, with
Holm's procedure over the family. They differ in the variance that they use:

    welch       the samples
    effective   as many samples as are independent: lag-1 autocorrelation, bias-corrected
    batches     the means of four batches of samples
    own         the occasions of each input
    pooled      the occasions of all inputs
    moderated   the occasions, moderated as in harness.compare.statistics

Simulated noise: `normal`, `lognormal` and `correlated` (AR(1), 0.6) have no difference between
occasions; `drift` is a random walk; `offsets` differ by 1 % between occasions; `uneven` has offsets
and samples of different sizes for each input. A recording of one configuration that was timed
repeatedly (JSON with `repeats`, each with `times`) is split at random; each run is an occasion.

    python -m benchmarks.false_alarms RECORDING...

This prints tables and takes two minutes. The last line is one JSON object. For each test it has the
rate of families with a false alarm, with no threshold and with the default one, and the power. For
the test of `harness.compare` it also has the median upper limit without a change, and the rate of
families in which a missed slowdown was above its limit.
"""

from __future__ import annotations

import gzip
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr

from benchmarks.arguments import count, make_parser
from harness.compare.statistics import (
    LEVEL,
    THRESHOLD,
    Change,
    ChangeVerdict,
    Pair,
    judge,
    occasion_variance,
)
from harness.stats.multiple_tests import holm

Logs = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Logs]
"""(generator, inputs) -> logarithms of seconds, shape (inputs, sides, occasions, samples)."""

SAMPLES = 20
OCCASIONS = 2
SLOWER = (0.02, 0.05)
_IS_CANDIDATE = np.array([0.0, 1.0]).reshape(1, 2, 1, 1)


def _shape(inputs: int, samples: int = SAMPLES) -> tuple[int, ...]:
    return inputs, 2, OCCASIONS, samples


def normal(rng: np.random.Generator, inputs: int) -> Logs:
    """Draw independent samples."""
    return 0.005 * rng.standard_normal(_shape(inputs))


def lognormal(rng: np.random.Generator, inputs: int) -> Logs:
    """Draw independent samples with a long tail, as from disturbed launches."""
    return 0.002 * rng.lognormal(0, 1, _shape(inputs))


def correlated(rng: np.random.Generator, inputs: int) -> Logs:
    """Draw from a stationary autoregressive process."""
    noise = 0.005 * rng.standard_normal(_shape(inputs, SAMPLES + 30))
    for step in range(1, noise.shape[-1]):
        noise[..., step] += 0.6 * noise[..., step - 1]
    return noise[..., -SAMPLES:]


def drift(rng: np.random.Generator, inputs: int) -> Logs:
    """Draw a wandering clock with a different start on each occasion."""
    walk = np.cumsum(0.0007 * rng.standard_normal(_shape(inputs)), axis=-1)
    return walk + 0.004 * rng.standard_normal(_shape(inputs, 1)) + 0.4 * normal(rng, inputs)


def offsets(rng: np.random.Generator, inputs: int) -> Logs:
    """Draw occasions that differ far more than their samples."""
    return 0.01 * rng.standard_normal(_shape(inputs, 1)) + 0.4 * normal(rng, inputs)


def uneven(rng: np.random.Generator, inputs: int) -> Logs:
    """Draw offsets for inputs of very different noise."""
    size = rng.lognormal(-0.7, 0.8, (inputs, 1, 1, 1))
    return size * offsets(rng, inputs)


SIMULATED: Mapping[str, Draw] = {
    draw.__name__: draw for draw in (normal, lognormal, correlated, drift, offsets, uneven)
}


def recorded(path: Path) -> Draw:
    """Draw runs of a recording; the first two samples of a run count as warm-up."""
    with gzip.open(path) as file:
        runs = np.log([run["times"][2 : 2 + SAMPLES] for run in json.load(file)["repeats"]])

    def draw(rng: np.random.Generator, inputs: int) -> Logs:
        chosen = rng.permutation(len(runs))[: inputs * 2 * OCCASIONS]
        return runs[chosen].reshape(_shape(inputs))

    return draw


# ------------------------------------------------------------------------- tests

Test = Callable[[Logs, float], npt.NDArray[np.bool_]]
"""(family, threshold) -> which inputs have a significant difference."""


def _alarms(logs: Logs, threshold: float, variance: Logs, freedom: Logs) -> npt.NDArray[np.bool_]:
    """Test with the variance of an occasion's mean on each side, and its degrees of freedom."""
    means = logs[:, :, -1].mean(axis=-1)
    beyond = np.abs(means[:, 1] - means[:, 0]) - math.log1p(threshold)
    error = np.sqrt(variance.sum(axis=1))
    joint = variance.sum(axis=1) ** 2 / (variance**2 / freedom).sum(axis=1)
    p_values = np.minimum(1, 2 * stdtr(joint, -beyond / error))
    return holm(p_values) <= LEVEL


def welch(logs: Logs, threshold: float) -> npt.NDArray[np.bool_]:
    """Use the samples' own variance."""
    variance = logs[:, :, -1].var(axis=-1, ddof=1) / SAMPLES
    return _alarms(logs, threshold, variance, np.full_like(variance, SAMPLES - 1))


def effective(logs: Logs, threshold: float) -> npt.NDArray[np.bool_]:
    """Use the variance of an autoregressive process, with Kendall's bias correction."""
    parts = logs[:, :, -1] - logs[:, :, -1].mean(axis=-1, keepdims=True)
    found = (parts[..., 1:] * parts[..., :-1]).sum(axis=-1) / (parts**2).sum(axis=-1)
    rho = np.clip((SAMPLES * found + 1) / (SAMPLES - 4), 0, 0.9)
    independent = np.maximum(SAMPLES * (1 - rho) / (1 + rho), 2)
    return _alarms(logs, threshold, parts.var(axis=-1, ddof=1) / independent, independent - 1)


def batches(logs: Logs, threshold: float) -> npt.NDArray[np.bool_]:
    """Use the means of batches of five samples."""
    means = logs[:, :, -1].reshape(*logs.shape[:2], 4, -1).mean(axis=-1)
    variance = means.var(axis=-1, ddof=1) / 4
    return _alarms(logs, threshold, variance, np.full_like(variance, 3))


def own(logs: Logs, threshold: float) -> npt.NDArray[np.bool_]:
    """Use the variance of an input's occasions."""
    variance = logs.mean(axis=-1).var(axis=-1, ddof=1).mean(axis=1, keepdims=True)
    both = np.repeat(variance, 2, axis=1)
    return _alarms(logs, threshold, both, np.full_like(both, OCCASIONS - 1))


def pooled(logs: Logs, threshold: float) -> npt.NDArray[np.bool_]:
    """Use the variance of all occasions of the family."""
    variance = np.full(logs.shape[:2], logs.mean(axis=-1).var(axis=-1, ddof=1).mean())
    freedom = np.full_like(variance, (OCCASIONS - 1) * len(logs))
    return _alarms(logs, threshold, variance, freedom)


def changes(logs: Logs, threshold: float) -> list[Change]:
    """Judge a family as `harness.compare` does."""
    seconds, means = np.exp(logs[:, :, -1]).tolist(), logs.mean(axis=-1).tolist()
    pairs = [
        Pair(base, candidate, occasion_variance(groups))
        for (base, candidate), groups in zip(seconds, means, strict=True)
    ]
    return judge(pairs, LEVEL, threshold)


def moderated(logs: Logs, threshold: float) -> npt.NDArray[np.bool_]:
    """Use the test of `harness.compare`."""
    verdicts = [change.verdict for change in changes(logs, threshold)]
    return np.array([verdict is not ChangeVerdict.WITHIN_NOISE for verdict in verdicts])


TESTS: Mapping[str, Test] = {
    test.__name__: test for test in (welch, effective, batches, own, pooled, moderated)
}


# ------------------------------------------------------------------------ figures


def figures(draw: Draw, families: int, inputs: int, seed: int) -> dict[str, dict[str, float]]:
    """Compute the rate of families with a false alarm, and the power, of each test."""
    rng = np.random.default_rng(seed)
    sums = {name: np.zeros(2 + len(SLOWER)) for name in TESTS}
    for _ in range(families):
        logs = draw(rng, inputs)
        slower = [logs + math.log1p(change) * _IS_CANDIDATE for change in SLOWER]
        for name, test in TESTS.items():
            false = [test(logs, 0).any(), test(logs, THRESHOLD).any()]
            sums[name] += [*false, *(test(one, THRESHOLD).mean() for one in slower)]
    keys = ("false_no_threshold", "false", *(f"power_{change:.0%}" for change in SLOWER))
    return {name: dict(zip(keys, s / families, strict=True)) for name, s in sums.items()}


def limits(draw: Draw, families: int, inputs: int, seed: int) -> dict[str, float]:
    """Compute the median upper limit without a change, and the rate of limits that are too low.

    A limit is too low where a slowdown above it was not found; the rate counts families with one.
    """
    rng, tops = np.random.default_rng(seed), []
    above = dict.fromkeys(SLOWER, 0)
    for _ in range(families):
        logs = draw(rng, inputs)
        tops += [change.ratio.high for change in changes(logs, THRESHOLD)]
        for slower in SLOWER:
            found = changes(logs + math.log1p(slower) * _IS_CANDIDATE, THRESHOLD)
            missed = [c.ratio.high for c in found if c.verdict is ChangeVerdict.WITHIN_NOISE]
            above[slower] += min(missed, default=math.inf) < 1 + slower
    rates = {f"above_{slower:.0%}": count / families for slower, count in above.items()}
    return {"median": float(np.median(tops)), **rates}


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge all tests on all data; print tables and the JSON line."""
    parser = make_parser("false_alarms", __doc__)
    parser.add_argument(
        "recording", nargs="*", type=Path, metavar="RECORDING", help="a compressed JSON recording"
    )
    parser.add_argument(
        "--families", type=count, default=1000, metavar="N", help="families for each noise (1000)"
    )
    parser.add_argument(
        "--inputs", type=count, default=20, metavar="N", help="inputs in a family (20)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the noise (0)")
    args = parser.parse_args(arguments)
    data = {**SIMULATED, **{path.name.split(".")[0]: recorded(path) for path in args.recording}}
    found: dict[str, Any] = {"families": args.families, "inputs": args.inputs, "level": LEVEL}
    for name, draw in data.items():
        found[name] = figures(draw, args.families, args.inputs, args.seed)
        print(f"{name}\n{'':12}{'false, no threshold':>20}{'false':>9}", end="")
        print("".join(f"{f'power {change:.0%}':>11}" for change in SLOWER))
        for test, rates in found[name].items():
            widths = (20, 9, *(11 for _ in SLOWER))
            cells = (f"{v:>{w}.1%}" for v, w in zip(rates.values(), widths, strict=True))
            print(f"  {test:10}{''.join(cells)}", flush=True)
        found[name]["limits"] = limits(draw, args.families, args.inputs, args.seed)
        median, *above = found[name]["limits"].values()
        rates = ", ".join(f"{r:.1%} at {s:.0%}" for s, r in zip(SLOWER, above, strict=True))
        print(f"  upper limits: median {median:.3f}x; missed slowdown above: {rates}", flush=True)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
