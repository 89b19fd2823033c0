"""The findings on one space and one device, computed once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from harness.analysis import SLOWDOWN
from harness.analysis.bits import EqualBits, equal_bits
from harness.analysis.coverage import input_reports
from harness.analysis.explain import Explanation, explain, samples
from harness.analysis.inputs import InputReport
from harness.analysis.sensors import InputEnergy, input_energies
from harness.core.cache import Cache, content_key
from harness.core.errors import UsageError
from harness.core.records import Config
from harness.dispatch.candidates import matrix_of
from harness.dispatch.learners import Learner
from harness.dispatch.matrix import Matrix
from harness.dispatch.single import Single, single_of
from harness.dispatch.study import Study, learners
from harness.dispatch.text import rule_lines, why_nothing
from harness.dispatch.weighted import Coverage, weigh
from harness.display.inputs import tried_text
from harness.display.recommendation import recommendation
from harness.measure.sensors.energy import POWER
from harness.models.starchart import TreeTarget
from harness.results.view import Results
from harness.space_file.workload import read_workload

T = TypeVar("T")


@dataclass(frozen=True)
class Findings:
    """What is found in results; each is computed when it is first read.

    Inputs are weighed by the workload `weights`. Choices by input are learnt with the `seed`, among
    at most so many configurations; `step` is called for each that was judged.
    """

    results: Results
    cache: Cache = field(default_factory=Cache.of_user)
    weights: Path | None = None
    learners: Sequence[Learner] = field(default_factory=learners)
    seed: int = 0
    most: int | None = None
    step: Callable[[str], None] = lambda name: None

    @property
    def default(self) -> Config:
        """The configuration from which others list their changes."""
        return self.results.default or self.results.campaign.default

    @cached_property
    def reports(self) -> list[InputReport]:
        """The report of each input, with the inputs that were not measured last."""
        return input_reports(self.results)

    @cached_property
    def matrix(self) -> Matrix:
        """The times of the configurations to choose from, on every input on which any worked,
        weighed by the workload if there is one."""
        return self._weighed[0]

    @property
    def coverage(self) -> Coverage | None:
        """How much of the workload the tuned range covers; None without one."""
        return self._weighed[1]

    @cached_property
    def _weighed(self) -> tuple[Matrix, Coverage | None]:
        matrix, inputs = matrix_of(self.results), tuple(self.results.measured)
        if self.weights is None or matrix.comparable().features.empty:
            return matrix, None
        names = tuple(map(str, matrix.features.columns))
        space = re.sub(r"\W", "_", self.results.campaign.space_name, flags=re.ASCII)
        return weigh(matrix, read_workload(self.weights, space, names, inputs))

    @cached_property
    def across(self) -> Study | None:
        """The choice by input and its verdict; None where there are too few inputs."""
        try:
            return Study.of(self.matrix, self.learners, self.seed, self.step, self.cache, self.most)
        except ValueError:
            return None

    @cached_property
    def single(self) -> Single | None:
        """The configuration to use on every input; None where nothing worked."""
        return single_of(self.matrix, self.reports, self.results.finals, self.default)

    @cached_property
    def advice(self) -> str:
        """Say in a sentence which configurations to use, and how much faster they are."""
        text = recommendation(self.reports, self.across, self.single, self.default)
        return text or "No configuration worked on any input."

    @property
    def tried(self) -> str:
        """Say how many configurations were tried of how many legal ones, as far as known."""
        return tried_text(self.reports)

    @property
    def rule(self) -> str:
        """Say which configuration to use for which input, or why that is not known."""
        return "\n".join(rule_lines(self.across)) if self.across else self.why_no_choice

    @property
    def verdict(self) -> str:
        """Say whether choosing by input is worth it, or why that is not known."""
        return self.across.sentence(self.across.best) if self.across else self.why_no_choice

    @property
    def why_no_choice(self) -> str:
        """Say why nothing was learnt across inputs; empty where something was."""
        if self.across is not None:
            return ""
        return why_nothing(self.matrix) or "All inputs are of one group: none can be held out."

    @cached_property
    def explanation(self) -> Explanation | None:
        """The tree of slowdowns and its accuracy; None where there are too few samples."""
        return self._explained(TreeTarget(SLOWDOWN, log=True))

    @cached_property
    def energies(self) -> list[InputEnergy]:
        """The energy of launches on each input on which any is known."""
        return input_energies(self.results, self.reports)

    @cached_property
    def bits(self) -> EqualBits | None:
        """The configurations with equal bits; None where no bits are known."""
        return equal_bits(self.results)

    @cached_property
    def power(self) -> Explanation | None:
        """The tree of the power and its accuracy; None where it is known of too few samples."""
        return self._explained(TreeTarget(POWER)) if self.energies else None

    def _explained(self, target: TreeTarget) -> Explanation | None:
        try:
            return explain(samples(self.results), target, self.cache)
        except UsageError:
            return None

    def picture(self, plot: Callable[[T], str], data: T, shown: object = None) -> str:
        """Draw a plot, or recall it: drawing takes longer than all the rest of a report.

        `shown` is what the plot shows of its data, where that is not the data itself.
        """
        key = content_key("picture", plot.__name__, data if shown is None else shown)
        return self.cache.recall(key, lambda: plot(data))
