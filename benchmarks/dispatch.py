"""Does choosing by input beat one configuration for all? Recordings of many inputs, held out.

Reads CSV files of two kinds, compressed or not:

- convolutions of MIOpen's find-db: a row a problem and solver, with `algo` and `time_ms`. One
dispatcher a file chooses the algorithm among those that apply; the cases are its directions and
types. Layers are held out whole: all directions, types and batch sizes;

- stencils with their work-group sizes: one dispatcher and one case a device. Kernels are held out.

The oracle is the best candidate of each input that applies. The baselines that a dispatcher must
beat, the best static candidate and the fastest on the nearest tuned input, learn each case by
itself, as do the published models. Everything is learnt without the inputs that it is judged on:

    python -m benchmarks.dispatch miopen_gfx900_56.csv.gz miopen_gfx1030_36.csv.gz

Slowdowns are times over that of the best candidate that applies: the geometric mean, and the 99th
percentile after the slash. `gain` is the best static candidate over the dispatcher, in brackets the
95 % interval, of which groups of inputs are the samples; `fit` the processor seconds to learn from
the inputs of a fold. The last line is one JSON object with the figures over all cases. 100,000
inputs take some minutes a core.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.dispatch_runs import OURS, STATIC, Done, Job, data_sets, folds_of, learners, run
from benchmarks.dispatch_tables import Result, figures, print_cases, print_verdict
from benchmarks.frame import JOBS, SEED, Figures, benchmark, in_processes, option
from benchmarks.shortlists import Tries, judged_lists, stacked
from harness.core.errors import UsageError
from harness.dispatch.verdict import ORACLE, Slowdowns

ALL = list(learners(()))
"""The learners, in the order of the tables."""


@benchmark(
    option("file", nargs="+", type=Path, metavar="FILE", what="a CSV file"),
    option(
        "--only",
        ALL,
        f"the learners to judge beside '{STATIC}', one of {', '.join(OURS)} among them",
        nargs="+",
        choices=ALL,
    ),
    SEED,
    JOBS,
)
def main(args: argparse.Namespace) -> Figures:
    """Judge all learners on held-out inputs."""
    names = [name for name in ALL if name in (STATIC, *args.only)]
    if not set(names) & set(OURS):
        raise UsageError(f"--only: name a dispatcher as well: {', '.join(OURS)}")
    found = [(path, index) for path in args.file for index in range(len(data_sets(path)))]
    jobs = [
        Job(path, index, fold, name, args.seed)
        for path, index in found
        for name in reversed(names)  # the slow ones first
        for fold in range(len(folds_of(path, index, args.seed)))
    ]
    done = dict(in_processes(run, jobs, args.jobs, lambda job: f"{job.learner} on {job.path.name}"))
    results = [_result(path, index, names, done, args.seed) for path, index in found]
    for result in results:
        print_cases(result)
        print_verdict(result)
    return figures(results)


def _result(
    path: Path, index: int, names: Sequence[str], done: Mapping[Job, Done], seed: int
) -> Result:
    """Put the folds of a data set together."""
    data = data_sets(path)[index]
    folds = folds_of(path, index, seed)
    by_name, tries = dict[str, Slowdowns](), dict[str, Tries]()
    fit_s, leaves = {}, {}
    for name in names:
        parts = [done[Job(path, index, fold, name, seed)] for fold in range(len(folds))]
        lists = stacked(folds, [part.lists for part in parts])
        rows, of_lists = judged_lists(name, data.matrix, lists)
        by_name |= {one.name: one for one in rows}
        tries |= of_lists
        fit_s[name] = float(np.mean([part.fit_s for part in parts]))
        if parts[0].leaves is not None:
            leaves[name] = float(np.mean([part.leaves for part in parts if part.leaves]))
    by_name[ORACLE] = Slowdowns.of(ORACLE, data.matrix, data.matrix.best)
    return Result(data, by_name, fit_s, leaves, tries)


if __name__ == "__main__":
    sys.exit(main())
