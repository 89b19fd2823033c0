"""Sentences about all measurements of a campaign."""

from __future__ import annotations

from collections.abc import Iterator

from harness.core.records import OTHER_PROCESSES
from harness.core.text import counted, first_few, printable
from harness.results.notes import OPENTUNER, devices_of
from harness.results.view import Results


def record_lines(results: Results) -> Iterator[str]:
    """Yield a sentence about what another tuner's record lacks, and one about the measurements that
    do not fit the current space, if any."""
    if results.is_recorded:
        goals = {notes.get("objective", "") for notes in results.notes.values()}
        goal = first_few(map(printable, sorted(goals)), ", ")
        yield (
            f"These are results of {OPENTUNER} alone (objective {goal}): one time each, without "
            "samples, and no word on whether outputs were verified. The default is the first seed "
            "or test."
        )
    facts = [run.notes.get("facts", {}) for run in results.runs]
    devices = devices_of(facts)
    if len(devices) > 1:
        names = first_few(map(printable, devices), ", ")
        yield (
            f"{len(devices)} devices of one name measured this: {names}. They may differ in "
            "speed. To measure all on one of them, name it with --device and tune again with "
            "--fresh."
        )
    others = [fact[OTHER_PROCESSES] for fact in facts if OTHER_PROCESSES in fact]
    if others:
        yield (
            f"Other processes used the device when {len(others)} of "
            f"{counted(len(results.runs), 'run')} began, and may have disturbed the times: "
            f"{first_few(map(printable, dict.fromkeys(others)))}."
        )
    if results.fitting.sentence:
        yield results.fitting.sentence
