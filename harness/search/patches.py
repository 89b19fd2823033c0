"""Patches for OpenTuner 0.8.8, which predates Python 3.11, SQLAlchemy 2 and numpy 2.

`apply` patches the installed package at run time, once. Each function of `PATCHES` fixes one
defect and gives its symptom and location (file:line in opentuner 0.8.8), and a test of
`tests/search/test_patches.py` fails without it. A patch that shadows a builtin does so in one
OpenTuner module only. Code that `harness.search.drivers` and `durable_run` replace is not patched.
"""

from __future__ import annotations

import functools
import importlib.metadata
import inspect
import io
import itertools
import logging
import re
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sqlalchemy.exc import MovedIn20Warning

from harness.core.errors import HarnessError
from harness.core.plain_pickle import load_compressed
from harness.search import parameter_patches

OPENTUNER_VERSION = "0.8.8"

# Bandits of OpenTuner's own tests (search/bandittechniques.py:306). All 43 techniques work.
NOT_OFFERED = frozenset({"test", "test2"})


@functools.cache
def apply() -> None:
    """Patch the installed OpenTuner, once; call this before anything of OpenTuner is used.

    Raises HarnessError for another version than 0.8.8.
    """
    require_version()
    import_quietly()
    for patch in PATCHES:
        patch()


def offered_techniques() -> tuple[str, ...]:
    """Return the sorted names of OpenTuner's own techniques that are known to work.

    Techniques that others have registered are not listed.
    """
    apply()
    from opentuner.search import technique

    registered, _ = technique.all_techniques()
    own = {t.name for t in registered if type(t).__module__.startswith("opentuner.")}
    return tuple(sorted(own - NOT_OFFERED))


def require_version() -> None:
    """Raise HarnessError unless the installed OpenTuner is the version that is patched here."""
    try:
        found = importlib.metadata.version("opentuner")
    except importlib.metadata.PackageNotFoundError:
        found = "none"
    if found != OPENTUNER_VERSION:
        raise HarnessError(
            f"OpenTuner {OPENTUNER_VERSION} is needed, found {found}: harness patches defects of "
            f"this version; run: pip install opentuner=={OPENTUNER_VERSION}"
        )


