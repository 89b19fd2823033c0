"""Which search should `auto` be? Compares the alternatives on recorded spaces, with
`benchmarks/search.py`.

Models (a Gaussian process, a forest, boosted trees), a local search with restarts, evolutionary
searches, and a bandit that combines them, all on the drivers of this project:

    python -m benchmarks.study RECORDING...

Further arguments are those of `benchmarks/search.py`, and it takes as long: with 20 seeds and 400
tests, some 20 minutes a space on one core.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks import search

TECHNIQUES = (
    "GaussianProcess",
    "alternative:ExtraTrees",
    "alternative:GradientBoosting",
    "alternative:Climb",
    "alternative:Bandit",
    "opentuner",
    "DifferentialEvolutionAlt",
    "NormalGreedyMutation20",
    "ga-base",
    "UniformRandom",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; return its exit code."""
    folder = "results/benchmarks/study"
    chosen = ["--only", ",".join(TECHNIQUES), "--budget", "200", "--output", folder]
    return search.main([*chosen, *(sys.argv[1:] if arguments is None else arguments)])


if __name__ == "__main__":
    sys.exit(main())
