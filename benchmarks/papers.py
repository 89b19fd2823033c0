"""Print each claim of the papers (claims.yaml), its figure, ours, the device, and our command.

Our figures come from the results of the benchmark that a claim names, or are computed by
benchmarks/paper_figures.py and benchmarks/public_data.py and stored in results/published.jsonl.
Claims that take a GPU are marked; what a CPU measured of the same kernels has another table. This
prints the tables of results/papers.md, and computes nothing:

    python -m benchmarks.papers

`--compute` computes all figures again, or those of the named claims, keeps them, and writes the
tables to results/papers.md, below its head. Each figure takes a minute at most. Those from public
measurements of GPUs need the folder that results/reproduction.md describes:

    python -m benchmarks.papers --compute starchart-share lift-split
    python -m benchmarks.papers --compute --data FOLDER

The last line is one JSON object with our figures.
"""

from __future__ import annotations

import argparse
import datetime
import json
import string
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from benchmarks import paper_figures, public_data
from benchmarks.frame import Figures, benchmark, option
from benchmarks.paper_figures import ROOT
from harness.core.errors import UsageError

Claim = Mapping[str, Any]
Record = dict[str, dict[str, Any]]

RESULTS = ROOT / "results"
RECORD, PAGE = RESULTS / "published.jsonl", RESULTS / "papers.md"
COMPUTED = [*paper_figures.COMPUTED, *public_data.COMPUTED]
HEAD = ("claim", "paper", "ours", "device", "command")
GPU_NEEDED = "**needs a GPU**"
NOT_MEASURED = "not measured"


def read_papers() -> list[dict[str, Any]]:
    """Read claims.yaml: papers, each with its `claims` and with those tried `on_a_cpu`. A claim
    whose figures are those of several kernels becomes one claim for each."""
    path = Path(__file__).with_name("claims.yaml")
    found: list[dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))
    for paper in found:
        for part in ("claims", "on_a_cpu"):
            paper[part] = [one for claim in paper.get(part, []) for one in _by_kernel(claim)]
    return found


def _by_kernel(claim: Claim) -> Iterator[Claim]:
    if not isinstance(claim["paper"], Mapping):
        yield claim
        return
    for kernel, figure in claim["paper"].items():
        yield {
            **claim,
            "name": f"{claim['name']}-{kernel}",
            "claim": f"{kernel}: {claim['claim']}",
            "paper": figure,
            "kernel": kernel,
            "command": claim["command"].replace("KERNEL", kernel),
        }


def all_claims() -> list[Claim]:
    """Return the claims of all papers."""
    return [claim for paper in read_papers() for claim in paper["claims"] + paper["on_a_cpu"]]


def read_record() -> Record:
    """Read the computed figures, their rows and dates by claim."""
    rows = map(json.loads, RECORD.read_text(encoding="utf-8").splitlines())
    return {row.pop("claim"): row for row in rows}


def short(device: str) -> str:
    """Shorten `pthread-AMD EPYC, 2 compute units (Portable Computing Language, ...)`, which is
    PoCL's name of a CPU, and other names alike."""
    name, _, rest = device.partition(", ")
    on_cpu = any(platform in rest for platform in ("Portable Computing Language", "PoCL"))
    return f"{name.removeprefix('pthread-')} (CPU), PoCL" if on_cpu else name


def recorded(claim: Claim) -> tuple[str, str]:
    """Format our figure from the JSON lines of a benchmark: of each kernel its last row, or one
    object. Returns the text, and the devices, dates and load averages."""
    found: dict[str, tuple[str, str, list[float]]] = {}
    for line in (RESULTS / claim["file"]).read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        where = f"{short(run['device'])}; {run['date']}"
        for row in run[claim["rows"]] if "rows" in claim else [run]:
            name = row.get("kernel", "")
            if claim.get("kernel", name) == name:
                found[name] = _text(claim, row), where, run.get("load", [])
    if not found:
        return NOT_MEASURED, "-"
    texts = [f"{name} {found[name][0]}".strip() for name in sorted(found)]
    where = ", ".join(dict.fromkeys(where for _, where, _ in found.values()))
    load = [average for _, _, averages in found.values() for average in averages]
    under = f"; load {min(load):.0f} to {max(load):.0f}" if load else ""
    return "; ".join(texts).removeprefix(f"{claim.get('kernel', '')} "), where + under


