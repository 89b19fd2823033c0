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
import importlib.util
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.arguments import add_output, add_recordings, count, make_parser
from benchmarks.peers.contest import Contest, Held, LandscapeRef
from benchmarks.peers.entrants import LEARNS, Entrant, entrants
from benchmarks.peers.landscape import Landscape, landscapes
from benchmarks.peers.ours import transfer_sources
from benchmarks.recordings import recorded
from benchmarks.search_figures import Overall, Searches, as_json, overall, padded
from benchmarks.search_journal import Journal
from benchmarks.search_tables import print_whole, tables, write_courses, write_figures
from harness.commands.run import run_command
from harness.core.errors import UsageError
from harness.core.text import format_time
from harness.display.formats import make_console
from harness.display.progress import ProgressDisplay
from harness.display.text import print_line
from harness.recordings.read import RecordingFile, recording_files
from harness.recordings.space import ListedSpace

Found = dict[str, dict[str, Searches]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    kept = ": finished searches are saved; the same command continues from there"
    return run_command(_parser(), arguments, _compare, kept)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("search", __doc__)
    add_recordings(parser)
    parser.add_argument(
        "--seeds", type=count, default=20, metavar="N", help="searches on each space (20)"
    )
    parser.add_argument(
        "--budget", type=count, default=400, metavar="N", help="tests of each search (400)"
    )
    parser.add_argument(
        "--only",
        type=lambda text: text.split(","),
        default=[],
        metavar="NAME,...",
        help="only these techniques: auto, any of harness.tune --list-techniques, opentuner, "
        "kernel_tuner or kernel_tuner:STRATEGY, pyatf or pyatf:TECHNIQUE",
    )
    parser.add_argument(
        "--warm-start",
        nargs="+",
        type=Path,
        default=[],
        metavar="RECORDING",
        help="recordings for auto to learn from before its first test; on each space it uses those "
        "of the same kernel on another device",
    )
    add_output(parser, "search", "searches.jsonl, courses.csv, figures.csv, courses.png")
    return parser


def _compare(args: argparse.Namespace) -> int:
    """Run all searches, print tables, and end with the JSON line."""
    chosen, lacking = entrants(args.only)
    console, log = make_console(), make_console(stderr=True)
    for line in lacking:
        print_line(log, f"warning: {line}")
    if args.warm_start and not any(entrant.uses_warm_start for entrant in chosen):
        raise UsageError(f"only {LEARNS} uses --warm-start; add it to --only")
    files = recording_files([*args.file, *args.warm_start], args.mapping)
    warm_start = tuple(files[len(args.file) :])
    spaces, refs = _read(files[: len(args.file)])
    for number, landscape in enumerate(spaces.values(), start=1):
        _print_space(number, landscape, warm_start, console)
    journal = Journal(args.output.resolve() / "searches.jsonl")
    journal.begin()
    contest = Contest(refs, chosen, args.seeds, args.budget, journal, warm_start)
    kept, all_ = contest.kept(), len(refs) * len(chosen) * args.seeds
    if kept:
        print_line(log, f"{kept:,} of {all_:,} searches are in {journal.path} already")
    with tempfile.TemporaryDirectory() as scratch, ProgressDisplay(log) as display:
        held = contest.hold(args.jobs, Path(scratch), display)
    names = dict(zip(refs, spaces, strict=True))
    found = _searches(held, names, chosen, args.seeds, args.budget)
    figures = overall(found, args.budget)
    for part in tables(found, figures, list(spaces), args.budget):
        print_whole(part)
    print_line(console, _write(args.output, found, list(spaces), figures, args.budget))
    for line in _failures(held, names):
        print_line(log, f"error: {line}")
    print(json.dumps({technique: as_json(figure) for technique, figure in figures.items()}))
    return 1 if held.failures else 0


def _failures(held: Held, names: Mapping[LandscapeRef, str]) -> Iterator[str]:
    """Describe each failure in a line; the same failure on several spaces is one line."""
    for (entrant, reason), where in held.failures.items():
        spaces = ", ".join(name for ref, name in names.items() if ref in where)
        yield f"{entrant} failed on {spaces}: {reason}"


def _read(files: Sequence[RecordingFile]) -> tuple[dict[str, Landscape], list[LandscapeRef]]:
    """Read the landscapes of all files by their names, and a reference to each."""
    spaces: dict[str, Landscape] = {}
    refs = []
    for source in files:
        for ordinal, landscape in enumerate(landscapes(recorded(source))):
            if landscape.name in spaces:
                raise UsageError(f"{source.path}: two recordings have the name {landscape.name}")
            landscape.check()
            spaces[landscape.name] = landscape
            refs.append(LandscapeRef(source, ordinal))
    return spaces, refs


def _print_space(
    number: int,
    landscape: Landscape,
    warm_start: Sequence[RecordingFile],
    console: Console,
) -> None:
    """Print a space and its warm start; raise UsageError for a useless recording."""
    print_line(console, f"[{number}] {landscape.name}: {_described(landscape)}")
    if warm_start:
        space = ListedSpace(landscape.recorded, landscape.problem)
        for line in transfer_sources(landscape, warm_start).describe(space, landscape.problem):
            print_line(console, f"    warm start from {line}")


def _described(landscape: Landscape) -> str:
    recorded, count = landscape.recorded, len(landscape.times_s)
    searched = sum(len(parameter.values) > 1 for parameter in recorded.parameters)
    return (
        f"{count:,} configurations of {searched} parameters on {recorded.device}; the optimum is "
        f"{format_time(landscape.optimum_s)}"
    )


def _searches(
    held: Held,
    names: Mapping[LandscapeRef, str],
    chosen: Sequence[Entrant],
    seeds: int,
    budget: int,
) -> Found:
    """Collect the searches by technique and space, for spaces on which all of them ended."""
    found: Found = {}
    for entrant in chosen:
        for ref, name in names.items():
            courses = held.courses[ref, entrant]
            if len(courses) == seeds:
                ordered = [courses[seed] for seed in range(seeds)]
                searches = Searches(padded(ordered, budget), ref.landscape.optimum_s)
                found.setdefault(str(entrant), {})[name] = searches
    return found


def _write(
    folder: Path, found: Found, spaces: Sequence[str], figures: Mapping[str, Overall], budget: int
) -> str:
    """Write the files; return a line that names them."""
    folder.mkdir(parents=True, exist_ok=True)
    write_courses(folder / "courses.csv", found)
    write_figures(folder / "figures.csv", found, budget)
    if importlib.util.find_spec("matplotlib") is None:
        return f"{folder}: courses.csv, figures.csv; no picture: pip install -e '.[bench]'"
    from benchmarks.search_plot import MOST_SHOWN, draw

    draw(folder / "courses.png", found, spaces, _worth_showing(list(figures), MOST_SHOWN))
    return f"{folder}: courses.csv, figures.csv, courses.png"


def _worth_showing(order: Sequence[str], most: int) -> list[str]:
    """Choose the techniques for a picture: `auto`, baselines, each other tuner's best, the best.

    `order` has the best technique first.
    """
    plain = [name for name in ("auto", "opentuner", "UniformRandom") if name in order]
    tuners = {name.partition(":")[0]: name for name in reversed(order) if ":" in name}
    return list(dict.fromkeys([*plain, *tuners.values(), *order]))[:most]


if __name__ == "__main__":
    sys.exit(main())
