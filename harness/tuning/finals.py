"""What is measured after the searches: winners and candidates on every input, and the finals.

The finals of each input: its finalists' rounds choose a winner, and others judge it. The fastest of
several noisy times is too fast, so the rounds that choose the winner say nothing of its speed-up.
It is measured once more beside the default, on several occasions, each with new loads and new
allocations. There are two sets of data that nothing has run on before, and each launch draws one of
them: what an earlier launch left anywhere is wrong half of the time. The single configuration that
suits all inputs best, which the candidates' rounds chose, is measured as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from harness.analysis.inputs import choose_finalists, ranked
from harness.constraints.expression import Expression
from harness.core.records import Config, Input, Interleaved, Outcome, StopReason
from harness.dispatch.candidates import Applies, applies_where, interleaved_matrix, shortlist
from harness.dispatch.single import single_configs
from harness.measure.occasions import DATA_SETS
from harness.results import CANDIDATE, CHOICE, CROSS, FINAL
from harness.results.measured import Measured, MeasuredConfigs
from harness.space.constrained import launch_constraints
from harness.stats.interleaved import is_shown, refuted
from harness.tuning.sharing import do_work, run_stage
from harness.tuning.state import State

_DEFAULTS = "defaults"  # the name of the stage
_BESIDE_BASELINES = 20  # rounds, where winners are compared with named baselines

FINAL_OCCASIONS = 6


# ------------------------------------------------------------ winners and candidates everywhere


def choose_same(state: State) -> None:
    """Choose the values of the parameters that the space wants the same on all inputs: those whose
    best configurations have the least geometric mean time, and work on all inputs."""
    names = state.spec.search.same_on_all_inputs
    if not names:
        return
    searched = _searched(state)
    logs: dict[Config, list[float]] = {}  # by values, the least time on each input
    for measured in searched.values():
        least: dict[Config, float] = {}
        for config, m in measured.items():
            if m.outcome is Outcome.OK:
                values = Config({name: config[name] for name in names if name in config})
                least[values] = min(least.get(values, math.inf), math.log(m.time_s))
        for values, log in least.items():
            logs.setdefault(values, []).append(log)
    totals = {v: math.fsum(of_v) for v, of_v in logs.items() if len(of_v) == len(searched)}
    if not totals:
        state.warn(f"no value of {', '.join(names)} works on all inputs, so that each has its own")
        return
    chosen = min(totals, key=totals.__getitem__)
    state.same = tuple(Expression.equal(name, value) for name, value in chosen.items())
    state.display.note(f"the same on all inputs: {chosen}")


def _searched(state: State) -> dict[Input, Measured]:
    """Return the measurements of each input that was searched now, and on which something works."""
    searched = [p for p in state.spec.inputs if p in state.runs and state.best(p)]
    return {problem: _eligible(state, problem) for problem in searched}


def _eligible(state: State, problem: Input) -> Measured:
    """Return the measurements of the configurations that may win, and of the default."""
    searched = state.ledger.searched(problem)
    default = state.space(problem).default
    if not state.same:
        return searched
    return {c: m for c, m in searched.items() if c == default or state.is_same(c)}


def cross_measure(state: State) -> None:
    """Measure the default on each input where that is missing and legal, since winners are compared
    with it; with the plan's `cross`, every input's winner as well."""
    inputs = state.spec.inputs
    is_crossed = state.plan.cross
    default = state.space(inputs[0]).default
    configs = [default]
    stage = _DEFAULTS
    title = "default on the inputs"
    what = "the default"
    if is_crossed:
        stage = CROSS
        title = "default and winners on the other inputs"
        what = "the default and winners on other inputs"
        for problem in inputs:
            best = state.best(problem)
            if best is not None:
                measured = MeasuredConfigs.of(_eligible(state, problem))
                configs.append(measured.shortest(best.config, default, state.is_same))
    missing: list[tuple[Input, Config]] = []
    for problem in inputs:
        if problem not in state.runs:
            continue
        searched = state.ledger.searched(problem)
        space = state.space(problem)
        for config in dict.fromkeys(map(space.canonical, configs)):
            if config not in searched and space.is_legal(config):
                missing.append((problem, config))

    def step(problem: Input, config: Config) -> None:
        device = state.measurer_for(problem)
        measured = device.measure(state.space(problem), problem, config, None)
        state.add_measurements(problem, CROSS, [measured])

    if is_crossed or missing:
        run_stage(state, stage, title, missing, step, "{} measurements of " + what)


def measure_candidates(state: State) -> None:
    """Measure a dispatcher's candidates on every input, interleaved, unless that was done.

    A search measures configurations minutes apart, while the machine's state drifts, and the
    least of many noisy times is too low. Recordings are not asked, since they would answer the
    same again.
    """
    rounds = max(2, state.spec.measure.repeats)
    work: list[tuple[Input, list[Config]]] = []
    if not state.measurer.is_replay:
        searched = _searched(state)
        default = state.space(state.spec.inputs[0]).default
        candidates = shortlist(searched, default, _applies_on(state))
        if not state.is_same(default):
            candidates = [default, *candidates]  # others are compared with it
        for problem, row in searched.items():
            configs = [c for c in candidates if c in row and row[c].outcome is Outcome.OK]
            if configs and not _stored(state, problem, configs, CANDIDATE, rounds):
                work.append((problem, configs))
    run_stage(
        state,
        CANDIDATE,
        "candidates on every input, interleaved",
        work,
        partial(state.measure_interleaved, stage=CANDIDATE, rounds=rounds),
        "candidates on {} inputs",
    )


def _applies_on(state: State) -> Applies:
    """Return a test of whether a configuration may be chosen on an input."""
    limits = state.measurer.limits
    constraints = [constraint.expression for constraint in state.spec.constraints]
    constraints += [*launch_constraints(state.spec.launch, limits), *state.same]
    return applies_where(constraints, limits.names() if limits else {})


def _stored(
    state: State, problem: Input, configs: Sequence[Config], stage: str, rounds: int
) -> Interleaved | None:
    """Return what was measured interleaved last, if it is of these configurations and complete."""
    sessions = state.ledger.interleaved(problem, stage)
    searched = state.ledger.searched(problem)
    if sessions and is_complete(sessions[-1], configs, rounds=rounds, searched=searched):
        return sessions[-1]
    return None


def is_complete(
    stored: Interleaved,
    configs: Sequence[Config],
    *,
    rounds: int,
    searched: Mapping[Config, object],
) -> bool:
    """Whether stored results are of exactly these configurations, each with all its rounds.

    `searched` holds the configurations that the search measured. Results in which nothing worked
    are incomplete, since that may have been the device's fault.
    """
    if {measured.config for measured in stored} != set(configs):
        return False
    for measured in stored:
        timing = measured.timing
        if timing is None:
            # A timeout or crash of a configuration that worked in the search may be chance.
            is_final = measured.outcome.settles or measured.config not in searched
        else:
            is_final = timing.count == rounds or timing.stopped is StopReason.RECORDED
        if not is_final:
            return False
    return any(measured.timing for measured in stored)


# ------------------------------------------------------------------------------ the finals


def seeds_of(seed: int) -> tuple[int, ...]:
    """Return the seed of the data on each occasion of finals, from the first one."""
    return (seed,) * (FINAL_OCCASIONS // 2) + (seed + DATA_SETS,) * (FINAL_OCCASIONS // 2)


def measure_finals(state: State) -> None:
    """Measure each input's finalists again beside the default, and the single configuration that
    suits all inputs best.

    A replay shows no progress, since it would answer the same again.
    """
    searched = _searched(state)
    display = state.display
    single: Mapping[Input, Config] = {}
    steps = 0
    if not state.measurer.is_replay:
        single = _single_on(state, searched)
        steps = len(searched)
    display.begin_stage("finalists and the default", steps)

    def step(problem: Input, config: Config | None) -> None:
        with state.leaving_out(problem):
            _measure_finals(state, problem, config)
        if steps:
            display.step(str(problem))

    do_work(state, [(problem, single.get(problem)) for problem in searched], step)


def _single_on(state: State, searched: Mapping[Input, Measured]) -> dict[Input, Config]:
    """Return, for each input, the configuration to use where one serves all inputs: the best single
    candidate or, where that is illegal, the next. Empty where candidates were not measured on
    every input."""
    every: dict[Input, list[Interleaved]] = {}
    sessions: dict[Input, list[Interleaved]] = {}
    for problem in searched:
        sessions[problem] = state.ledger.interleaved(problem, CANDIDATE)
        if not sessions[problem]:
            return {}
        choices = state.ledger.interleaved(problem, CHOICE)
        every[problem] = choices + state.ledger.interleaved(problem, FINAL) + sessions[problem]
    default = state.space(state.spec.inputs[0]).default
    matrix = interleaved_matrix(searched, every, sessions, default, _applies_on(state))
    if matrix is None:
        return {}
    pairs = zip(searched, single_configs(matrix), strict=True)
    return {problem: config for problem, config in pairs if config}


def _measure_finals(state: State, problem: Input, single: Config | None) -> None:
    """Choose the winner of an input by some rounds, and judge it by others."""
    default = state.space(problem).default
    finalists = _finalists(state, problem)
    baselines = _baselines(state, problem)
    rounds = state.spec.measure.repeats
    if baselines:
        rounds = max(_BESIDE_BASELINES, rounds)
    searched = state.ledger.searched(problem)
    compared = [c for c in baselines if c not in searched or searched[c].timing]
    hopeful = [config for config in compared if _may_win(state, problem, config)]
    if default in (*finalists, *compared):
        compared = [default, *compared]
    if single is not None:
        hopeful.append(single)
        compared.append(single)
    rivals = [c for c in dict.fromkeys([*finalists, *hopeful]) if c != default]
    choices: Interleaved = []
    if len(rivals) > 1 and not state.measurer.is_replay:
        seeds = (state.data_seed(problem) + 2 * DATA_SETS,)  # no data of the finals
        choices = _measured(state, problem, rivals, CHOICE, max(2, rounds), seeds)
    order = ranked(choices, default, state.spec.measure.confidence, single) or rivals
    _judge(state, problem, order, compared, max(FINAL_OCCASIONS, rounds))


def _finalists(state: State, problem: Input) -> list[Config]:
    """Return the configurations to measure again, and the default where it worked."""
    measured = _eligible(state, problem)
    default = state.space(problem).default
    candidates = state.ledger.interleaved(problem, CANDIDATE)
    last = candidates[-1] if candidates else []
    finalists = choose_finalists(measured, default, state.plan.finalists, last)
    wanted = dict.fromkeys([*finalists, default])
    return [c for c in wanted if c in measured and measured[c].outcome is Outcome.OK]


def _baselines(state: State, problem: Input) -> list[Config]:
    """Return the named baselines that are legal on an input; a recording has none."""
    if state.measurer.is_replay:
        return []
    space = state.space(problem)
    named = state.spec.baselines_for(state.measurer.compiler)
    return list(filter(space.is_legal, map(space.canonical, named.values())))


def _may_win(state: State, problem: Input, config: Config) -> bool:
    """Whether a configuration may be the fastest, as far as the search shows.

    It may not where the search would have given it up.
    """
    measured = state.ledger.searched(problem).get(config)
    best = state.best(problem)
    if not state.is_same(config):
        return False
    if measured is None or measured.timing is None or best is None:
        return True
    return min(measured.timing.samples_s) <= state.spec.measure.give_up_at * best.time_s


def _judge(
    state: State,
    problem: Input,
    rivals: Sequence[Config],
    compared: Sequence[Config],
    rounds: int,
) -> None:
    """Measure the first of the rivals beside other configurations; if it fails, or its first runs
    do not show its gain, the next one.

    A recording has no other samples than those that chose, so all rivals stay in.
    """
    failed = refuted(state.ledger.interleaved(problem, FINAL))
    left = [rival for rival in rivals if rival not in failed]
    turns = [[rival] for rival in left]
    if state.measurer.is_replay or not left:
        turns = [left]
    seeds = seeds_of(state.data_seed(problem))
    for tried in turns:
        configs = list(dict.fromkeys([*tried, *compared]))
        finals = _measured(state, problem, configs, FINAL, rounds, seeds)
        if any(is_shown(m) for m in finals if m.config in tried):
            break


def _measured(
    state: State,
    problem: Input,
    configs: Sequence[Config],
    stage: str,
    rounds: int,
    seeds: Sequence[int],
) -> Interleaved:
    """Measure interleaved; results stored by an earlier command are used again."""
    stored = _stored(state, problem, configs, stage, rounds)
    return stored or state.measure_interleaved(
        problem, configs, stage=stage, rounds=rounds, seeds=seeds
    )
