"""Find parameters that change no machine code of a target.

A configuration and one that differs from it in a single parameter are built; a parameter is dropped
from the search at the first pair with different code. Parameters that act elsewhere are left out:
those of the launch, and for a program those that its build does not name.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

from harness.commands.check.inspection import Compiled, Inspection
from harness.core.records import Config
from harness.display.progress import ProgressDisplay
from harness.space import ConstrainedSpace
from harness.space_file import Parameter

_MOST_TRIED = 12

_Pair = tuple[Config, Config]


def without_effect(
    inspection: Inspection, results: Sequence[Compiled], seed: int, display: ProgressDisplay
) -> Mapping[str, int]:
    """Return the parameters that change no build, each with the number of builds that were tried.

    `results` has the compiled configurations to change.
    """
    rng, space = random.Random(seed), inspection.space
    built = [result for result in results if result.build is not None]
    codes = {result.config: inspection.code_of(result.config) for result in built}
    pairs = {
        p.name: list(_pairs(space, p, list(codes), rng))
        for p in inspection.built_with
        if len(p.values) > 1
    }
    equal = dict.fromkeys((name for name, of_name in pairs.items() if of_name), 0)
    for turn in range(_MOST_TRIED):
        tried = {name: pairs[name][turn] for name in equal if turn < len(pairs[name])}
        if not tried:
            break
        display.begin_stage(f"effect of parameters on machine code, round {turn + 1}", len(tried))
        inspection.start([changed for _, changed in tried.values()])
        for name, (config, changed) in tried.items():
            if inspection.code_of(changed) == codes[config]:
                equal[name] += 1
            else:
                del equal[name]
            display.step(name)
    return equal


def _pairs(
    space: ConstrainedSpace, parameter: Parameter, configs: Sequence[Config], rng: random.Random
) -> Iterator[_Pair]:
    """Yield configurations, each with a legal one that has another value of the parameter."""
    name, found = parameter.name, 0
    for config in configs:
        values = [value for value in parameter.values if value != config[name]]
        for value in rng.sample(values, min(len(values), _MOST_TRIED)):
            changed = space.canonical(Config({**config, name: value}))
            if changed[name] == value and space.is_legal(changed):
                yield config, changed
                found += 1
                break
        if found == _MOST_TRIED:
            return
