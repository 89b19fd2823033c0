"""Arguments and file helpers that several benchmarks share."""

from __future__ import annotations

import argparse
import os
from pathlib import Path


def make_parser(name: str, doc: str | None) -> argparse.ArgumentParser:
    """Make the parser of `python -m benchmarks.NAME`, with the module's docstring as its help."""
    return argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def count(text: str) -> int:
    """Parse an integer from 1 to 10^8."""
    if not text.isdigit() or not 1 <= int(text) <= 10**8:
        raise argparse.ArgumentTypeError(f"must be an integer from 1 to 10^8, got {text!r}")
    return int(text)


def add_recordings(parser: argparse.ArgumentParser) -> None:
    """Add FILE... and --mapping."""
    parser.add_argument("file", nargs="+", type=Path, metavar="FILE", help="a recording")
    parser.add_argument(
        "--mapping",
        type=Path,
        metavar="FILE",
        help="describes the columns of CSV recordings (default: the .yaml beside each)",
    )


def add_kernels(parser: argparse.ArgumentParser, spaces: Path) -> None:
    """Add --backend and --kernel, which names space files of a folder; `names` are all of them."""
    names = sorted(path.stem for path in spaces.glob("*.yaml"))
    parser.add_argument("--backend", default="auto", help="auto, cuda or opencl (default auto)")
    parser.add_argument(
        "--kernel", action="append", default=[], choices=names, help="only this; may be repeated"
    )
    parser.set_defaults(names=names)


def add_output(parser: argparse.ArgumentParser, folder: str, files: str) -> None:
    """Add --output, a folder under results/benchmarks/ for these files, and --jobs."""
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("results") / "benchmarks" / folder,
        metavar="FOLDER",
        help=f"for {files} (default results/benchmarks/{folder})",
    )
    parser.add_argument(
        "--jobs", type=count, default=os.cpu_count() or 1, metavar="N",
        help="processes at a time (default: one for each core)",
    )  # fmt: skip


def use_one_thread() -> None:
    """Make numpy in worker processes use one thread, since there is a process for each core."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # read when a process loads numpy
