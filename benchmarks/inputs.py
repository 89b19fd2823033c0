"""Are inputs that harness chooses worth more than random ones, or ones spread over the ranges?

Reads recordings of many inputs as `benchmarks/dispatch.py` does, each direction and type of
convolution as a kernel of its own, or results databases. Of each it draws a pool of inputs that
may be tuned, and unseen inputs of other groups, such as other layers. Inputs of the pool are taken
one after another, and a dispatcher that was learnt from them chooses for the unseen ones:

- `random`: each with the same chance;
- `spread`: the one that is farthest from all before it, as `inputs: {ranges: ...}` does;
- `spread-adaptive`: after 12 of these, drawn as `inputs: {adaptive: ...}` does;
- `adaptive`: the same after 12 random ones;
- `distance`: as `adaptive`, by the distance alone, without the expected loss.

    python -m benchmarks.inputs miopen_gfx900_56.csv.gz miopen_gfx1030_36.csv.gz

It prints slowdowns on unseen inputs by the number of tuned ones, means over cases and seeds, and
the ratio of the times to those with as many random inputs with its 95 % interval, of which cases
are the samples, or of a single case its seeds. The last line is one JSON object. With one seed it
takes some 10 minutes on two cores.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.table import Table
from rich.text import Text

from benchmarks.arguments import count, make_parser
from benchmarks.inputs_runs import (
    JUDGED,
    LARGER,
    RULES,
    SIZES,
    Case,
    Point,
    Run,
    cases_of,
    run,
    sizes_of,
)
from benchmarks.search_tables import print_whole
from harness.commands.run import run_command
from harness.core.errors import UsageError
from harness.core.text import counted
from harness.dispatch.verdict import geometric_mean
from harness.display.formats import make_console
from harness.display.progress import ProgressDisplay
from harness.display.text import make_table
from harness.measure.processes import Processes

_LONGEST_S = 3600.0  # of one run

# ------------------------------------------------------------------------------ the tables


def figures(runs: Sequence[Run], rule: str, size: int) -> dict[str, object] | None:
    """Compare a rule after this many inputs with as many random ones; None without any run."""
    ours, theirs = _points(runs, rule, size), _points(runs, "random", size)
    both = sorted(ours.keys() & theirs.keys())
    if not both:
        return None
    groups = np.unique([case for case, _ in both], return_inverse=True)[1]
    if len(set(groups.tolist())) == 1:
        groups = np.arange(len(both))
    logs = np.array([[ours[key].mean, ours[key].percentile_99] for key in both])
    differences = np.array([ours[key].mean - theirs[key].mean for key in both])
    tails = np.array([ours[key].percentile_99 - theirs[key].percentile_99 for key in both])
    mean, tail = geometric_mean(differences, groups), geometric_mean(tails, groups)
    return {
        "slowdown": round(math.exp(logs[:, 0].mean()), 4),
        "percentile_99": round(math.exp(logs[:, 1].mean()), 3),
        "ratio": [round(value, 4) for value in (mean.value, mean.low, mean.high)],
        "ratio_99": [round(value, 3) for value in (tail.value, tail.low, tail.high)],
        "runs": len(both),
    }


def _points(runs: Sequence[Run], rule: str, size: int) -> dict[tuple[str, int], Point]:
    return {
        (run.case, run.seed): point
        for run in runs
        if run.rule == rule
        for point in run.points
        if point.tuned == size
    }


def curve_figures(runs: Sequence[Run], size: int) -> dict[str, object] | None:
    """Compare what the tuned inputs say with the truth on unseen ones."""
    found = _points(runs, JUDGED, size)
    curves = [(point.curve, point.mean) for point in found.values() if point.curve is not None]
    if not curves:
        return None
    said = [math.log(curve.slowdown.value) for curve, _ in curves]
    above = [curve.slowdown.high >= math.exp(mean) for curve, mean in curves]
    gains = [curve.gain for curve, _ in curves if curve.gain is not None]
    return {
        "said": round(math.exp(float(np.mean(said))), 4),
        "true": round(math.exp(float(np.mean([mean for _, mean in curves]))), 4),
        "true_below_high": round(float(np.mean(above)), 3),
        "gain_of_last_doubling": round(float(np.mean([g.value for g in gains])), 4)
        if gains
        else None,
        "enough_at_0.05": sum(curve.is_enough(0.05) for curve, _ in curves),
    }


def _table(runs: Sequence[Run]) -> Table:
    sizes = [n for n in SIZES + LARGER if figures(runs, "random", n)]
    head = ("rule", *(f"{size} inputs" for size in sizes))
    rows = []
    for rule in dict.fromkeys(one.rule for one in runs):
        cells = []
        for size in sizes:
            found = figures(runs, rule, size)
            cells.append("-" if found is None else _cell(found, rule))
        rows.append((rule, *cells))
    return make_table(head, rows)


def _cell(found: dict[str, object], rule: str) -> str:
    text = f"{found['slowdown']:.3f}, {found['percentile_99']:.2f}"
    ratio = found["ratio"]
    assert isinstance(ratio, list)
    return text if rule == "random" else f"{text}; {ratio[0]:.3f} [{ratio[1]:.3f}, {ratio[2]:.3f}]"


_LEGEND = (
    "Slowdown on unseen inputs, geometric mean, and its 99th percentile. Then the time over that "
    "with as many random inputs, with its 95 % interval; below 1 is faster."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    return run_command(_parser(), arguments, _compare)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("inputs", __doc__)
    parser.add_argument("file", nargs="+", type=Path, metavar="FILE", help="a CSV file or database")
    parser.add_argument(
        "--only", metavar="RULES", help=f"of {', '.join(RULES)}; with commas between (default all)"
    )
    parser.add_argument("--seeds", type=count, default=1, metavar="N", help="default 1")
    parser.add_argument("--jobs", type=count, default=os.cpu_count() or 1, metavar="N")
    return parser


def _rules(only: str | None) -> list[str]:
    """Return the wanted rules, with random inputs, in the order of the tables."""
    wanted = RULES if only is None else ("random", *(name.strip() for name in only.split(",")))
    for name in wanted:
        if name not in RULES:
            raise UsageError(f"--only: there is no rule {name!r}; there are {', '.join(RULES)}")
    return [name for name in RULES if name in wanted]


def _compare(args: argparse.Namespace) -> int:
    console, log = make_console(), make_console(stderr=True)
    cases = [Case(path, index) for path in args.file for index in range(len(cases_of(path)))]
    rules = _rules(args.only)
    jobs = [(case, rule, seed) for seed in range(args.seeds) for case in cases for rule in rules]
    runs = []
    with ProgressDisplay(log) as display, contextlib.closing(Processes(args.jobs)) as pool:
        display.begin_stage("runs", len(jobs))
        tasks = [pool.schedule(run, *job, timeout_s=_LONGEST_S) for job in jobs]
        for task in tasks:
            runs.append(pool.result_of(task))
            display.step(f"{runs[-1].rule} on {runs[-1].case}")
    console.print(f"{len(cases)} cases, {counted(args.seeds, 'seed')}")
    print_whole(_table(runs))
    print_whole(Text(_LEGEND, style="dim"))
    print(json.dumps(_document(runs)))
    return 0


def _document(runs: Sequence[Run]) -> dict[str, object]:
    by_rule = {
        rule: {size: found for size in sizes_of(rule) if (found := figures(runs, rule, size))}
        for rule in dict.fromkeys(one.rule for one in runs)
    }
    curves = {size: found for size in SIZES if (found := curve_figures(runs, size))}
    return {"rules": by_rule, "learning_curve": curves}


if __name__ == "__main__":
    sys.exit(main())
