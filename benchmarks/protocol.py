"""Score searches by the protocol of the field: autotuning_methodology 1.1, with its defaults.

Each search has the time in which random search gets 95 % of the way from the median to the optimum.
Its time is that of the recording (compilation, runs, verification) and the tuner's own, as seconds
of CPU, so that other work on the machine does not count. The score is 0 for random search and 1 for
the optimum, and the mean over 1,000 points in time; each search is repeated 25 times.

Recordings are cache files of Kernel Tuner, which state these times. Run it where harness is
installed, with its extra `bench` for Kernel Tuner:

    python -m benchmarks.protocol RECORDING...

It prints a table; the last line is one JSON object of the scores. On ten spaces with budgets of 8
to 1,282 tests, `auto` takes about 20 minutes on one core. Each search is saved to
OUTPUT/courses.jsonl when it ends: the same command continues from there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.arguments import add_output, add_recordings, count, make_parser, use_one_thread
from benchmarks.peers.entrants import Entrant, entrants
from benchmarks.protocol_score import REPEATS, TimedCourse, score
from benchmarks.protocol_searches import ScoreJob, run, scored_space
from harness.commands.run import run_command
from harness.display.formats import make_console
from harness.display.progress import ProgressDisplay
from harness.display.text import make_table, print_line
from harness.measure.processes import Processes
from harness.recordings.read import RecordingFile, recording_files

_BLOCK = 5  # searches of a job
_LONGEST_S = 7200.0
Scores = dict[str, dict[str, float]]
"""Scores by technique and space."""


@dataclass
class Kept:
    """The searches of a file, by space, technique and seed."""

    path: Path
    courses: dict[tuple[str, str, int], TimedCourse] = field(default_factory=dict)

    def read(self) -> None:
        """Read the file; skip a line that was cut when a process was killed."""
        for line in self.path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                row = json.loads(line)
                key = row["space"], row["technique"], row["seed"]
                self.courses[key] = TimedCourse(row["tested"], row["own_s"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    return run_command(_parser(), arguments, _score)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("protocol", __doc__)
    add_recordings(parser)
    parser.add_argument(
        "--repeats", type=count, default=REPEATS, metavar="N", help=f"of a search ({REPEATS})"
    )
    parser.add_argument(
        "--only",
        type=lambda text: text.split(","),
        default=["auto"],
        metavar="NAME,...",
        help="techniques, as benchmarks.search takes them (default auto)",
    )
    add_output(parser, "protocol", "courses.jsonl")
    return parser


def _score(args: argparse.Namespace) -> int:
    chosen, _ = entrants(args.only)
    files = recording_files(args.file, args.mapping)
    spaces = {scored_space(source).landscape.name: source for source in files}
    args.output.mkdir(parents=True, exist_ok=True)
    kept = Kept(args.output.resolve() / "courses.jsonl")
    kept.path.touch()
    kept.read()
    console, log = make_console(), make_console(stderr=True)
    use_one_thread()
    with tempfile.TemporaryDirectory() as scratch:
        jobs = list(_jobs(spaces, chosen, args.repeats, kept, Path(scratch)))
        with ProgressDisplay(log) as display, contextlib.closing(Processes(args.jobs)) as pool:
            display.begin_stage("searches", len(jobs))
            tasks = [pool.schedule(run, job, timeout_s=_LONGEST_S) for job in jobs]
            for job, task in zip(jobs, tasks, strict=True):
                pool.result_of(task)
                display.step(f"{job.entrant} on {job.source.path.name}")
    kept.read()
    scores = _scores(spaces, chosen, args.repeats, kept)
    console.print(_table(spaces, scores))
    print_line(console, f"{kept.path.parent}: courses.jsonl")
    print(json.dumps({name: {**row, "mean": _mean(row)} for name, row in scores.items()}))
    return 0


def _jobs(
    spaces: Mapping[str, RecordingFile],
    chosen: Sequence[Entrant],
    repeats: int,
    kept: Kept,
    scratch: Path,
) -> Iterator[ScoreJob]:
    """Yield what is missing, some seeds of all spaces before more of any."""
    for first in range(0, repeats, _BLOCK):
        for name, source in spaces.items():
            for entrant in chosen:
                wanted = range(first, min(first + _BLOCK, repeats))
                missing = [s for s in wanted if (name, str(entrant), s) not in kept.courses]
                if missing:
                    yield ScoreJob(source, entrant, tuple(missing), scratch, kept.path)


def _scores(
    spaces: Mapping[str, RecordingFile], chosen: Sequence[Entrant], repeats: int, kept: Kept
) -> Scores:
    scores: Scores = {}
    for entrant in map(str, chosen):
        for name, source in spaces.items():
            courses = [kept.courses[name, entrant, seed] for seed in range(repeats)]
            found = score(scored_space(source).costs, courses)
            scores.setdefault(entrant, {})[name] = round(found, 4)
    return scores


def _table(spaces: Mapping[str, RecordingFile], scores: Scores) -> Any:
    rows = []
    for name, source in spaces.items():
        budget = scored_space(source).costs.budget
        cells = (f"{scores[technique][name]:.3f}" for technique in scores)
        rows.append((name, f"{budget.last:,}", f"{budget.last_s:,.0f} s", *cells))
    rows.append(("mean", "", "", *(f"{_mean(row):.3f}" for row in scores.values())))
    return make_table(("space", "tests of random search", "time", *scores), rows)


def _mean(row: Mapping[str, float]) -> float:
    return round(math.fsum(row.values()) / len(row), 4)


if __name__ == "__main__":
    sys.exit(main())
