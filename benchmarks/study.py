"""Which search should `auto` be? Compares the alternatives on recorded spaces, with
`benchmarks/search.py`.

Models (a Gaussian process, a forest, boosted trees), a local search with restarts, evolutionary
searches, and a bandit that combines them, all on the drivers of this project:

    python benchmarks/study.py RECORDING...

Further arguments are those of `benchmarks/search.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script

from benchmarks.search import main

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
    "pso-OX1",
    "UniformRandom",
)

if __name__ == "__main__":
    folder = "results/benchmarks/study"
    chosen = ["--only", ",".join(TECHNIQUES), "--budget", "200", "--output", folder]
    sys.exit(main([*chosen, *sys.argv[1:]]))
