"""Print each claim of the papers, its figure, ours, the device, and the command that measures ours.

Figures of ours are computed here where that takes a minute at most: from the expressions and spaces
of this project, or from recordings of GPUs. Longer ones are read from the results of the benchmark
that the table names. Claims that take a GPU are marked.

    python -m benchmarks.published --data FOLDER

It takes 5 minutes, `--claim` one takes seconds, `--quick` makes a smoke test of fewer draws. FOLDER
has the recordings: `flags/*.csv.gz` for the flags of nvcc, and
`spaces/convolution_milo_{A100,W6600}.json.gz`; the claims that need them have no figure without.
`--record` adds the figures to results/published.jsonl; `--recorded` prints the tables from there
and measures nothing, which is how results/papers.md was made. The last line is one
JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.arguments import make_parser
from benchmarks.papers import gadapt, lift, nvcc_flags, starchart
from benchmarks.papers.claim import RESULTS, Claim, Figure, NoFigure, Paper, Settings
from harness.commands.run import run_command
from harness.core.errors import UsageError
from harness.core.files import write_file

PAPERS: Mapping[str, Sequence[Paper]] = {
    "gadapt": gadapt.PAPERS,
    "starchart": starchart.PAPERS,
    "nvcc": nvcc_flags.PAPERS,
    "lift": lift.PAPERS,
}
RECORD = RESULTS / "published.jsonl"
HEAD = """\
| claim | paper | ours | device | command |
|---|---|---|---|---|"""
GPU_NEEDED = "**needs a GPU**"


def claims(papers: Sequence[Paper]) -> Iterator[Claim]:
    """Iterate over the claims of papers."""
    for paper in papers:
        yield from paper.claims


def all_papers() -> list[Paper]:
    """List all papers, in the order of the tables."""
    return [paper for papers in PAPERS.values() for paper in papers]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    return run_command(_parser(), arguments, _run)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("published", __doc__)
    parser.add_argument(
        "--paper", action="append", default=[], choices=PAPERS, help="only this; may be repeated"
    )
    parser.add_argument(
        "--claim", action="append", default=[], metavar="NAME", help="only this; may be repeated",
        choices=[claim.name for claim in claims(all_papers())],
    )  # fmt: skip
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="of recordings of GPUs")
    parser.add_argument("--quick", action="store_true", help="fewer draws, as a smoke test")
    parser.add_argument("--list", action="store_true", help="print the names of the claims")
    parser.add_argument(
        "--record", action="store_true", help=f"add the figures to results/{RECORD.name}"
    )
    parser.add_argument(
        "--recorded", action="store_true", help=f"measure nothing: read results/{RECORD.name}"
    )
    return parser


def _run(args: argparse.Namespace) -> int:
    """Measure what is asked for, print the tables, and end with the JSON line."""
    if args.record and (args.quick or args.recorded):
        raise UsageError("--record keeps measured figures: leave out --quick and --recorded")
    chosen = list(_chosen(args.paper, args.claim))
    if args.list:
        print("\n".join(f"{claim.name}: {claim.text}" for claim in claims(chosen)))
        return 0
    found = read_record() if args.recorded else _measured(chosen, Settings(args.data, args.quick))
    print("\n\n".join(table(paper, found) for paper in chosen))
    if args.record:
        _write(read_record() | found)
    shown = {claim.name: found.get(claim.name) for claim in claims(chosen)}
    print(json.dumps({name: figure and asdict(figure) for name, figure in shown.items()}))
    return 0


def _chosen(papers: Sequence[str], names: Sequence[str]) -> Iterator[Paper]:
    """Iterate over the papers with the claims that were asked for."""
    for key, each in PAPERS.items():
        if not papers or key in papers:
            for paper in each:
                kept = tuple(c for c in paper.claims if not names or c.name in names)
                if kept:
                    yield Paper(paper.title, kept)


def _measured(papers: Sequence[Paper], settings: Settings) -> dict[str, Figure]:
    """Measure the claims; say on standard error which have no figure."""
    found = {}
    for claim in claims(papers):
        if claim.measure is None:
            continue
        print(claim.name, file=sys.stderr, flush=True)
        try:
            found[claim.name] = claim.measure(settings)
        except NoFigure as error:
            print(f"{claim.name} has no figure: {error}", file=sys.stderr)
    return found


def table(paper: Paper, found: Mapping[str, Figure]) -> str:
    """Render the claims of a paper as a table in Markdown."""
    rows = [f"| {' | '.join(_cells(claim, found.get(claim.name)))} |" for claim in paper.claims]
    return "\n".join([f"**{paper.title}**", "", HEAD, *rows])


def _cells(claim: Claim, figure: Figure | None) -> Iterator[str]:
    ours, device = "not measured", "-"
    if claim.measure is None:
        ours = GPU_NEEDED
    elif figure is not None:
        ours, device = figure.ours, f"{figure.device}; {figure.date}"
    yield from (f"{claim.text}", claim.published, ours, device, f"`{claim.command}`")


def read_record() -> dict[str, Figure]:
    """Read the recorded figures by claim. Raises UsageError for a file of another form."""
    try:
        lines = RECORD.read_text(encoding="utf-8").splitlines() if RECORD.exists() else []
        rows = [json.loads(line) for line in lines]
        return {row.pop("claim"): Figure(**row) for row in rows}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{RECORD} is not a record of figures: {error}") from None


def _write(found: Mapping[str, Figure]) -> None:
    """Write the record, a line for each claim in the order of the tables."""
    kept = [claim.name for claim in claims(all_papers()) if claim.name in found]
    lines = [json.dumps({"claim": name} | asdict(found[name]), ensure_ascii=False) for name in kept]
    write_file(RECORD, "".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    sys.exit(main())
