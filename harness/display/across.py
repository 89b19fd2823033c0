"""Sections of the choice of a configuration by input, and of how good it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from rich.console import Console

from harness.core.invocation import command_line
from harness.core.records import Config
from harness.dispatch.choice import LearntSelector
from harness.dispatch.most import PORTFOLIOS_HEAD, PORTFOLIOS_TITLE, portfolio_rows
from harness.dispatch.study import Study
from harness.dispatch.text import (
    VERDICT_HEAD,
    rule,
    rule_lines,
    shown_tree,
    tree_lines,
    verdict_rows,
    verdict_title,
)
from harness.display.text import Section, SectionTable, print_lines

_MOST_LINES = 40  # of a tree in a summary; analyse prints it whole
_CHOICE = "Choice by input"


def choice_sections(study: Study | str, default: Config) -> Iterator[Section]:
    """Show which configuration suits which input, the verdict on held-out inputs, and what few
    configurations reach; or only why nothing was learnt, which the text says, or is gained."""
    if isinstance(study, str):
        yield Section("choice", _CHOICE, [study])
        return
    summed_up = study.sentence(study.best)
    if not study.has_choice:
        yield Section("choice", _CHOICE, [summed_up])
        return
    heading, *lines = rule_lines(study)
    yield Section("choice", _CHOICE, [heading], lines=lines)
    learnt = {name: study.learnt(name) for name in study.dispatchers}
    yield verdict_section(study, learnt, summed_up)
    table = SectionTable(PORTFOLIOS_HEAD, portfolio_rows(study.portfolios, default), range(3))
    yield Section("portfolios", "Few configurations", [f"{PORTFOLIOS_TITLE}:"], table=table)


def verdict_section(
    study: Study, learnt: Mapping[str, LearntSelector] = MappingProxyType({}), summed_up: str = ""
) -> Section:
    """Show a row for each way to choose; for what was learnt from all inputs also its leaves."""
    texts = [*filter(None, [summed_up]), f"{verdict_title(study)}:"]
    table = SectionTable(VERDICT_HEAD, verdict_rows(study, learnt))
    return Section("verdict", "Verdict on held-out inputs", texts, table=table, lines=study.notes)


def print_rule(console: Console, study: Study, default: Config) -> None:
    """Print the choice by input as nested conditions, where it pays and does not fit on a line."""
    if not study.gain(study.best).is_better:
        return
    name, heading = shown_tree(study)
    program = study.learnt(name).program(study.matrix.candidates)
    if name == study.best and rule(program, default) is not None:
        return  # the first sentence says it
    lines = list(tree_lines(program, default))
    hidden = len(lines) - _MOST_LINES
    more = [f"{hidden} more lines: {command_line('analyse')} prints them"] if hidden > 0 else []
    print_lines(
        console, [f"{heading}:", *(f"    {line}" for line in [*lines[:_MOST_LINES], *more]), ""]
    )
