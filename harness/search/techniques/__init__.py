"""The project's own search techniques, registered with OpenTuner's."""

from __future__ import annotations

from collections.abc import Sequence

from opentuner.search import technique

from harness.search.techniques.gaussian_process import GaussianProcess
from harness.search.techniques.self_contained import (
    REFUSALS,
    HillClimb,
    SelfContained,
    UniformRandom,
)

OWN: tuple[technique.SearchTechnique, ...] = (
    GaussianProcess(),
    HillClimb(),
    UniformRandom(),
)
"""OpenTuner copies each at the start of a run."""

for _technique in OWN:
    technique.register(_technique)


def own_techniques() -> tuple[str, ...]:
    """Return the names of the project's own techniques."""
    return tuple(own.name for own in OWN)


def transfer_techniques() -> tuple[str, ...]:
    """Return the names of the techniques that learn from other inputs and devices."""
    return tuple(own.name for own in OWN if isinstance(own, GaussianProcess))


def sole_technique(names: Sequence[str]) -> SelfContained | None:
    """Return the self-contained technique that has a run to itself, if there is one."""
    if len(set(names)) != 1:
        return None
    alone = (own for own in OWN if isinstance(own, SelfContained))
    return next((own for own in alone if own.name == names[0]), None)


__all__ = [
    "OWN",
    "REFUSALS",
    "GaussianProcess",
    "SelfContained",
    "UniformRandom",
    "own_techniques",
    "sole_technique",
    "transfer_techniques",
]
