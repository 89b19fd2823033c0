"""Measure a written dispatcher again, to see whether its choices still hold where it runs now."""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from harness.api.dispatched_results import space_of
from harness.core.config_diff import difference
from harness.core.errors import HarnessError, UsageError
from harness.core.files import WRITTEN_BY
from harness.core.modules import load_module
from harness.core.records import Config, Input, Interleaved, Measurement, Outcome
from harness.dispatch.package import MANIFEST
from harness.display.progress import Display
from harness.measure.choose import fitted_to, open_measurer
from harness.measure.measurer import Measurer
from harness.measure.occasions import new_seed
from harness.options.dispatch import RecheckOptions
from harness.results.view import Results, read_results
from harness.space import ConstrainedSpace
from harness.space_file import Spec
from harness.space_file.workload import CALLS
from harness.stats.timing import TimeRatio, mean_ratio, time_ratio
from harness.tuning.finals import FINAL_OCCASIONS, seeds_of

_MOST = 3
"""Inputs of a leaf that are measured."""

_RISK = 0.05
"""The probability that any leaf whose choice holds is said to have lost."""


@dataclass
class _CheckedLeaf:
    """A leaf of the choice, as far as the space has inputs in it: what it chooses, what was
    measured of them, and whether the choice holds."""

    chosen: Config
    inputs: list[Input] = field(default_factory=list)
    measured: list[Interleaved] = field(default_factory=list)
    has_fallen: bool = False
    verdict: str = "not measured: the time was up"

    def judge(self, confidence: float, default: Config) -> None:
        """Compare the choice with each other configuration that worked on all measured inputs."""
        if not self.measured:
            return
        self.verdict = "holds"
        for measurement in itertools.chain(*self.measured):
            if measurement.config == self.chosen and measurement.timing is None:
                outcome = str(measurement.outcome).removesuffix("_result")
                self.has_fallen = True
                self.verdict = f"{outcome} on ({measurement.input}): {measurement.message}"
                return
        losses: dict[Config, float] = {}
        for other in self.measured[0]:
            loss = self._loss_to(other.config, confidence)
            if loss is not None and loss.is_faster:
                losses[other.config] = loss.value
        if losses:
            faster = max(losses, key=losses.__getitem__)
            self.has_fallen = True
            self.verdict = f"{losses[faster]:.2f}x lost to {difference(faster, default)}"

    def _loss_to(self, config: Config, confidence: float) -> TimeRatio | None:
        """Return how many times longer the choice takes; None where the other one failed."""
        ratios = []
        for measured in self.measured:
            timings = {m.config: m.timing for m in measured}
            chosen, other = timings[self.chosen], timings.get(config)
            if chosen is None or other is None:
                return None
            ratios.append(time_ratio(chosen, other, confidence))
        return mean_ratio(ratios)


@dataclass(frozen=True)
class _Rechecked:
    """A dispatcher that was measured again, of a space, on a device; its leaves, and where it was
    tuned."""

    spec: Spec
    leaves: Sequence[_CheckedLeaf]
    tuned_on: str
    measured_on: str

    def workload(self) -> str:
        """Return the inputs of fallen leaves as a workload, for `tune --inputs-from`."""
        features = self.spec.features
        lines = [f"# {WRITTEN_BY}: inputs whose choice fell", ",".join([*features, CALLS])]
        for leaf in self.leaves:
            if leaf.has_fallen:
                for problem in leaf.inputs:
                    values = [str(problem[name]) for name in features]
                    lines.append(",".join([*values, "1"]))
        return "\n".join(lines) + "\n"


