"""How often tune, compare and dispatch claim a difference where there is none.

Every configuration is equally fast, so each claim is false. A simulated machine (benchmarks.noise)
has one of eleven kinds of noise. On it, campaigns of a few inputs measure every configuration, the
candidates and the finals, through the functions that `harness.tune` uses, into databases like
those of `harness.tune`. From these:

    tune      the share of inputs, and of campaigns, with a significant speed-up
    compare   the share of comparisons of two databases with any `slower` or `faster`, and of their
              inputs; the kernel was edited in between, to one of equal speed
    rerun     the same for `compare --rerun`
    burden    the same for `compare`, where other work makes the machine 30 % slower from a quarter
              of the second campaign on; `burden rerun` for a rerun, from a quarter of the rerun on
    dispatch  the share of databases from which a choice by input is written
    single    the share of databases whose configuration for all inputs is called faster

    python -m benchmarks.false_claims
    python -m benchmarks.false_claims --pocl      on this machine, with PoCL, in place of noise

The power, which is how often true differences are found, comes from simulated machines on which
the configurations are faster than the default, or everything is slower in the second campaign:

    python -m benchmarks.false_claims --faster 0.05 --only
    python -m benchmarks.false_claims --slower 0.05 --only compare

How often honest kernels are accused of cheating, or lose a claim, is counted on this machine, with
other processes beside:

    python -m benchmarks.false_claims --accused 3000

It goes on with results/accusations.jsonl, a line for each input, and takes some hours.

The first command takes an hour on two cores, the others some minutes; measure with nothing beside
it. Each rate has its 95 % interval (Clopper and Pearson). The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.accusations import collect
from benchmarks.equal_code import PARTS, POCL, Effect, Tally, trials
from benchmarks.frame import JOBS, Figures, benchmark, in_processes, option, share, show
from benchmarks.noise import MODELS
from harness.compare import LEVEL

STATED = {"tune": 0.025, "tune campaigns": 0.05, "dispatch": 0.025, "single": 0.025}
"""The largest rate that is promised; LEVEL for what is not named."""

_CHUNK = 4  # trials of one job

Job = tuple[str, Effect, int, int, int, tuple[str, ...]]
"""The arguments of `trials`."""


def run(job: Job) -> Tally:
    """Run a job in a worker process."""
    return trials(*job)


def figures(tally: Tally) -> dict[str, dict[str, Any]]:
    """Return the rate of each claim, with its 95 % interval, and the number of trials."""
    found = {}
    for what, count in tally.trials.items():
        claims = tally.claims[what]
        found[what] = {"claims": claims, "trials": count, "rate": share(claims, count)}
    return found


@benchmark(
    option("--pocl", False, "measure with PoCL on this machine, without a model"),
    option("--faster", 0.0, "the share by which configurations are faster than the default"),
    option("--slower", 0.0, "the share by which the second campaign is slower"),
    option("--trials", 100, "of two campaigns each"),
    option("--inputs", 8, "inputs in a campaign"),
    option("--models", list(MODELS), nargs="+", choices=MODELS),
    option("--only", PARTS, "besides tune", nargs="*", choices=PARTS),
    option("--seed", 0, "of the first trial"),
    option("--accused", 0, "count accusations among so many final measurements of the suite"),
    option("--load", 2, "processes that compute beside them"),
    option("--record", Path("results", "accusations.jsonl"), "of accusations"),
    JOBS,
)
def main(args: argparse.Namespace) -> Figures:
    """Count claims, or accusations; print them and the JSON line."""
    if args.accused:
        return _accusations(collect(args.record, args.accused, args.load))
    effect = Effect(args.faster, args.slower)
    end = args.seed + args.trials
    jobs: list[Job] = [
        (model, effect, args.inputs, first, min(_CHUNK, end - first), tuple(args.only))
        for model in ([POCL] if args.pocl else args.models)
        for first in range(args.seed, end, _CHUNK)
    ]
    tallies: dict[str, Tally] = {}
    for (model, *_), tally in in_processes(run, jobs, 1 if args.pocl else args.jobs, _name):
        tallies.setdefault(model, Tally()).update(tally)
    found = {model: figures(tally) for model, tally in tallies.items()}
    rows = [
        (model, what, f"{one['claims']} of {one['trials']}", *_percents(one["rate"], what, effect))
        for model, claims in found.items()
        for what, one in claims.items()
    ]
    show(("noise", "claim", "claimed", "rate", "stated"), rows)
    return {"inputs": args.inputs, "stated": STATED | {"level": LEVEL}} | found


def _accusations(counts: Mapping[str, int]) -> Figures:
    """Show how many of the measurements accuse a kernel, and how many gains lost their claim."""
    shares = {"accused": "searched and final", "unclaimed": "final", "lost": "faster"}
    trials = {**counts, "searched and final": counts["searched"] + counts["final"]}
    found = {what: (counts[what], trials[of], of) for what, of in shares.items()}
    rates = {what: share(count, max(1, of)) for what, (count, of, _) in found.items()}
    rows = [
        (what, f"{count} of {of} {name}", rates[what].text(".2%"))
        for what, (count, of, name) in found.items()
    ]
    show(("what", "how many", "rate"), rows)
    return {"counts": dict(counts), "rates": rates}


def _name(job: Job) -> str:
    return job[0]


def _percents(rate: Any, what: str, effect: Effect) -> tuple[str, str]:
    stated = f"{STATED.get(what, LEVEL):.1%}" if effect == Effect() else "-"
    return rate.text(".2%"), stated


if __name__ == "__main__":
    sys.exit(main())
