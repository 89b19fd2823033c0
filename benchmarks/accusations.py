"""How often honest kernels are accused, or lose a claim, while other work runs beside them.

All kernels of the suite are honest, and random configurations of theirs are measured as in a search
and then, with the default, as in the final rounds. So each that ends as `implausible` or wrong is
accused falsely. One whose first runs on new data do not show its gain loses its claim alone.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from benchmarks.frame import busy
from benchmarks.suite import ROOT, affordable, is_of_suite
from harness.core.records import Input, Measurement, Outcome
from harness.measure.choose import open_kernels
from harness.measure.devices import Backend, choose_one
from harness.measure.kernels.measurer import KernelMeasurer
from harness.measure.occasions import DATA_SETS, new_seed
from harness.space import ConstrainedSpace
from harness.space_file import Spec, load_spec
from harness.stats.interleaved import is_shown
from harness.stats.timing import time_ratio

BESIDE = 15
"""The configurations that are measured beside the default at once."""

ROUNDS, OCCASIONS = 20, 6
_FINALS = 4  # of a kernel, before the next one
_LONGEST_S = 0.01  # of the default's time
_ACCUSED = (Outcome.IMPLAUSIBLE, Outcome.WRONG_RESULT)


def collect(path: Path, most: int, load: int) -> Counter[str]:
    """Append to a file of JSON lines until it counts so many final measurements, while so many
    processes compute beside them; a file that was begun goes on. Return all that it counts."""
    specs = (load_spec(file) for file in sorted((ROOT / "spaces").glob("*.yaml")))
    suite, backend = [spec for spec in specs if is_of_suite(spec)], choose_one("opencl")
    inputs: dict[str, Sequence[Input]] = {}
    with busy(load):
        while totals(path)["final"] < most:
            count = len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0
            spec = suite[count // _FINALS % len(suite)]
            if spec.name not in inputs:
                inputs[spec.name] = affordable(spec, backend, _LONGEST_S)
            _collect_of(spec, backend, inputs[spec.name], path, count)
    return totals(path)


def totals(path: Path) -> Counter[str]:
    """Return what the lines of a file count in all."""
    found = Counter[str]()
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        found.update(json.loads(line)["counts"])
    return found


def _collect_of(
    spec: Spec, backend: Backend, inputs: Sequence[Input], path: Path, count: int
) -> None:
    with closing(open_kernels(spec, backend)) as measurer:
        for number in range(count, count + _FINALS):
            problem = random.Random(number).choice(inputs)
            found = _measured(spec, measurer, problem, number)
            line = {
                "kernel": spec.name,
                "input": str(problem),
                "load": round(os.getloadavg()[0], 1),
                "counts": found,
            }
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(f"{number}: {spec.name} ({problem}) {found}", file=sys.stderr, flush=True)


def _measured(
    spec: Spec, measurer: KernelMeasurer, problem: Input, number: int
) -> Mapping[str, int]:
    """Measure random configurations on an input; count the measurements, and what befell them."""
    space = ConstrainedSpace.of(spec, problem, measurer.limits, measurer.compiler)
    default, rng = space.canonical(space.default), random.Random(number)
    configs = list(dict.fromkeys([default, *space.sample(rng, BESIDE)]))
    searched, best_s = [], None
    for config in configs:
        found = measurer.measure(space, problem, config, best_s)
        best_s = min(best_s or found.time_s, found.time_s)
        searched.append(found)
    works = [found.config for found in searched if found.outcome is Outcome.OK]
    seeds = [seed for seed in (new_seed(), new_seed()) for _ in range(OCCASIONS // DATA_SETS)]
    finals: Sequence[Measurement] = []
    if default in works:
        finals = measurer.measure_interleaved(space, problem, works, ROUNDS, seeds)
    return {
        "searched": len(searched),
        "final": len(finals),
        "accused": sum(found.outcome in _ACCUSED for found in (*searched, *finals)),
        "unclaimed": sum(found.timing is not None and not is_shown(found) for found in finals),
        "faster": sum(_is_faster(found, finals[0]) for found in finals),
        "lost": sum(_is_faster(found, finals[0]) and not is_shown(found) for found in finals),
    }


def _is_faster(found: Measurement, default: Measurement) -> bool:
    """Whether the samples alone show that a configuration is faster."""
    if found.timing is None or default.timing is None:
        return False
    return time_ratio(default.timing, found.timing).is_faster
