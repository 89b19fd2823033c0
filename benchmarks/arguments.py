"""Arguments that several benchmarks share."""

from __future__ import annotations

import argparse
import os
from pathlib import Path


def count(text: str) -> int:
    """An argument that is a whole number from 1 to 10^6."""
    if not text.isdigit() or not 1 <= int(text) <= 10**6:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to 10^6, got {text!r}")
    return int(text)


def add_recordings(parser: argparse.ArgumentParser) -> None:
    """FILE..., and --mapping for those that are CSV."""
    parser.add_argument("file", nargs="+", type=Path, metavar="FILE", help="a recording")
    parser.add_argument(
        "--mapping",
        type=Path,
        metavar="FILE",
        help="what the columns of CSV recordings are (default: beside each, with the ending .yaml)",
    )


def add_output(parser: argparse.ArgumentParser, folder: str, files: str) -> None:
    """--output, a folder under results/benchmarks/ for these files; and --jobs."""
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("results") / "benchmarks" / folder,
        metavar="FOLDER",
        help=f"for {files} (default results/benchmarks/{folder})",
    )
    parser.add_argument("--jobs", type=count, default=os.cpu_count() or 1, metavar="N")
