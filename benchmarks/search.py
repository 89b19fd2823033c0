"""Compare how fast search techniques find the fastest configuration of recorded spaces.

The techniques of this project, OpenTuner's bandit, Kernel Tuner's strategies and pyATF's techniques
search the same recorded spaces with the same seeds and budgets. For all of them

- the objective is the median of a configuration's recorded samples;
- the space is the recorded configurations; failed ones are included and cost a test;
- only distinct configurations count as tests; repeats are free;
- no search starts from a default, and all hyper-parameters are the technique's own defaults;
- a technique that stops early keeps its best.

Run it where harness is installed, with its extra `bench` for the other tuners:

    python -m benchmarks.search RECORDING...

It prints tables; the last line is one JSON object with the figures of each technique. With all
techniques, 20 seeds and 400 tests, a space takes about 20 minutes on one core. Each search is saved
to OUTPUT/searches.jsonl when it ends: after Ctrl-C, the same command continues from there.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.frame import JOBS, RECORDINGS, Figures, benchmark, option, output
from benchmarks.peers.contest import Held, Tests, hold, read_landscapes
from benchmarks.peers.entrants import LEARNS, Entrant, entrants
from benchmarks.peers.landscape import Landscape
from benchmarks.peers.ours import transfer_sources
from benchmarks.recordings import RecordingFile, recording_files
from benchmarks.search_figures import Searches, as_json, overall, padded
from benchmarks.search_tables import MOST_SHOWN, draw, print_table, write_figures
from harness.core.errors import UsageError
from harness.core.text import format_time
from harness.recordings.replay import ListedSpace

ONLY = option(
    "--only",
    [],
    "only these techniques: auto, any of harness.tune --list-techniques, opentuner, kernel_tuner "
    "or kernel_tuner:STRATEGY, pyatf or pyatf:TECHNIQUE",
    type=lambda text: text.split(","),
    metavar="NAME,...",
)


@benchmark(
    *RECORDINGS,
    option("--seeds", 20, "searches on each space"),
    option("--budget", 400, "tests of each search"),
    ONLY,
    option(
        "--warm-start",
        [],
        "recordings for auto to learn from before its first test; on each space it uses those of "
        "the same kernel on another device",
        nargs="+",
        type=Path,
        metavar="RECORDING",
    ),
    output("search"),
    JOBS,
    kept=": finished searches are saved; the same command continues from there",
)
def main(args: argparse.Namespace) -> Figures:
    """Run all searches and print tables."""
    chosen, lacking = entrants(args.only)
    for line in lacking:
        print(f"warning: {line}", file=sys.stderr)
    if args.warm_start and not any(entrant.uses_warm_start for entrant in chosen):
        raise UsageError(f"only {LEARNS} uses --warm-start; add it to --only")
    files = recording_files([*args.file, *args.warm_start], args.mapping)
    warm_start = tuple(files[len(args.file) :])
    refs = read_landscapes(files[: len(args.file)])
    for number, (name, ref) in enumerate(refs.items(), start=1):
        count, device = len(ref.landscape.times_s), ref.landscape.recorded.device
        optimum = format_time(ref.landscape.optimum_s)
        print(f"[{number}] {name}: {count:,} configurations on {device}; the optimum is {optimum}")
        _print_notes(ref.landscape, warm_start)
    path = args.output.resolve() / "searches.jsonl"
    limit = Tests(args.budget)
    held, earlier = hold(refs, chosen, args.seeds, limit, path, args.jobs, warm_start)
    if earlier:
        every = len(refs) * len(chosen) * args.seeds
        print(f"{earlier:,} of {every:,} searches were in {path} already", file=sys.stderr)
    optima = {name: ref.landscape.optimum_s for name, ref in refs.items()}
    found = _searches(held, chosen, optima, args.seeds, args.budget)
    figures = overall(found, args.budget)
    print_table(figures, args.budget)
    write_figures(args.output / "figures.csv", found, args.budget)
    draw(args.output / "courses.png", found, _worth_showing(list(figures)))
    print(f"{args.output}: the searches, the figures of each space, and a picture")
    for (entrant, reason), where in held.failures.items():
        print(f"error: {entrant} failed on {', '.join(sorted(where))}: {reason}", file=sys.stderr)
    by_technique: dict[str, Any] = {name: as_json(one) for name, one in figures.items()}
    return by_technique | ({"failed": len(held.failures)} if held.failures else {})


def _print_notes(landscape: Landscape, warm_start: Sequence[RecordingFile]) -> None:
    """Print the warm start of a space; raise UsageError for a useless one."""
    if warm_start:
        space = ListedSpace(landscape.recorded, landscape.problem)
        for line in transfer_sources(landscape, warm_start).describe(space, landscape.problem):
            print(f"    warm start from {line}")


def _searches(
    held: Held, chosen: Sequence[Entrant], optima: dict[str, float], seeds: int, budget: int
) -> dict[str, dict[str, Searches]]:
    """Collect the searches by technique and space, for spaces on which all of them ended."""
    found: dict[str, dict[str, Searches]] = {}
    for entrant in chosen:
        for name, optimum_s in optima.items():
            courses = held.courses[name, entrant]
            if len(courses) == seeds:
                best_s = padded([courses[seed].best_s for seed in range(seeds)], budget)
                found.setdefault(str(entrant), {})[name] = Searches(best_s, optimum_s)
    return found


def _worth_showing(order: Sequence[str]) -> list[str]:
    """Choose the techniques for a picture: `auto`, baselines, each other tuner's best, the best.

    `order` has the best technique first.
    """
    plain = [name for name in ("auto", "opentuner", "UniformRandom") if name in order]
    tuners = {name.partition(":")[0]: name for name in reversed(order) if ":" in name}
    return list(dict.fromkeys([*plain, *tuners.values(), *order]))[:MOST_SHOWN]


if __name__ == "__main__":
    sys.exit(main())
