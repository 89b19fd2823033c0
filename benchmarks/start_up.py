"""How long the commands take to start: `--help` of each, and `check` of one space.

Start-up is measured as CPU time of the process and its children, in rounds over all commands, so
that drift of the machine reaches all of them alike. With `--beside FOLDER`, another checkout with
its own `.venv` takes part in the same rounds:

    python -m benchmarks.start_up
    python -m benchmarks.start_up --beside ../harness-before

It takes a minute. The last line is one JSON object: median CPU milliseconds of each command, and
with `--beside` the ratio of the medians (this checkout over the other one).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.arguments import make_parser
from harness.__main__ import COMMANDS

ROOT = Path(__file__).parent.parent
CHECK = ("harness.check", "spaces/mvmul.yaml")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print a table, and end with one JSON line."""
    parser = make_parser("start_up", __doc__)
    parser.add_argument("--beside", type=Path, metavar="FOLDER", help="another checkout")
    parser.add_argument("--rounds", type=int, default=9, help="rounds over all commands (9)")
    options = parser.parse_args(arguments)
    trees = {"this": (ROOT, Path(sys.executable))}
    if options.beside:
        trees["other"] = (options.beside, options.beside / ".venv" / "bin" / "python")
    commands = [CHECK, *((f"harness.{name}", "--help") for name in COMMANDS)]
    samples_s: dict[tuple[str, Sequence[str]], list[float]] = {}
    for _ in range(options.rounds + 1):  # the first compiles modules and fills caches
        for command in commands:
            for name, (folder, python) in trees.items():
                spent_s = cpu_s([str(python), "-m", *command], folder)
                samples_s.setdefault((name, command), []).append(spent_s)
    print_figures(commands, {key: statistics.median(s[1:]) for key, s in samples_s.items()})


def cpu_s(command: Sequence[str], folder: Path) -> float:
    """Run a command and return the CPU seconds that it and its children took."""
    before = os.times()
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    return (after.children_user + after.children_system) - (
        before.children_user + before.children_system
    )


def print_figures(
    commands: Sequence[Sequence[str]], medians_s: dict[tuple[str, Sequence[str]], float]
) -> None:
    """Print a row a command and the JSON line."""
    figures: dict[str, dict[str, float]] = {}
    for command in commands:
        row = {"cpu_ms": round(1e3 * medians_s["this", command], 1)}
        if ("other", command) in medians_s:
            other_s = medians_s["other", command]
            row |= {
                "other_cpu_ms": round(1e3 * other_s, 1),
                "ratio": round(medians_s["this", command] / other_s, 3),
            }
        figures[" ".join(command)] = row
        print(f"{' '.join(command):32}", *(f"{name} {value}" for name, value in row.items()))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
