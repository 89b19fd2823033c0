"""What a run notes of its space, for reports."""

from __future__ import annotations

import json
from collections.abc import Mapping

from harness.core.records import DeviceLimits, Statistic
from harness.results.flag_files import files_note
from harness.results.notes import BASELINES, LAUNCH_LIMITS, LIMITS, SPACE_FILE, STATISTIC
from harness.space.launches import launch_constraints
from harness.space_file import Spec


def space_notes(spec: Spec, earlier: Mapping[str, str]) -> dict[str, str]:
    """Return the notes on its space that a report needs; files are added to the `earlier` ones."""
    named = {b.name: dict(b.values) for b in spec.baselines}
    baselines = {BASELINES: json.dumps(named)} if named else {}
    statistic = spec.measure.statistic
    means = {} if statistic is Statistic.MEDIAN else {STATISTIC: statistic.value}
    return {SPACE_FILE: str(spec.path), **baselines, **means, **files_note(spec, earlier)}


def limit_notes(spec: Spec, limits: DeviceLimits) -> dict[str, str]:
    """Return the notes on a device's limits that generated code needs."""
    launches = {c.text: limit for c, limit in launch_constraints(spec.launch, limits).items()}
    return {LIMITS: json.dumps(limits.names()), LAUNCH_LIMITS: json.dumps(launches)}
