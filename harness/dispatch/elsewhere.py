"""Judge a dispatcher on another device than the one it was learnt on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.core.records import Environment
from harness.core.text import counted
from harness.dispatch.matrix import Matrix
from harness.dispatch.study import STATIC, Study, ratio_text
from harness.dispatch.verdict import Judged, PairedComparison, compare, in_hindsight
from harness.models.folds import FEWEST_INPUTS

_UNPINNED = ", threads not pinned"


@dataclass(frozen=True)
class DeviceTransfer:
    """A dispatcher on a device that it did not learn from, compared with the best single
    configuration of the tuned device, which runs there otherwise, on `inputs` held-out inputs."""

    name: str
    device: str
    platform: str
    inputs: int
    found: PairedComparison

    @property
    def is_faster(self) -> bool:
        """Whether choosing by input is likelier to pay there than one configuration."""
        return self.found.ratio.value < 1

    @property
    def sentence(self) -> str:
        """Say how it does there, and what follows."""
        what = f"what the {self.name} chooses" if self.is_faster else "one configuration for all"
        return (
            f"On {self.device} ({self.platform}), which it did not learn from, the {self.name} is "
            f"{ratio_text(self.found.ratio.inverse)} as fast as one configuration for all, on "
            f"{counted(self.inputs, 'held-out input')}: load() runs {what} there."
        )


def transfer_to(
    study: Study, name: str, other: Matrix, environment: Environment
) -> DeviceTransfer | None:
    """Judge the dispatcher of a study by the times of another device, on the inputs that both
    measured, each held out while it learnt; None where too few inputs have these times, or none of
    these inputs ever came."""
    static = in_hindsight(study.matrix, STATIC, study.seed).chosen
    chosen = study.judged[name].chosen
    assert chosen is not None
    assert static is not None
    ours, theirs = study.matrix, other.complete()
    names = list(ours.features.columns)
    if set(names) != set(theirs.features.columns):
        return None
    inputs = theirs.features[names].itertuples(index=False, name=None)
    row_of = {problem: row for row, problem in enumerate(inputs)}
    problems = ours.features.itertuples(index=False, name=None)
    rows = np.array([row_of.get(problem, -1) for problem in problems])
    index_of = {config: index for index, config in enumerate(theirs.candidates)}
    known = np.array([*(index_of.get(config, -1) for config in ours.candidates), -1])
    pairs = known[np.stack([chosen, static])]
    usable = (rows >= 0) & (pairs >= 0).all(axis=0)
    logs = theirs.log_slowdown[rows, pairs]
    usable &= ~np.isnan(logs).any(axis=0)
    weights = None if ours.weights is None else ours.weights[usable]
    if usable.sum() < FEWEST_INPUTS or (weights is not None and not weights.any()):
        return None
    failed = np.zeros(int(usable.sum()), dtype=bool)
    groups = ours.groups[usable]
    ways = [Judged(name, own[usable], groups, failed, weights=weights) for own in logs]
    device = environment.device.removesuffix(_UNPINNED)
    return DeviceTransfer(name, device, environment.platform, len(failed), compare(*ways))
