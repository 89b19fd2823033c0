"""Times of the few configurations that a dispatcher may choose from, on every input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from harness.constraints.expression import Expression
from harness.core.config_diff import preference
from harness.core.invocation import command_line
from harness.core.records import Config, Input, Interleaved, Value
from harness.dispatch.matrix import Matrix, make_matrix
from harness.dispatch.portfolio import fastest_overall, greedy_portfolio, static_order
from harness.dispatch.times import Times, half_log, interleaved_times, searched_times
from harness.results.campaigns import Command
from harness.results.measured import Measured, MeasuredConfigs
from harness.results.schema import CROSS
from harness.stats.interleaved import (
    merge_sessions,
    refuted,
    unshown_gains,
)

if TYPE_CHECKING:
    from harness.results.view import Results

_MOST_CANDIDATES = 200
"""In a matrix; beyond that, those of the least mean slowdown, and the winners."""

_MOST_MEMBERS = 8  # of a portfolio that is measured interleaved
_MOST_SINGLE = 3  # best ones for all inputs, which choosing by input has to beat

Applies = Callable[[Input, Config], bool]
"""Whether a configuration may be chosen on an input."""


_SEEDS = "Give OpenTuner the same seed configurations on every input."


def matrix_of(results: Results) -> Matrix:
    """Make the matrix of the candidates' times on every input on which anything worked.

    Where the same candidates were measured interleaved on all of these inputs, times are trimmed
    geometric means of those samples, and each input's best time is the best interleaved one,
    finalists included. Otherwise the candidates are the default, every winner, and what was
    measured on all inputs, as the search and the measurements across inputs timed them; the
    matrix's note says so.

    Of candidates with the same times everywhere, such as those with equal machine code, only the
    first is kept. A candidate applies where the space's constraints hold. The default has the
    index 0; candidates that were measured interleaved are in the order in which equally fast ones
    are chosen (`preference`).

    All inputs take part in choosing the candidates. `harness.dispatch.verdict.held_out` removes
    those that only held-out inputs won.
    """
    known = {problem: row for problem, row in results.measured.items() if row.works()}
    applies = applies_where(map(Expression, results.constraints), results.limits)
    choices = [name for name, role in results.campaign.roles.items() if role == "choice"]
    sessions, default = results.candidates, results.default
    matrix = interleaved_matrix(known, results.interleaved, sessions, default, applies)
    if matrix is not None:
        return replace(matrix, choices=frozenset(choices))
    times = searched_times(known, default, _MOST_CANDIDATES)
    count = sum(problem in sessions for problem in known)
    return replace(
        _matrix(times, applies),
        choices=frozenset(choices),
        note="" if times.are_recorded else _note(count, len(known)),
        remedy=_SEEDS if results.is_recorded else crossing_advice(results.commands),
    )


def interleaved_matrix(
    known: Mapping[Input, Measured],
    every: Mapping[Input, Sequence[Interleaved]],
    sessions: Mapping[Input, Sequence[Interleaved]],
    default: Config,
    applies: Applies,
) -> Matrix | None:
    """Make the matrix of the times in the candidates' interleaved `sessions`; None where these do
    not have the same candidates on every input.

    `known` is what the search measured; its failures are not tried again. `every` has all
    interleaved sessions, those of candidates last: others time what is no candidate. A
    configuration that failed in any of them, such as on the other data of the finals, is a failure
    whatever others say, unless that may have been chance. One whose gain first runs do not show
    takes as long as the default there.
    """
    if not known or not all(problem in sessions for problem in known):
        return None
    tried = {m.config for problem in known for group in sessions[problem] for m in group}
    tried.add(default)
    unshown = {problem: unshown_gains(every[problem], default) for problem in known}
    failed = {
        problem: {m.config: m for m in MeasuredConfigs.of(row).failures(tried)}
        | {c: m for c, m in refuted(every[problem]).items() if c not in unshown[problem]}
        for problem, row in known.items()
    }
    worked = {p: {**merge_sessions(sessions[p], is_scaled=False), **failed[p]} for p in known}
    common = _interleaved_everywhere(worked, sessions, applies)
    if not common:
        return None
    own, all_times = (
        {p: {**merge_sessions(found[p]), **failed[p]} for p in known} for found in (sessions, every)
    )
    for times in (own, all_times):
        for problem, configs_there in unshown.items():
            if default in times[problem]:
                as_default = times[problem][default]
                times[problem] |= {c: replace(as_default, config=c) for c in configs_there}
    common.sort(key=lambda config: preference(config, default))
    configs = list(dict.fromkeys([default, *common]))
    matrix = _matrix(interleaved_times(all_times, configs), applies)
    reference = matrix.candidates[fastest_overall(matrix)]
    return replace(matrix, half_log=half_log(own, matrix.candidates, reference))


def crossing_advice(commands: Sequence[Command]) -> str:
    """Say what measures winners on the inputs on which the last command did not."""
    last = max(commands, key=lambda command: command.started_at, default=None)
    if last is not None and last.ended_at is None:
        return "The last run was stopped: the same command goes on, and measures winners on them."
    if last is not None and last.stages.get(CROSS):
        return "The time was up: tune again with a longer --max-time."
    if last is not None and CROSS in last.stages:
        return "Tune again, with more tests."
    return f"`{command_line('tune')}` without --no-cross measures winners on the others."


def applies_where(constraints: Iterable[Expression], limits: Mapping[str, int]) -> Applies:
    """Return a test of whether constraints over features, parameters and the device's numbers hold;
    constraints that name anything unknown are ignored."""
    listed = list(constraints)
    by_config: dict[Config, bool] = {}  # what does not depend on the input, for 10^5 inputs

    def holds(problem: Mapping[str, Value], config: Config, judged: Iterable[Expression]) -> bool:
        values = {**problem, **config, **limits}
        return all(bool(c.holds(values)) for c in judged if c.names <= values.keys())

    def applies(problem: Input, config: Config) -> bool:
        if config not in by_config:
            by_config[config] = holds({}, config, listed)
        concerned = [c for c in listed if not c.names.isdisjoint(problem)]
        return by_config[config] and (not concerned or holds(problem, config, concerned))

    return applies


def shortlist(known: Mapping[Input, Measured], default: Config, applies: Applies) -> list[Config]:
    """List what is worth measuring again on every input, interleaved: the default, a portfolio that
    suits the inputs best, and the best for all of them, as the search timed them.

    Only configurations that were measured wherever they apply; empty for a single input, whose
    winner is the answer.
    """
    if len(known) < 2:
        return []
    matrix = _matrix(searched_times(known, default, _MOST_CANDIDATES), applies).comparable()
    if len(matrix.features) == 0:
        return []
    indices = [*greedy_portfolio(matrix, _MOST_MEMBERS), *static_order(matrix)[:_MOST_SINGLE]]
    return [
        matrix.candidates[index]
        for index in dict.fromkeys([0, *indices])
        if matrix.applies[:, index].any()
    ]


# ------------------------------------------------------------------ interleaved times


def _interleaved_everywhere(
    interleaved: Mapping[Input, Measured],
    sessions: Mapping[Input, Sequence[Interleaved]],
    applies: Applies,
) -> list[Config]:
    """Return the configurations that were measured interleaved on every input where they apply and
    had worked.

    Empty if some input was measured only for other candidates, since then they have little in
    common, or if nothing worked in the interleaved rounds.
    """
    if not all(any(m.timing for m in row.values()) for row in interleaved.values()):
        return []
    measured = dict.fromkeys(c for row in interleaved.values() for c, m in row.items() if m.timing)
    common = [
        c for c in measured if all(c in row or not applies(i, c) for i, row in interleaved.items())
    ]
    names = set(common)
    is_whole = all(
        any(_working(session, row) <= names for session in sessions[problem])
        or all(config not in row or not row[config].timing for config in common)
        for problem, row in interleaved.items()
    )
    return common if is_whole else []


def _working(session: Interleaved, row: Measured) -> set[Config]:
    """Return the configurations of a session that are no failures."""
    return {m.config for m in session if m.config in row and row[m.config].timing}


def _note(count: int, inputs: int) -> str:
    """Say why the times are the search's, where candidates were measured on `count` inputs."""
    if not count:
        why = "candidates were not measured interleaved"
    elif count < inputs:
        why = f"candidates were measured interleaved on {count} of {inputs} inputs"
    else:
        why = "inputs were measured interleaved with different candidates"
    return (
        f"Times are the search's, each taken at another moment: {why}. `{command_line('tune')}` "
        "with all inputs, and without --no-cross, measures candidates interleaved, which compares "
        "them more precisely."
    )


# ------------------------------------------------------------------------------ the matrix


def _matrix(times: Times, applies: Applies) -> Matrix:
    """Make the matrix of distinct times; the default is the first configuration."""
    import pandas as pd  # here: it takes half a second to load

    distinct: dict[bytes, int] = {}
    for index, column in enumerate(np.nan_to_num(times.time_s, nan=-1.0, posinf=np.inf).T):
        distinct.setdefault(column.tobytes(), index)
    kept = list(distinct.values())
    configs, shape = [times.configs[index] for index in kept], (len(times.inputs), len(kept))
    return make_matrix(
        pd.DataFrame([dict(problem) for problem in times.inputs]),
        configs,
        times.time_s[:, kept],
        applies=np.array([[applies(i, c) for c in configs] for i in times.inputs], bool).reshape(
            shape
        ),
        best_s=times.best_s,
        tied=times.tied[:, kept],
        default=0,
    )