class _Cells(string.Formatter):
    """Formats a figure with its interval or range, and its unit after a blank; one that a row lacks
    was not measured."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        try:
            return super().get_field(field_name, args, kwargs)
        except (KeyError, TypeError):  # an older row, or a figure that this kernel does not have
            return None, field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None:
            return NOT_MEASURED
        if isinstance(value, Mapping):
            value = [value["median"], value["min"], value["max"]]
        if isinstance(value, list):
            middle, low, high = (format(number, format_spec) for number in value)
            return f"{middle} [{low}, {high}]"
        spec, blank, unit = format_spec.partition(" ")
        return format(value, spec) + blank + unit


def _text(claim: Claim, row: Mapping[str, Any]) -> str:
    """Format a row, or say why it decides nothing; of best configurations show the first ones."""
    if "needs" in claim and row.get(claim["needs"]) is None:
        return _Cells().format(claim["without"], **row)
    cells = dict(row) | {"gain": ""}
    if row.get("frequent", 0) >= row.get("accuracy", 1):
        cells["gain"] = ": the model adds nothing"
    if isinstance(row.get("best"), dict):
        counts = [f"{config} on {count}" for config, count in row["best"].items()]
        cells["best"] = ", ".join(counts[:4])
    return _Cells().format(claim["show"], **cells)


def ours(claim: Claim, record: Record) -> tuple[str, str, str]:
    """Return our figure, its device and date, and the command that measures it."""
    name = claim["name"]
    if "show" in claim:
        return *recorded(claim), claim["command"]
    if "ours" in claim:
        return claim["ours"], claim["device"], claim["command"]
    if "device" not in claim:
        return GPU_NEEDED, "-", claim["command"]
    data = " --data FOLDER" if name in public_data.COMPUTED else ""
    command = f"python -m benchmarks.papers --compute {name}{data}"
    if name not in record:
        return NOT_MEASURED, "-", command
    return record[name]["ours"], f"{claim['device']}; {record[name]['date']}", command


def tables(record: Record) -> Iterator[str]:
    """Render each paper's claims, the rows behind them, and its claims on a CPU, in Markdown."""
    for paper in read_papers():
        yield from (f"**{paper['paper']}**", _claims_table(paper["claims"], record))
        rows = [row for c in paper["claims"] for row in record.get(c["name"], {}).get("rows", [])]
        if rows:
            yield _table([*rows[0]], [[*row.values()] for row in rows])
        if paper["on_a_cpu"]:
            yield from ("On a CPU:", _claims_table(paper["on_a_cpu"], record))


def _claims_table(claims: Sequence[Claim], record: Record) -> str:
    rows = []
    for claim in claims:
        text, device, command = ours(claim, record)
        rows.append((claim["claim"], f"{claim['paper']}", text, device, f"`{command}`"))
    return _table(HEAD, rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [" | ".join(cells) for cells in (head, ["---"] * len(head), *rows)]
    return "\n".join(f"| {line} |" for line in lines)


def compute(names: Sequence[str], data: Path, record: Record) -> None:
    """Compute the figures of claims, and keep each at once, in the record and on the page."""
    for name in names:
        print(name, file=sys.stderr, flush=True)
        text = paper_figures.COMPUTED.get(name)
        found = {"ours": text()} if text else public_data.COMPUTED[name](data)
        record[name] = found | {"date": f"{datetime.date.today()}"}
        kept = [{"claim": name} | record[name] for name in COMPUTED if name in record]
        lines = [json.dumps(row, ensure_ascii=False) for row in kept]
        RECORD.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        head, _, _ = PAGE.read_text(encoding="utf-8").partition("**")
        PAGE.write_text(head + "\n\n".join(tables(record)) + "\n", encoding="utf-8")


@benchmark(
    option(
        "--compute",
        None,
        "compute the figures of these claims, of all without names",
        nargs="*",
        choices=COMPUTED,
        metavar="CLAIM",
    ),
    option("--data", None, "folder of public measurements", type=Path, metavar="PATH"),
)
def main(args: argparse.Namespace) -> Figures:
    """Compute what is asked for, and print the tables."""
    record = read_record()
    if args.compute is not None:
        names = args.compute or COMPUTED
        public = [name for name in names if name in public_data.COMPUTED]
        if public and not (args.data and args.data.is_dir()):
            raise UsageError(
                f"no folder {args.data or ''} of public data for {', '.join(public)}: give --data "
                "FOLDER (results/reproduction.md), or name other claims"
            )
        compute(names, args.data, record)
    print("\n\n".join(tables(record)))
    return {claim["name"]: ours(claim, record)[0] for claim in all_claims()}


if __name__ == "__main__":
    sys.exit(main())
