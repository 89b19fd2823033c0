"""How often tune, compare and dispatch claim a difference where there is none.

Every configuration is equally fast, so each claim is false. A simulated machine (benchmarks.noise)
has one of eleven kinds of noise. On it, campaigns of a few inputs measure every configuration, the
candidates and the finals, through the functions that `harness.tune` uses, into databases like
those of `harness.tune`. From these:

    tune      the share of inputs, and of campaigns, with a significant speed-up
    compare   the share of comparisons of two databases with any `slower` or `faster`; the kernel
              was edited in between, to one of equal speed
    rerun     the same for `compare --rerun`
    burden    the same for `compare`, where other work makes the machine 30 % slower from a quarter
              of the second campaign on; `burden rerun` for a rerun, from a quarter of the rerun on
    dispatch  the share of databases from which a choice by input is written
    single    the share of databases whose configuration for all inputs is called faster

    python -m benchmarks.false_claims
    python -m benchmarks.false_claims --pocl      on this machine, with PoCL, in place of noise

The first command takes an hour on two cores, the second some minutes; measure with nothing beside
it. Each rate has its 95 % interval (Clopper and Pearson). The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.arguments import count, make_parser, use_one_thread
from benchmarks.equal_code import PARTS, Tally, pocl, simulated
from benchmarks.noise import MODELS
from harness.compare.statistics import LEVEL
from harness.measure.processes import Processes
from harness.stats.proportions import clopper_pearson

STATED = {"tune": 0.025, "tune campaigns": 0.05, "dispatch": 0.025, "single": 0.025}
"""The largest rate that is promised; LEVEL for what is not named."""

_CHUNK = 4  # campaigns of one job
_LONGEST_S = 3600.0


def figures(tally: Tally) -> dict[str, dict[str, float]]:
    """Return the rate of each claim, with its 95 % interval, and the number of trials."""
    found = {}
    for what, trials in tally.trials.items():
        rate = clopper_pearson(tally.claims[what] / trials, trials, 0.05)
        found[what] = {
            "claims": tally.claims[what],
            "trials": trials,
            "rate": round(rate.value, 4),
            "low": round(rate.low, 4),
            "high": round(rate.high, 4),
        }
    return found


def print_figures(name: str, found: Mapping[str, Mapping[str, float]]) -> None:
    """Print a line for each claim: its rate with the interval, and what is promised."""
    print(name)
    for what, one in found.items():
        rates = f"{one['rate']:7.2%} [{one['low']:.2%}, {one['high']:.2%}]"
        counts = f"{one['claims']:g} of {one['trials']:g}"
        print(f"  {what:16}{rates:28}{counts:16}stated {STATED.get(what, LEVEL):.1%}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Count false claims; print them and the JSON line."""
    args = _parser().parse_args(arguments)
    use_one_thread()
    found: dict[str, Any] = {"inputs": args.inputs, "stated": STATED | {"level": LEVEL}}
    if args.pocl:
        found["pocl"] = figures(pocl(args.inputs, args.seed, args.trials, args.only))
        print_figures("PoCL", found["pocl"])
    else:
        for model, tally in _all_models(args):
            found[model] = figures(tally)
            print_figures(model, found[model])
    print(json.dumps(found))
    return 0


def _all_models(args: argparse.Namespace) -> Iterator[tuple[str, Tally]]:
    """Yield the tally of each model; chunks of trials run in worker processes."""
    starts = range(args.seed, args.seed + args.trials, _CHUNK)
    sizes = [min(_CHUNK, args.seed + args.trials - start) for start in starts]
    with contextlib.closing(Processes(args.jobs)) as pool:
        tasks = {
            model: [
                pool.schedule(
                    simulated, model, args.inputs, start, size, args.only, timeout_s=_LONGEST_S
                )
                for start, size in zip(starts, sizes, strict=True)
            ]
            for model in args.models
        }
        for model, parts in tasks.items():
            tally = Tally()
            for part in parts:
                tally.update(pool.result_of(part))
            yield model, tally


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("false_claims", __doc__)
    parser.add_argument(
        "--pocl", action="store_true", help="measure with PoCL on this machine, without a model"
    )
    parser.add_argument(
        "--trials", type=count, default=100, metavar="N", help="of two campaigns each (100)"
    )
    parser.add_argument(
        "--inputs", type=count, default=8, metavar="N", help="inputs in a campaign (8)"
    )
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS, help="besides tune")
    parser.add_argument("--seed", type=int, default=0, help="of the first trial (0)")
    parser.add_argument(
        "--jobs", type=count, default=os.cpu_count() or 1, metavar="N", help="processes at a time"
    )
    return parser


if __name__ == "__main__":
    # The processes of a pool import this module by its name.
    from benchmarks import false_claims

    sys.exit(false_claims.main())
