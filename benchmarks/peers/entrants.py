"""Who takes part: the techniques by name, each with the module of its tuner."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from benchmarks.peers.landscape import Landscape, Peer
from benchmarks.peers.ours import ALIASES
from harness import __version__
from harness.core.errors import UsageError
from harness.core.text import suggestion
from harness.recordings.read import RecordingFile
from harness.search import resolve_techniques, techniques
from harness.search.techniques import own_techniques

TAUGHT = "auto"
"""The one entrant that recordings of other devices teach."""


@dataclass(frozen=True)
class Tuner:
    """Another project's tuner: its package on PyPI, and its techniques that take part by default.

    `others` are techniques that only --only asks for.
    """

    package: str
    version: str
    techniques: tuple[str, ...]
    others: tuple[str, ...] = ()


OTHERS: Mapping[str, Tuner] = MappingProxyType(
    {
        "alternative": Tuner(
            "harness", __version__, (), ("ExtraTrees", "GradientBoosting", "Climb", "Bandit")
        ),
        # Not here: skopt (minutes a search), pyatf_strategies (broken in 1.5.0), brute_force, and
        # what is for several objectives. The `others` stop after some dozens of tests.
        "kernel_tuner": Tuner(
            "kernel_tuner",
            "1.5.0",
            (
                "adaptive_tabu_greywolf", "hybrid_vndx", "simulated_annealing", "pso",
                "genetic_algorithm", "diff_evo", "firefly_algorithm", "greedy_ils", "greedy_mls",
                "mls", "ordered_greedy_mls", "basinhopping", "bayes_opt", "random_sample",
            ),
            ("minimize", "dual_annealing"),
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
    def is_taught(self) -> bool:
        """Whether it learns from --warm-start."""
        return str(self) == TAUGHT


def prepared(
    tuner: str, landscape: Landscape, scratch: Path, taught: tuple[RecordingFile, ...]
) -> Peer:
    """A tuner, by its name, prepared for a landscape."""
    module = importlib.import_module(f"benchmarks.peers.{tuner or 'ours'}")
    peer: Peer = module.PEER(landscape, scratch, taught)
    return peer


def entrants(only: Sequence[str]) -> tuple[list[Entrant], list[str]]:
    """Those that take part, and of each tuner that is left out since it is not installed a line.

    With names in `only` just those: a technique of ours or OpenTuner's, `TUNER:TECHNIQUE`, or
    `TUNER` for all of it. Raises UsageError for an unknown name, and for one of a tuner that is
    not installed.
    """
    if only:
        chosen = dict.fromkeys(entrant for name in only for entrant in _named(name))
        lacking = _lacking({entrant.tuner for entrant in chosen})
        if lacking:
            raise UsageError("; ".join(lacking))
        return list(chosen), []
    lacking = _lacking(OTHERS)
    ours = [name for name in own_techniques() if name not in resolve_techniques(["auto"])]
    own = [Entrant("", name) for name in ("auto", *ours, *ALIASES)]
    there = [name for name, known in OTHERS.items() if known.techniques and not _lacking([name])]
    return [*own, *(entrant for name in there for entrant in _named(name))], lacking


def _named(name: str) -> list[Entrant]:
    """What a name of --only stands for."""
    if name in OTHERS:
        known = OTHERS[name].techniques or OTHERS[name].others
        return [Entrant(name, technique) for technique in known]
    tuner, _, technique = name.rpartition(":")
    if tuner in OTHERS and technique in OTHERS[tuner].techniques + OTHERS[tuner].others:
        return [Entrant(tuner, technique)]
    if name in ("auto", *ALIASES, *techniques()):
        return [Entrant("", name)]
    raise UsageError(f"--only: there is no technique {name}; {suggestion(name, _names())}")


def _names() -> list[str]:
    others = [
        f"{tuner}:{technique}"
        for tuner, known in OTHERS.items()
        for technique in known.techniques + known.others
    ]
    return ["auto", *own_techniques(), *ALIASES, *OTHERS, *others, *techniques()]


def _lacking(tuners: Mapping[str, Tuner] | set[str] | list[str]) -> list[str]:
    """Of each of these that is not installed in the version compared with, a line that says so."""
    return [
        f"{name} takes no part: {told}; run: pip install 'harness[bench]'"
        for name, told in ((name, _why_lacking(OTHERS[name])) for name in tuners if name)
        if told
    ]


def _why_lacking(tuner: Tuner) -> str:
    """Why a tuner cannot take part; empty where it can."""
    try:
        found = importlib.metadata.version(tuner.package)
    except importlib.metadata.PackageNotFoundError:
        return f"{tuner.package} {tuner.version} is not installed"
    if found != tuner.version:
        return f"{tuner.package} {found} is installed, not {tuner.version}"
    return ""
