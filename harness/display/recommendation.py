"""Which configuration to use where, and how much faster it is: the first sentence of a summary, and
the sections of the choice by input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from rich.console import Console

from harness.analysis.inputs import InputReport
from harness.core.config_diff import DEFAULT, difference
from harness.core.records import Config
from harness.core.text import counted, first_few
from harness.dispatch.learners import Default
from harness.dispatch.most import PORTFOLIOS_HEAD, PORTFOLIOS_TITLE, portfolio_rows
from harness.dispatch.single import Single
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
from harness.display.inputs import ONLY_DEFAULT, tried_text
from harness.display.text import Section, SectionTable, print_lines
from harness.models.folds import ENOUGH_INPUTS

_CHOICE = "Choice by input"


def recommendation(
    reports: Sequence[InputReport], study: Study | None, single: Single | None, default: Config
) -> str | None:
    """Say what to use: the choice by input where it is significantly faster on held-out inputs,
    else the single configuration. None where nothing worked."""
    working = [report for report in reports if report.recommended]
    if not working or single is None:
        return None
    broken = [str(r.problem) for r in reports if r.measured and not r.recommended]
    missing = sum(not r.measured for r in reports)
    text = _what_to_use(working, study, single, default)
    if broken:
        text = f"{text} Nothing worked on {first_few(broken)}."
    if missing:
        verb = "was" if missing == 1 else "were"
        text = f"{text} {missing} of {counted(len(reports), 'input')} {verb} not measured."
    return text


def _what_to_use(
    working: Sequence[InputReport], study: Study | None, single: Single, default: Config
) -> str:
    if study is not None and study.gain(study.best).is_better:
        return _by_input(study, default)
    if single.lacking:
        return f"{_of_inputs(working, default)} {single.lacking}"
    text = _of_single(single, default, len(working))
    if single.loss is None:
        if single.config == default and not single.others:
            return f"{text}: {_nothing('faster', working)}."
        is_whole = single.inputs == len(working) > 1
        return f"{text}; {_nothing('better', working)}." if is_whole else f"{text}."
    report, ratio = single.loss
    assert report.recommended is not None  # a loss is one against it
    name = difference(report.recommended.config, default)
    faster = f"On {report.problem}, {name} is {ratio.text('.2f', 'x')} as fast."
    return f"{text}. {faster} {_of_choice(study, len(working))}"


def _by_input(study: Study, default: Config) -> str:
    """Render the choice by input with its speed-ups on held-out inputs."""
    gain, inputs = study.gain(study.best), counted(len(study.matrix.features), "held-out input")
    over_one = f"{gain.ratio.inverse.text('.3f', 'x')} over one configuration for all"
    over = [text for text in (_over_default(study, study.best), over_one) if text]
    return f"{_choice(study, default)}: {', '.join(over)}, on {inputs}."


def _nothing(what: str, working: Sequence[InputReport]) -> str:
    """Say that nothing faster, or nothing better, was found among how many configurations."""
    tried = tried_text(working)
    if tried == ONLY_DEFAULT:
        return tried
    return f"nothing {what} was found ({tried})" if tried else f"nothing {what} was found"


def _of_single(single: Single, default: Config, inputs: int) -> str:
    """Render the configuration to use on all inputs, with its speed-up over the default."""
    name, everywhere = difference(single.config, default), " on every input" if inputs > 1 else ""
    text = f"Keep the default{everywhere}" if name == DEFAULT else f"Use {name}{everywhere}"
    if single.others:
        others = ", ".join(difference(config, default) for config in single.others)
        text += f" ({others} where that is illegal)"
    if name == DEFAULT:
        return text
    if single.speedup is None:
        return f"{text}. Its speed-up over the default is not known"
    on = f", on {single.inputs} of {inputs} inputs" if single.inputs < inputs else ""
    noise = "" if single.speedup.is_faster else ", within noise"
    return f"{text}: {single.speedup.text('.2f', 'x')} over the default{noise}{on}"


def _of_choice(study: Study | None, inputs: int) -> str:
    """Say what is known of choosing by input, which does not pay so far."""
    if study is None:
        needed = f"Tune some {ENOUGH_INPUTS} inputs to see if choosing by input pays"
        return f"{needed}; there are {inputs}."
    more = f"; tune some {ENOUGH_INPUTS} to know more" if inputs < ENOUGH_INPUTS else ""
    return f"Choosing by input is not significantly faster on {inputs} held-out inputs{more}."


def _over_default(study: Study, name: str) -> str | None:
    """Render the speed-up of a choice over the default; None where it is not significant, or where
    the default was not judged."""
    default = study.slowdowns.get(Default().name)
    if default is None:
        return None
    over = study.slowdowns[name].over(default)
    return f"{over.ratio.inverse.text('.3f', 'x')} over the default" if over.is_better else None


def _choice(study: Study, default: Config) -> str:
    """Render the choice as a rule; a large tree and an ensemble by the features that they read."""
    program = study.learnt(study.best).program(study.matrix.candidates)
    line = rule(program, default) if program.choice.tree is not None else None
    if line is not None:
        return f"Use {line}{_where_illegal(study)}"
    features = " and ".join(study.matrix.features.columns)
    return f"Choose by {features}, with the {study.best} that harness dispatch writes"


def _where_illegal(study: Study) -> str:
    """Say that a rule names configurations that are illegal on some of its inputs."""
    matrix, learnt = study.matrix, study.learnt(study.best)
    every = np.ones_like(matrix.applies)
    first = learnt.indices(matrix.features, every)
    is_legal = matrix.applies[np.arange(len(first)), first].all()
    return "" if is_legal else " (where that is illegal, harness dispatch takes the next best)"


# ----------------------------------------------------------------------------- by input


def _of_inputs(working: Sequence[InputReport], default: Config) -> str:
    faster = [r.speedup for r in working if r.speedup and r.speedup.is_faster]
    names = {difference(r.recommended.config, default) for r in working if r.recommended}
    if names == {DEFAULT}:
        return f"Keep the default on every input: {_nothing('significantly faster', working)}."
    subject = f"Use {names.pop()}" if len(names) == 1 else "Use the configurations of the table"
    if not faster:
        return f"{subject}. No speed-up over the default was measured."
    ratios = sorted(ratio.value for ratio in faster)
    span = f"{ratios[0]:.2f}x to {ratios[-1]:.2f}x" if len(ratios) > 1 else f"{ratios[0]:.2f}x"
    return f"{subject}: {span} over the default on {len(faster)} of {len(working)} inputs."


# ---------------------------------------------------------------- the sections of the choice


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
    yield verdict_section(study, summed_up)
    table = SectionTable(PORTFOLIOS_HEAD, portfolio_rows(study.portfolios, default), range(3))
    yield Section("portfolios", "Few configurations", [f"{PORTFOLIOS_TITLE}:"], table=table)


def verdict_section(study: Study, summed_up: str = "") -> Section:
    """Show a row for each way to choose."""
    texts = [*filter(None, [summed_up]), f"{verdict_title(study)}:"]
    table = SectionTable(VERDICT_HEAD, verdict_rows(study))
    return Section("verdict", "Verdict on held-out inputs", texts, table=table, lines=study.notes)


def print_rule(console: Console, study: Study, default: Config) -> None:
    """Print the choice by input as nested conditions, where it pays and does not fit on a line."""
    if not study.gain(study.best).is_better:
        return
    name, heading = shown_tree(study)
    program = study.learnt(name).program(study.matrix.candidates)
    if name == study.best and rule(program, default) is not None:
        return  # the first sentence says it
    lines = (f"    {line}" for line in tree_lines(program, default))
    print_lines(console, [f"{heading}:", *lines, ""])
