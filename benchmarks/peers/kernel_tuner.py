"""Kernel Tuner's strategies in its simulation mode (kernel_tuner 1.5.0), with their defaults.

The cache file has one time for each entry, the median of the recorded samples in milliseconds, or
Kernel Tuner's name of a failure. The search space is exactly the recorded configurations: illegal
proposals are rejected before simulation and cost nothing, and failed ones cost an evaluation.
`max_fevals` counts distinct evaluations, including failures; results come in the order of
evaluation (strategies/common.py, runners/simulation.py).
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import random
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import kernel_tuner
import kernel_tuner.interface
import numpy as np
from kernel_tuner.searchspace import Searchspace

from benchmarks.peers.landscape import BudgetSpent, Course, Landscape, Point
from benchmarks.recordings import RecordingFile

_KERNEL = "recorded"
_SIZE = (1,)
_MS_PER_S = 1e3
_FAILED = "RuntimeFailedConfig"


class KernelTuner:
    """Kernel Tuner's strategies on one landscape."""

    def __init__(
        self, landscape: Landscape, scratch: Path, warm_start: Sequence[RecordingFile]
    ) -> None:
        """Write the cache file."""
        self._times_s = landscape.times_s
        self._tunable = landscape.tunable()
        names = list(self._tunable)
        entries = {
            ",".join(map(str, point)): dict(zip(names, point, strict=True))
            | {"time": _FAILED if math.isinf(time_s) else _MS_PER_S * time_s}
            for point, time_s in self._times_s.items()
        }
        self._contents = contents(self._tunable, entries)
        file, self._cache = tempfile.mkstemp(".json", dir=scratch)
        with open(file, "w", encoding="utf-8") as cache:
            json.dump(self._contents, cache)

    def search(self, technique: str, seed: int, course: Course) -> None:
        """Run a strategy once; its own time is spread evenly over its results."""
        begun_s = time.process_time()
        own_space = mock.patch.object(kernel_tuner.interface, "Searchspace", self._space)
        with quietly(), own_space, seeded(seed):
            results, _ = kernel_tuner.tune_kernel(
                _KERNEL,
                "",
                _SIZE,
                [],
                self._tunable,
                strategy=technique,
                strategy_options={"max_fevals": course.budget},
                cache=self._cache,
                simulation_mode=True,
                quiet=True,
            )
        own_s = (time.process_time() - begun_s) / max(len(results), 1)
        with contextlib.suppress(BudgetSpent):
            for number, result in enumerate(results, start=1):
                point = tuple(result[name] for name in self._tunable)
                if point in self._times_s:
                    course.note(point, self._times_s[point], number * own_s)

    def _space(self, *_: Any, **__: Any) -> Any:
        """Make its search space from the recorded configurations instead of restrictions."""
        space = Searchspace(None, None, None, from_cache=self._contents)
        space._modified_restrictions = [self._is_recorded]
        return space

    def _is_recorded(self, **values: Any) -> bool:
        point: Point = tuple(values[name] for name in self._tunable)
        return point in self._times_s


def contents(tunable: Mapping[str, Any], entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return the contents of a cache file."""
    return {
        "device_name": _KERNEL,
        "kernel_name": _KERNEL,
        "problem_size": _SIZE,
        "tune_params_keys": list(tunable),
        "tune_params": tunable,
        "objective": "time",
        "cache": entries,
    }


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed all generators; Kernel Tuner leaves those of diff_evo and bayes_opt unseeded."""
    random.seed(seed)
    np.random.seed(seed)
    make = np.random.default_rng

    def made(own_seed: Any = None) -> np.random.Generator:
        return make(np.random.randint(2**31) if own_seed is None else own_seed)

    with mock.patch.object(np.random, "default_rng", made):
        yield


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Hide its prints and its warnings about the names of parameters."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


PEER = KernelTuner
