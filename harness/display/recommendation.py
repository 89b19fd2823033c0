"""The first sentence of a summary: which configuration to use where, and how much faster it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.analysis.inputs import InputReport
from harness.core.config_diff import DEFAULT, difference
from harness.core.records import Config
from harness.core.text import counted
from harness.dispatch.learners import Default
from harness.dispatch.program import TreeChoice
from harness.dispatch.study import STATIC, Study, ratio_text
from harness.dispatch.tree_text import rule
from harness.dispatch.verdict import compare

_UNCHANGED = "Keep the default: no configuration is significantly faster"


def recommendation(
    reports: Sequence[InputReport],
    found: Study | None,
    default: Config,
    everywhere: Config | None = None,
) -> str | None:
    """Say what to use: what was learnt across inputs or, where nothing is certain on held-out
    inputs, what was measured on each. None where nothing worked.

    `everywhere` is the configuration that no other beats on any input beyond noise, if there is
    one.
    """
    learnt = _across(found, default) if found is not None else None
    known = [report for report in reports if report.recommended]
    if learnt is not None or not known:
        return learnt
    is_any_faster = any(r.speedup and r.speedup.is_faster for r in known)
    if len(known) > 1 and is_any_faster and everywhere is not None and everywhere != default:
        name = difference(everywhere, default)
        return f"Use {name} on every input: no other configuration is faster beyond noise."
    measured = _of_inputs(known, default)
    if found is None or measured.startswith(_UNCHANGED):
        return measured
    return f"{measured} What to use on other inputs is not certain: that needs more inputs."


# ------------------------------------------------------------------------- across inputs


def _across(found: Study, default: Config) -> str | None:
    """Render the choice by input, else one configuration for all, where it is significantly faster
    on held-out inputs."""
    gain, inputs = found.gain(found.best), counted(len(found.matrix.features), "held-out input")
    if gain.is_better:
        over_one = f"{ratio_text(gain.ratio.inverse)} over one configuration for all"
        over = [text for text in (_over_default(found, found.best), over_one) if text]
        return f"{_choice(found, default)}: {', '.join(over)}, on {inputs}."
    (name, *others), faster = _static(found, default), _over_default(found, STATIC.name)
    if name == DEFAULT or not faster:
        return None
    where_illegal = f" ({', '.join(others)} where that is illegal)" if others else ""
    return (
        f"Use {name} on every input{where_illegal}: {faster}, on {inputs}. Choosing by input is "
        "not significantly faster."
    )


def _static(found: Study, default: Config) -> list[str]:
    """Name the best configuration for all inputs, and those for inputs where it is illegal."""
    matrix = found.matrix
    chosen = STATIC.fit(matrix, found.seed).indices(matrix.features, matrix.applies).tolist()
    used = sorted(set(chosen), key=chosen.count, reverse=True)
    return [difference(matrix.candidates[index], default) for index in used]


def _over_default(found: Study, name: str) -> str | None:
    """Render the speed-up of a choice over the default; None where it is not significant, or where
    the default was not judged."""
    default = found.judged.get(Default().name)
    if default is None:
        return None
    over = compare(found.judged[name], default)
    return f"{ratio_text(over.ratio.inverse)} over the default" if over.is_better else None


def _choice(found: Study, default: Config) -> str:
    """Render the choice as a rule; a large tree and an ensemble by the features that they read."""
    program = found.learnt(found.best).program(found.matrix.candidates)
    line = rule(program, default) if isinstance(program.choice, TreeChoice) else None
    if line is not None:
        return f"Use {line}{_where_illegal(found)}"
    features = " and ".join(found.matrix.features.columns)
    return f"Choose by {features}, with the {found.best} that harness.dispatch writes"


def _where_illegal(found: Study) -> str:
    """Say that a rule names configurations that are illegal on some of its inputs."""
    matrix, learnt = found.matrix, found.learnt(found.best)
    every = np.ones_like(matrix.applies)
    first = learnt.indices(matrix.features, every)
    is_legal = matrix.applies[np.arange(len(first)), first].all()
    return "" if is_legal else " (where that is illegal, harness.dispatch takes the next best)"


# ----------------------------------------------------------------------------- by input


def _of_inputs(known: Sequence[InputReport], default: Config) -> str:
    faster = [r.speedup for r in known if r.speedup and r.speedup.is_faster]
    names = {difference(r.recommended.config, default) for r in known if r.recommended}
    name = names.pop() if len(names) == 1 else None
    if name == DEFAULT:
        return f"{_UNCHANGED}." if len(known) == 1 else f"{_UNCHANGED} on any input."
    subject = "Use the configurations of the table" if name is None else f"Use {name}"
    if not faster:
        return f"{subject}. No speed-up over the default was measured."
    if len(known) == 1:
        return f"{subject}: {faster[0].text('.2f', 'x')} over the default."
    ratios = sorted(ratio.value for ratio in faster)
    span = f"{ratios[0]:.2f}x to {ratios[-1]:.2f}x" if len(ratios) > 1 else f"{ratios[0]:.2f}x"
    return f"{subject}: {span} over the default on {len(faster)} of {len(known)} inputs."
