"""The techniques to compare, by name, and the modules of their tuners."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from benchmarks.peers.landscape import Landscape, Peer
from benchmarks.peers.ours import ALIASES
from benchmarks.recordings import RecordingFile
from harness.core.errors import UsageError
from harness.search import resolve_techniques, techniques
from harness.search.techniques import OURS

LEARNS = "auto"
"""The only entrant that learns from recordings of other devices."""


@dataclass(frozen=True)
class Tuner:
    """The package of another project's tuner on PyPI, by its version, and its techniques."""

    version: str
    techniques: tuple[str, ...]


OTHERS: Mapping[str, Tuner] = MappingProxyType(
    {
        # Missing: skopt (minutes for a search), pyatf_strategies (broken in 1.5.0), brute_force,
        # strategies for several objectives, minimize and dual_annealing (stop after some dozens).
        "kernel_tuner": Tuner(
            "1.5.0",
            (
                "adaptive_tabu_greywolf", "hybrid_vndx", "simulated_annealing", "pso",
                "genetic_algorithm", "diff_evo", "firefly_algorithm", "greedy_ils", "greedy_mls",
                "mls", "ordered_greedy_mls", "basinhopping", "bayes_opt", "random_sample",
            ),
        ),
        "pyatf": Tuner(
            "0.0.13",
            (
                "AUCBandit", "SimulatedAnnealing", "DifferentialEvolution", "PatternSearch",
                "Torczon", "RoundRobin", "Random",
            ),
        ),
    }
)  # fmt: skip


@dataclass(frozen=True, order=True)
class Entrant:
    """A technique: the tuner's name (empty for this project's and OpenTuner's) and its own."""

    tuner: str
    technique: str

    def __str__(self) -> str:
        return f"{self.tuner}:{self.technique}" if self.tuner else self.technique

    @property
    def uses_warm_start(self) -> bool:
        """Return whether it learns from --warm-start."""
        return str(self) == LEARNS


def prepared(
    tuner: str, landscape: Landscape, scratch: Path, warm_start: tuple[RecordingFile, ...]
) -> Peer:
    """Prepare a tuner, by its name, for a landscape."""
    module = importlib.import_module(f"benchmarks.peers.{tuner or 'ours'}")
    peer: Peer = module.PEER(landscape, scratch, warm_start)
    return peer


def entrants(only: Sequence[str]) -> tuple[list[Entrant], list[str]]:
    """Choose the entrants; also return a line for each tuner that is not installed.

    `only` restricts them to these names: a technique of ours or OpenTuner's, `TUNER:TECHNIQUE`, or
    `TUNER` for all of its techniques. Raises UsageError for an unknown name, and for a tuner that
    is not installed.
    """
    lacking = {name: reason for name in OTHERS if (reason := why_lacking(name))}
    if only:
        chosen = dict.fromkeys(entrant for name in only for entrant in _named(name))
        for entrant in chosen:
            if entrant.tuner in lacking:
                raise UsageError(lacking[entrant.tuner])
        return list(chosen), []
    ours = [made.name for made in OURS if made.name not in resolve_techniques(["auto"])]
    all_of_them = [Entrant("", name) for name in ("auto", *ours, *ALIASES)]
    for name in OTHERS:
        if name not in lacking:
            all_of_them += _named(name)
    return all_of_them, list(lacking.values())


def _named(name: str) -> list[Entrant]:
    """Return the entrants that a name of --only stands for."""
    if name in OTHERS:
        return [Entrant(name, technique) for technique in OTHERS[name].techniques]
    tuner, _, technique = name.rpartition(":")
    if tuner in OTHERS and technique in OTHERS[tuner].techniques:
        return [Entrant(tuner, technique)]
    if name in ("auto", *ALIASES, *techniques()):
        return [Entrant("", name)]
    raise UsageError(f"--only: unknown technique {name}; --help says what there is")


def why_lacking(name: str) -> str:
    """Explain why another project's tuner cannot run; return "" if it can."""
    version = OTHERS[name].version
    try:
        if importlib.metadata.version(name) == version:
            return ""
    except importlib.metadata.PackageNotFoundError:
        pass
    return f"{name} {version} is not installed; run: pip install -e '.[bench]'"
