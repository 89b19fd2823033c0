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
    """Another project's tuner: its package on PyPI, and its techniques."""

    package: str
    version: str
    techniques: tuple[str, ...]


OTHERS: Mapping[str, Tuner] = MappingProxyType(
    {
        # Missing: skopt (minutes for a search), pyatf_strategies (broken in 1.5.0), brute_force,
        # strategies for several objectives, minimize and dual_annealing (stop after some dozens).
        "kernel_tuner": Tuner(
            "kernel_tuner",
            "1.5.0",
            (
                "adaptive_tabu_greywolf", "hybrid_vndx", "simulated_annealing", "pso",
                "genetic_algorithm", "diff_evo", "firefly_algorithm", "greedy_ils", "greedy_mls",
                "mls", "ordered_greedy_mls", "basinhopping", "bayes_opt", "random_sample",
            ),
        ),
        "pyatf": Tuner(
            "pyatf",
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
    if only:
        chosen = dict.fromkeys(entrant for name in only for entrant in _named(name))
        lacking = _lacking({entrant.tuner for entrant in chosen})
        if lacking:
            raise UsageError("; ".join(lacking))
        return list(chosen), []
    lacking = _lacking(OTHERS)
    ours = [made.name for made in OURS if made.name not in resolve_techniques(["auto"])]
    own = [Entrant("", name) for name in ("auto", *ours, *ALIASES)]
    there = [name for name in OTHERS if not _lacking([name])]
    return [*own, *(entrant for name in there for entrant in _named(name))], lacking


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


def _lacking(tuners: Mapping[str, Tuner] | set[str] | list[str]) -> list[str]:
    """Return a line for each of these tuners that is not installed in the compared version."""
    reasons = {name: _why_lacking(OTHERS[name]) for name in tuners if name}
    return [
        f"{name} is left out: {reason}; run: pip install -e '.[bench]'"
        for name, reason in reasons.items()
        if reason
    ]


def _why_lacking(tuner: Tuner) -> str:
    """Explain why a tuner cannot run; return "" if it can."""
    try:
        found = importlib.metadata.version(tuner.package)
    except importlib.metadata.PackageNotFoundError:
        return f"{tuner.package} {tuner.version} is not installed"
    if found != tuner.version:
        return f"{tuner.package} {found} is installed, not {tuner.version}"
    return ""
