"""Measure how repeatable times and answers are between runs.

It reads two or more complete runs of one space on one device, for example:

    for run in 1 2 3; do python -m harness.tune spaces/mvmul.yaml --database run$run.db; done
    python -m benchmarks.repeatability run1.db run2.db run3.db

For each pair of runs it takes the configurations that both measured interleaved on an input
(harness.dispatch.candidates), and finds the regret of their interleaved times, and of those in the
search: how much slower the best of one run is in the other run than the other run's best, geometric
mean over inputs.

The table has the mean over pairs, with minimum and maximum. A second one has how often the answers
of a pair of runs agree:

- single: the configuration to use on every input;
- winners: the configuration to use on an input, over inputs;
- tree: what the tree chooses on an input, over inputs.

It takes seconds. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Hashable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from benchmarks.frame import Figures, benchmark, option, show
from harness.core.errors import UsageError
from harness.core.records import Config, Input, Measurement
from harness.dispatch.study import QUICK, TREE, Study
from harness.report.findings import Findings
from harness.results.view import Results, read_results, the_one
from harness.stats import Estimate
from harness.stats.timing import mean_log

Logs = npt.NDArray[np.float64]
"""The mean log times on one input: two runs (rows) by the same configurations (columns)."""

Answers = dict[str, dict[Hashable, Config | None]]
"""The configurations to use, by the kind of answer, and by input where there is one for each."""

STAGES = ("one after another", "in turn")


def agreements(runs: Sequence[Results]) -> dict[str, float]:
    """Return the share of pairs of runs that agree on each kind of answer."""
    answers = [_answers(run) for run in runs]
    pairs = list(itertools.combinations(answers, 2))
    return {
        name: float(np.mean([same for pair in pairs for same in _agreeing(*pair, name)]))
        for name in answers[0]
    }


def _agreeing(one: Answers, other: Answers, name: str) -> Iterator[bool]:
    """Yield whether two runs have the same answer, for each that both have."""
    for key in one[name].keys() & other[name].keys():
        yield one[name][key] == other[name][key]


def _answers(run: Results) -> Answers:
    """Return the answers of a run by their kind, and by input where there is one for each."""
    findings = Findings(run)
    single, matrix = findings.single, findings.matrix
    chosen = Study.of(matrix, QUICK).learnt(TREE).indices(matrix.features, matrix.applies)
    inputs = matrix.features.itertuples(index=False, name=None)
    return {
        "single": {"all": single.config if single else None},
        "winners": {r.problem: r.recommended.config for r in findings.reports if r.recommended},
        "tree": {i: matrix.candidates[one] for i, one in zip(inputs, chosen.tolist(), strict=True)},
    }


def figures(runs: Sequence[Results]) -> dict[str, list[float]]:
    """Compute the regret of both stages, with one number for each pair of runs.

    Pairs without common candidates are left out. Raises UsageError if the runs differ in space or
    device, or no pair has any.
    """
    if len(runs) < 2:
        raise UsageError("name the databases of two runs or more")
    if len({(run.campaign.key.program_sha256, run.campaign.key.fingerprint) for run in runs}) > 1:
        raise UsageError("the databases have different programs or environments; name runs of one")
    found = {stage: list[float]() for stage in STAGES}
    for one, other in itertools.combinations(runs, 2):
        shared = list(_shared(one, other))
        if not shared:
            continue
        for stage, logs in zip(STAGES, zip(*shared, strict=True), strict=True):
            found[stage].append(_regret(logs))
    if not found[STAGES[0]]:
        raise UsageError(
            "no two databases have interleaved candidates in common; tune at least 2 inputs, "
            "without --no-cross"
        )
    return found


def _shared(one: Results, other: Results) -> Iterator[tuple[Logs, Logs]]:
    """Yield the search's and the interleaved times of each input that both runs have."""
    for problem in one.candidates.keys() & other.candidates.keys():
        known = [_by_config(run, problem) for run in (one, other)]
        configs = [
            config
            for config in known[0][1]
            if all(config in there and there[config].timing for pair in known for there in pair)
        ]
        if len(configs) > 1:
            searched, interleaved = (
                np.array([[_mean_log(pair[stage][config]) for config in configs] for pair in known])
                for stage in (0, 1)
            )
            yield searched, interleaved


def _by_config(run: Results, problem: Input) -> tuple[Mapping[Config, Measurement], ...]:
    return run.measured.get(problem, {}), {m.config: m for m in run.candidates[problem][-1]}


def _mean_log(measurement: Measurement) -> float:
    assert measurement.timing is not None
    return mean_log(measurement.timing.samples_s)


def _regret(inputs: Sequence[Logs]) -> float:
    lost = [
        again[before.argmin()] - again.min()
        for logs in inputs
        for before, again in (logs, logs[::-1])
    ]
    return math.exp(math.fsum(lost) / len(lost)) - 1


@benchmark(option("databases", nargs="+", metavar="DATABASE", what="the results of one run"))
def main(args: argparse.Namespace) -> Figures:
    """Compare the runs."""
    runs = [the_one(read_results([url])) for url in args.databases]
    found, agreement = figures(runs), agreements(runs)
    rows = [
        (stage, Estimate(float(np.mean(pairs)), min(pairs), max(pairs)))
        for stage, pairs in found.items()
    ]
    show(("times taken", "regret"), rows)
    show(("answers", "agree"), [(name, f"{one:.1%}") for name, one in agreement.items()])
    return {**found, "agreement": agreement}


if __name__ == "__main__":
    sys.exit(main())
