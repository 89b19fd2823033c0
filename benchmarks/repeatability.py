"""Do the same configurations come out alike when they are measured again? Of times that a search
took one after another, and of times in turn.

Reads runs of one space on one device, each with inputs that were tuned to the end, for instance

    for run in 1 2 3; do python -m harness.tune spaces/mvmul.yaml --database run$run.db; done
    python -m benchmarks.repeatability run1.db run2.db run3.db

Of each pair of runs the configurations that both measured in turn on an input
(harness.dispatch.candidates) are compared, by their times in turn and by the search's times of the
same configurations:

- scatter: the standard deviation of a configuration's log time beside the mean of its input;
- regret: how much slower, measured again, the best of one run is than the best of the other,
  geometric mean over inputs.

The mean over pairs, and in brackets the least and the largest. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from rich import box
from rich.console import Console
from rich.table import Table

from harness.core.errors import HarnessError, UsageError
from harness.core.records import Config, Input, Measurement
from harness.results.view import Results, read_results, the_one
from harness.stats.timing import mean_log

Times = Mapping[Input, Mapping[Config, Measurement]]
Logs = npt.NDArray[np.float64]
"""Of two runs (rows) the mean log times of the same configurations (columns) on one input."""

STAGES = ("one after another", "in turn")


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.repeatability")
    parser.add_argument("databases", nargs="+", metavar="DATABASE", help="results of one run")
    args = parser.parse_args(argv)
    try:
        runs = [the_one(read_results([place])) for place in args.databases]
        found = figures(runs)
    except HarnessError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    Console().print(told(found))
    rounded = {
        stage: {name: [round(pair, 4) for pair in pairs] for name, pairs in of_stage.items()}
        for stage, of_stage in found.items()
    }
    print(json.dumps(rounded))
    return 0


def figures(runs: Sequence[Results]) -> dict[str, dict[str, list[float]]]:
    """Scatter and regret of both stages, a number a pair of runs.

    Raises UsageError where the runs are not of one space and device, or share too little.
    """
    if len(runs) < 2:
        raise UsageError("give the databases of two runs or more, to compare them")
    if len({(run.campaign.key.program_sha256, run.campaign.key.fingerprint) for run in runs}) > 1:
        raise UsageError("the databases are of several programs or environments; give those of one")
    found = {stage: {"scatter": list[float](), "regret": list[float]()} for stage in STAGES}
    for one, other in itertools.combinations(runs, 2):
        shared = list(_shared(one, other))
        if not shared:
            raise UsageError(
                f"{', '.join((*one.places, *other.places))} share no candidates that were measured "
                "in turn; tune at least 4 inputs, without --no-cross"
            )
        for stage, logs in zip(STAGES, zip(*shared, strict=True), strict=True):
            found[stage]["scatter"].append(_scatter(logs))
            found[stage]["regret"].append(_regret(logs))
    return found


def _shared(one: Results, other: Results) -> Iterator[tuple[Logs, Logs]]:
    """Of each input what both searched, and measured in turn, as either had it."""
    for given in one.candidates.keys() & other.candidates.keys():
        known = [_by_config(run, given) for run in (one, other)]
        configs = [
            config
            for config in known[0][1]
            if all(config in there and there[config].timing for pair in known for there in pair)
        ]
        if len(configs) > 1:
            searched, in_turn = (
                np.array([[_mean_log(pair[stage][config]) for config in configs] for pair in known])
                for stage in (0, 1)
            )
            yield searched, in_turn


def _by_config(run: Results, given: Input) -> tuple[Mapping[Config, Measurement], ...]:
    return run.measured.get(given, {}), {m.config: m for m in run.candidates[given][-1]}


def _mean_log(measurement: Measurement) -> float:
    assert measurement.timing is not None
    return mean_log(measurement.timing.samples_s)


def _scatter(inputs: Sequence[Logs]) -> float:
    """Half of the variance of a difference is that of each run; a mean takes one degree away."""
    squares = [
        np.square(np.diff(logs, axis=0) - np.diff(logs, axis=0).mean()).sum() for logs in inputs
    ]
    freedom = sum(logs.shape[1] - 1 for logs in inputs)
    return math.sqrt(math.fsum(squares) / freedom / 2)


def _regret(inputs: Sequence[Logs]) -> float:
    lost = [
        again[before.argmin()] - again.min()
        for logs in inputs
        for before, again in (logs, logs[::-1])
    ]
    return math.exp(math.fsum(lost) / len(lost)) - 1


def told(found: Mapping[str, Mapping[str, Sequence[float]]]) -> Table:
    """The figures for a console."""
    table = Table(box=box.HORIZONTALS, show_edge=False)
    table.add_column("times taken")
    for name in ("scatter", "regret"):
        table.add_column(name, justify="right")
    for stage, of_stage in found.items():
        cells = [
            f"{np.mean(pairs):.1%} [{min(pairs):.1%}, {max(pairs):.1%}]"
            for pairs in of_stage.values()
        ]
        table.add_row(stage, *cells)
    return table


if __name__ == "__main__":
    sys.exit(main())