def recheck(options: RecheckOptions, display: Display) -> _Rechecked:
    """Measure the configurations of a dispatcher, and the default, interleaved on inputs of each
    leaf in turn; the results are verified. The folder's own code says which leaf an input is in.

    Raises UsageError for another folder, and where the kernel has changed since.
    """
    shipped = _loaded(options.folder)
    spec = _space(options, shipped)
    end_s = time.monotonic() + (options.max_time_s or math.inf)
    measurer, _ = open_measurer(spec, "auto")
    with closing(measurer):
        spec = fitted_to(spec, measurer)
        leaves = _leaves(shipped, spec)
        rng = random.Random(options.seed)
        drawn = [rng.sample(leaf.inputs, min(_MOST, len(leaf.inputs))) for leaf in leaves]
        display.begin_stage("portfolio, interleaved", sum(map(len, drawn)))
        for turn in itertools.zip_longest(*drawn):
            for leaf, problem in zip(leaves, turn, strict=True):
                if problem is not None and time.monotonic() < end_s:
                    leaf.measured.append(_measured(measurer, spec, shipped, leaf, problem))
                    display.step(str(problem))
    claims = len(leaves) * len(shipped.PORTFOLIO)
    for leaf in leaves:
        leaf.judge(1 - _RISK / max(1, claims), spec.default)
    tuned = shipped.PROVENANCE
    tuned_on = f"{tuned['device']} ({tuned['platform']}, driver {tuned['driver']})"
    return _Rechecked(spec, leaves, tuned_on, str(measurer.environment))


def _loaded(folder: Path) -> ModuleType:
    """Load the Python module of a dispatcher's folder."""
    modules = list(folder.glob("*/__init__.py"))
    if len(modules) != 1 or not (folder / MANIFEST).is_file():
        raise UsageError(f"{folder} is no folder of a dispatcher; name what `dispatch -o` wrote")
    module = load_module(modules[0], f"rechecked_{modules[0].parent.name}")
    assert module is not None
    return module


def _space(options: RecheckOptions, shipped: ModuleType) -> Spec:
    """Load the space: the file that is named, or that of the database."""
    if shipped.PROVENANCE["backend"] == "opentuner":
        raise UsageError(
            f"{options.folder} was learnt from results of OpenTuner alone, which do not say how "
            "they were measured: tune the space with harness, and dispatch that"
        )
    campaigns: list[Results] = []
    if options.spec is None:
        try:
            campaigns = read_results(shipped.PROVENANCE["databases"], shipped.NAME)
        except HarnessError as error:
            raise UsageError(f"{error}. Name the space's file with --spec FILE") from None
    spec = space_of(options.spec, campaigns)
    if spec.program_sha256 != shipped.PROVENANCE["kernel_sha256"]:
        raise UsageError(
            f"{spec.path} is not what {options.folder} was tuned for: the kernel, the host "
            "module, the launch or the verification differs; name that space with --spec, or tune "
            "again"
        )
    return spec


def _leaves(shipped: ModuleType, spec: Spec) -> list[_CheckedLeaf]:
    """Sort the inputs of the space by the leaf of the tree and the configuration that is chosen."""
    shipped.count_calls(None)  # nobody calls the kernel here
    leaves: dict[tuple[int, int], _CheckedLeaf] = {}
    for problem in spec.inputs:
        values = [problem[name] for name in shipped.FEATURES]
        try:
            place = shipped.leaf_index(*values), shipped.select_index(*values)
        except LookupError:  # no configuration applies
            continue
        except TypeError as error:
            raise UsageError(f"{spec.path}: {error}") from None
        leaf = _CheckedLeaf(Config(shipped.PORTFOLIO[place[1]]))
        leaves.setdefault(place, leaf).inputs.append(problem)
    return list(leaves.values())


def _measured(
    measurer: Measurer, spec: Spec, shipped: ModuleType, leaf: _CheckedLeaf, problem: Input
) -> Interleaved:
    """Measure what is legal of the portfolio, and the default; a choice that is illegal failed."""
    space = ConstrainedSpace.of(spec, problem, measurer.limits, measurer.compiler)
    leaf.chosen = space.canonical(leaf.chosen)
    configs = [space.canonical(Config(values)) for values in shipped.PORTFOLIO]
    configs.append(space.canonical(space.default))
    legal = [config for config in dict.fromkeys(configs) if space.is_legal(config)]
    rounds = max(FINAL_OCCASIONS, spec.measure.repeats)
    taken = measurer.measure_interleaved(space, problem, legal, rounds, seeds_of(new_seed()))
    why = space.why_illegal(leaf.chosen)
    if why is not None:
        taken.append(Measurement(leaf.chosen, problem, Outcome.ILLEGAL, message=why))
    return taken
