"""The techniques that are offered: the project's own, and those of OpenTuner's that run here."""

from __future__ import annotations

from collections.abc import Sequence

from opentuner.search import technique

from harness.core.errors import UsageError
from harness.core.text import suggestion
from harness.search.techniques.gaussian_process import GaussianProcess
from harness.search.techniques.self_contained import HillClimb, SelfContained, UniformRandom

OWN: tuple[technique.SearchTechnique, ...] = (GaussianProcess(), HillClimb(), UniformRandom())
"""OpenTuner copies each at the start of a run."""

OFFERED = (
    *("AUCBanditMetaTechniqueA", "AUCBanditMetaTechniqueB", "AUCBanditMutationTechnique"),
    *("DifferentialEvolution", "DifferentialEvolutionAlt", "DifferentialEvolution_20_100"),
    *("NormalGreedyMutation05", "NormalGreedyMutation10", "NormalGreedyMutation20"),
    *("UniformGreedyMutation05", "UniformGreedyMutation10", "UniformGreedyMutation20"),
    *("RandomNelderMead", "RegularNelderMead", "RightNelderMead", "PureRandom"),
    *("GGA", "ga-CX", "ga-OX1", "ga-OX3", "ga-PMX", "ga-PX", "ga-base"),
)
"""OpenTuner's own techniques that run with `harness.search.patches`; the others need more."""

DEFAULT_TECHNIQUE = "GaussianProcess"
"""The technique that `auto` means: the best of those compared on recorded spaces, and the one that
learns from other inputs and devices."""

for _technique in OWN:
    technique.register(_technique)


def techniques() -> tuple[str, ...]:
    """Return the names that --technique takes."""
    return tuple(sorted([*OFFERED, *(own.name for own in OWN)]))


def resolve_techniques(names: Sequence[str]) -> tuple[str, ...]:
    """Check the names of techniques, and replace `auto` by the default. Raises UsageError."""
    offered = techniques()
    resolved = tuple(DEFAULT_TECHNIQUE if name == "auto" else name for name in names)
    for name in resolved:
        if name not in offered:
            hint = suggestion(name, [*offered, "auto"], "--list-techniques lists them")
            raise UsageError(f"there is no technique {name}; {hint}")
    return resolved


def sole_technique(names: Sequence[str]) -> SelfContained | None:
    """Return the self-contained technique that has a run to itself, if there is one."""
    alone = [own for own in OWN if isinstance(own, SelfContained) and {*names} == {own.name}]
    return alone[0] if alone else None
