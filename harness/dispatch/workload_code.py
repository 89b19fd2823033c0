"""How generated code writes the calls that it counts: the parts of the lines of a workload."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.core.config_diff import difference
from harness.dispatch.dispatcher import Dispatcher
from harness.dispatch.features import Feature
from harness.dispatch.formulas import Type
from harness.dispatch.spelling import c_string, plain
from harness.space_file.workload import CALLS, CHOICE, REASON, REASONS, TITLE, UNKNOWN

_LONGEST_NUMBER = 25  # characters of a double, with its comma


def header_of(dispatcher: Dispatcher) -> str:
    """Return the lines that a workload begins with."""
    columns = [*(feature.name for feature in dispatcher.features), CALLS, CHOICE, REASON]
    return f"{TITLE}{dispatcher.name}\n{csv_line(columns)}"


def choices_of(dispatcher: Dispatcher) -> list[str]:
    """Describe each configuration by its changes from the default."""
    configs = dispatcher.program.portfolio
    return [plain(difference(config, dispatcher.constants)) for config in configs]


def csv_line(cells: Sequence[str]) -> str:
    """Return cells as a line of CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()


def _cell(text: str) -> str:
    """Return a text as a cell that another one follows."""
    return csv_line([text, ""]).removesuffix("\n")


@dataclass(frozen=True)
class WorkloadInC:
    """The parts of a line as C writes them: texts are literals, and end with their comma."""

    header: str
    kinds: Sequence[str | list[str]]
    bits: Sequence[str]
    choices: Sequence[str]
    reasons: Sequence[str]
    longest: int


def workload_in_c(dispatcher: Dispatcher) -> WorkloadInC:
    """Write the parts of a line for the features, the configurations and the reasons."""
    features = dispatcher.features
    words = {f.name: [_cell(word) for word in (*f.words, UNKNOWN)] for f in features}
    choices = [_cell(text) for text in choices_of(dispatcher)]
    # Without a choice, its cell is empty, and its comma comes with the reason.
    reasons = [("," if reason == "none" else "") + reason + "\n" for reason in REASONS]
    parts = [*(words[f.name] for f in features), choices, reasons]
    longest = sum(max(len(text.encode()) for text in part) for part in parts)
    return WorkloadInC(
        c_string(header_of(dispatcher)),
        [_kind(feature, words[feature.name]) for feature in features],
        list(_bits(dispatcher)),
        list(map(c_string, choices)),
        list(map(c_string, reasons)),
        longest + (len(features) + 1) * _LONGEST_NUMBER,
    )


def _kind(feature: Feature, words: Sequence[str]) -> str | list[str]:
    if feature.type is Type.WORD:
        return list(map(c_string, words))
    return feature.type.name.lower()


def _bits(dispatcher: Dispatcher) -> Iterator[str]:
    for feature in dispatcher.features:
        if feature.type is Type.REAL:
            yield f"{dispatcher.name}_bits({feature.variable})"
        else:
            yield f"(uint64_t){feature.variable}"
