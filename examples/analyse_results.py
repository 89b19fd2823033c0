"""Analyse the results of a database from Python.

    python -m harness.tune spaces/mvmul.yaml
    python examples/analyse_results.py results/mvmul.db out/

It prints the inputs with the largest speed-ups, what the times depend on, and how repeatable they
are, and draws the search.
"""

from __future__ import annotations

import sys
from pathlib import Path

import harness


def main(database: str, folder: str) -> int:
    """Print a summary of each space and device, and draw a picture of each."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for number, results in enumerate(harness.open_results(database)):
        print(results.title)
        table = results.table().sort_values("speedup", ascending=False)
        print(table.head(5).to_string(index=False))

        print(results.rule)
        print(results.verdict)
        print(results.tree)

        measured = results.measurements()
        relative = (measured["std_s"] / measured["mean_s"]).median()
        print(f"standard deviation of a measurement's samples: {relative:.1%} (median)")
        print(results.plot("search").save(Path(folder) / f"search-{number}.svg"))
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} DATABASE FOLDER")
    try:
        sys.exit(main(*sys.argv[1:]))
    except harness.HarnessError as error:
        sys.exit(f"error: {error}")