def import_quietly() -> None:
    """declarative_base() warns on import (resultsdb/models.py:47)."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=MovedIn20Warning, module=r"opentuner\.")
        from opentuner.search import technique

        technique.all_techniques()


# Side effects of importing OpenTuner


def leave_logging_alone() -> None:
    """Import replaces logging.Formatter for the whole process, and the first run installs root
    handlers and writes ./opentuner.log (tuningrunmain.py:49 and :81)."""
    import opentuner
    from opentuner import tuningrunmain

    if logging.Formatter is tuningrunmain.LogFormatter:
        logging.Formatter = tuningrunmain._OldFormatter  # type: ignore[misc]
    tuningrunmain.init_logging = opentuner.init_logging = _do_nothing
    logging.getLogger("opentuner").addHandler(logging.NullHandler())


def close_cpuinfo() -> None:
    """Asking for the processor's name leaves a file open: ResourceWarning
    (measurement/driver.py:223)."""
    from opentuner.measurement import driver

    driver.open = lambda path: io.StringIO(Path(path).read_text(encoding="utf-8"))


# Data from elsewhere


def read_plain_pickles() -> None:
    """A row of the database runs code when a pickled column of it is read
    (resultsdb/models.py:30). All pickled columns share this reader."""
    from opentuner.resultsdb import models

    models.CompressedPickler.loads = staticmethod(load_compressed)


# Aliasing


def keep_particle_best() -> None:
    """A particle's best position is the dict that its next move changes, so a swarm remembers
    nothing (search/pso.py:45 and :60)."""
    from opentuner.search.pso import HybridParticle

    original = HybridParticle.move

    def move(self: Any, global_best: dict[str, Any]) -> None:
        self.position = self.manipulator.copy(self.position)
        original(self, global_best)

    HybridParticle.move = move


def keep_parameter_order() -> None:
    """Mutations shuffle the manipulator's own list of parameters, so a second run on the same
    manipulator differs (search/manipulator.py:184, composableevolutionarytechniques.py:434 and
    :492)."""
    from opentuner.search import composableevolutionarytechniques as composable
    from opentuner.search.manipulator import ConfigurationManipulator

    parameters = ConfigurationManipulator.parameters
    ConfigurationManipulator.parameters = lambda self, config: list(parameters(self, config))
    for owner in (
        composable.RandomThreeParentsComposableTechnique,
        composable.GreedyComposableTechnique,
    ):
        owner.select_parameters = _with_copied_list(owner.select_parameters)


# Python 3


def sort_with_cmp() -> None:
    """TypeError from sort(cmp=...) in Torczon (simplextechniques.py:359 to :388), PseudoAnnealing
    (simulatedannealing.py:108), RecyclingMetaTechnique (metatechniques.py:158) and in the names of
    generated techniques (composableevolutionarytechniques.py:78)."""
    from opentuner.search import composableevolutionarytechniques as composable
    from opentuner.search import metatechniques, simplextechniques, simulatedannealing

    for module in (simplextechniques, simulatedannealing, metatechniques):
        module.list = _CmpList
    composable.sorted = _cmp_sorted


def find_operators() -> None:
    """Generated techniques find no operator: inspect.getargspec is gone, and a class's functions
    are no longer methods (search/manipulator.py:1802). Operators on n parents are left out, since
    apply_operator adds a dict to a list for them (composableevolutionarytechniques.py:317)."""
    from opentuner.search import manipulator

    def composable_operators(param: Any, min_num_parents: int) -> list[str]:
        parents = {str(n): n for n in range(1, min(min_num_parents, 4) + 1)}
        found = []
        for name, function in inspect.getmembers(param, inspect.isroutine):
            match = re.match(r"op(\d)_", name)
            if match and _required_arguments(function) == parents.get(match[1]):
                found.append(name)
        return found

    manipulator.composable_operators = composable_operators


def order_populations() -> None:
    """Differential evolution and composable techniques order by time and by address, so a seed
    does not repeat a run (differentialevolution.py:24, :28, :112 and
    composableevolutionarytechniques.py:24, :30, :368)."""
    from opentuner.search import composableevolutionarytechniques, differentialevolution

    for module in (composableevolutionarytechniques, differentialevolution):
        module.time = SimpleNamespace(time=itertools.count().__next__)
        module.set = _OrderedSet


# Techniques


def start_pattern_search() -> None:
    """PatternSearch compares with a centre that was never measured, if it is asked first:
    ValueError from min() of an empty list (search/patternsearch.py:18)."""
    from opentuner.search.patternsearch import PatternSearch

    original = PatternSearch.main_generator

    def main_generator(self: Any) -> Any:
        if self.driver.best_result is None:
            yield self.driver.get_configuration(self.manipulator.random())
        yield from original(self)

    PatternSearch.main_generator = main_generator


def mutate_few_parameters() -> None:
    """BinaryGA mutates two parameters: ValueError in a space of one
    (search/binaryga.py:49)."""
    from opentuner.search.binaryga import BinaryGA

    original = BinaryGA.create_offspring

    def create_offspring(self: Any) -> Any:
        self.mutate_count = min(self.mutate_count, len(self.manipulator.params))
        return original(self)

    BinaryGA.create_offspring = create_offspring


def make_plain_requests() -> None:
    """A request is an SQLAlchemy object even where no session holds it, a tenth of a search's time
    (search/technique.py:103)."""
    from opentuner.search import technique

    from harness.search.rows import Request

    technique.DesiredResult = Request


PATCHES: tuple[Callable[[], None], ...] = (
    leave_logging_alone,
    close_cpuinfo,
    read_plain_pickles,
    parameter_patches.mix_into_child,
    keep_particle_best,
    keep_parameter_order,
    sort_with_cmp,
    find_operators,
    order_populations,
    start_pattern_search,
    mutate_few_parameters,
    make_plain_requests,
    parameter_patches.store_plain_booleans,
    parameter_patches.saturate_sigmoids,
    parameter_patches.keep_log_integers_whole,
    parameter_patches.scale_powers_exactly,
    parameter_patches.clamp_on_search_scale,
)


# Replacements


class _CmpList(list[Any]):
    """A list that still sorts by Python 2's cmp."""

    def sort(self, *, cmp: Any = None, key: Any = None, reverse: bool = False) -> None:
        super().sort(key=functools.cmp_to_key(cmp) if cmp else key, reverse=reverse)


def _cmp_sorted(items: Iterable[Any], cmp: Any = None) -> list[Any]:
    return sorted(items, key=functools.cmp_to_key(cmp) if cmp else None)


class _OrderedSet(dict[Any, None]):
    """A set in the order of insertion, with the methods that OpenTuner calls."""

    def __init__(self, items: Iterable[Any] = ()) -> None:
        super().__init__(dict.fromkeys(items))

    def add(self, item: Any) -> None:
        self[item] = None

    def __sub__(self, other: Iterable[Any]) -> _OrderedSet:
        return _OrderedSet(item for item in self if item not in other)


def _with_copied_list(select: Callable[[Any, list[Any]], list[Any]]) -> Callable[..., list[Any]]:
    return lambda self, params: select(self, list(params))


def _required_arguments(function: Any) -> int:
    """Count the arguments after self that have neither default nor star."""
    parameters = inspect.signature(function).parameters.values()
    return sum(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters) - 1


def _do_nothing() -> None:
    """Stands in for init_logging."""
