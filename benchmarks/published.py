"""Print each claim of the papers (claims.yaml), its figure, ours, the device, and our command.

Our figures come from the results of the benchmark that a claim names, or are computed by
benchmarks/papers.py and kept in results/published.jsonl. Claims that take a GPU are marked. This
prints the tables of results/papers.md, and computes nothing:

    python -m benchmarks.published

`--claim` computes figures again and keeps them, which takes a minute each at most:

    python -m benchmarks.published --claim starchart-share lift-split

The last line is one JSON object with our figures.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from benchmarks.frame import Figures, benchmark, option
from benchmarks.papers import COMPUTED, ROOT

Claim = Mapping[str, Any]

RESULTS = ROOT / "results"
RECORD = RESULTS / "published.jsonl"
HEAD = """\
| claim | paper | ours | device | command |
|---|---|---|---|---|"""
GPU_NEEDED = "**needs a GPU**"
_MOST = 4  # configurations of a list


def read_papers() -> list[dict[str, Any]]:
    """Read claims.yaml: papers, each with its claims."""
    papers: list[dict[str, Any]] = yaml.safe_load(
        Path(__file__).with_name("claims.yaml").read_text(encoding="utf-8")
    )
    return papers


def read_record() -> dict[str, dict[str, str]]:
    """Read the computed figures and their dates by claim."""
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
    object. Returns the text, and the devices and dates."""
    found: dict[str, tuple[str, str]] = {}
    for line in (RESULTS / claim["file"]).read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        where = f"{short(run['device'])}; {run['date']}"
        for row in run[claim["rows"]] if "rows" in claim else [run]:
            name = row.get("kernel", "")
            if claim.get("kernel", name) == name:
                found[name] = _text(claim, row), where
    texts = [f"{name} {found[name][0]}".strip() for name in sorted(found)]
    return "; ".join(texts), ", ".join(dict.fromkeys(where for _, where in found.values()))


def _text(claim: Claim, row: Mapping[str, Any]) -> str:
    """Format a row; a list of configurations with their counts shows the first ones."""
    cells = dict(row)
    if isinstance(row.get("best"), dict):
        counts = [f"{config} on {count}" for config, count in row["best"].items()]
        cells["best"] = ", ".join(counts[:_MOST])
    try:
        return str(claim["show"]).format(**cells)
    except TypeError:  # a figure that the benchmark does not have for this kernel
        return "not measured"


def ours(claim: Claim, record: Mapping[str, Mapping[str, str]]) -> tuple[str, str, str]:
    """Return our figure, its device and date, and the command that measures it."""
    name = claim["name"]
    if "show" in claim:
        return *recorded(claim), claim["command"]
    if "ours" in claim:
        return claim["ours"], claim["device"], claim["command"]
    if "device" not in claim:
        return GPU_NEEDED, "-", claim["command"]
    command = f"python -m benchmarks.published --claim {name}"
    if name not in record:
        return "not measured", "-", command
    return record[name]["ours"], f"{claim['device']}; {record[name]['date']}", command


def tables(record: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Render the claims of each paper as a table in Markdown."""
    for paper in read_papers():
        rows = []
        for claim in paper["claims"]:
            text, device, command = ours(claim, record)
            cells = (claim["claim"], str(claim["paper"]), text, device, f"`{command}`")
            rows.append(f"| {' | '.join(cells)} |")
        yield "\n".join([f"**{paper['paper']}**", "", HEAD, *rows])


@benchmark(
    option("--claim", [], "compute the figures of these claims", nargs="+", choices=COMPUTED),
)
def main(args: argparse.Namespace) -> Figures:
    """Compute what is asked for, and print the tables."""
    record = read_record()
    for name in args.claim:
        date = f"{datetime.date.today()}"
        record[name] = {"ours": COMPUTED[name](), "date": date}
    if args.claim:
        lines = [json.dumps({"claim": n} | row, ensure_ascii=False) for n, row in record.items()]
        RECORD.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print("\n\n".join(tables(record)))
    return {
        claim["name"]: ours(claim, record)[0]
        for paper in read_papers()
        for claim in paper["claims"]
    }


if __name__ == "__main__":
    sys.exit(main())
