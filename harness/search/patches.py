"""Patches for OpenTuner 0.8.8, which predates Python 3.11, SQLAlchemy 2 and numpy 2.

`apply` patches the installed package at run time, once. Each function that it calls fixes
one defect and gives its symptom and location (file:line in opentuner 0.8.8), and a test of
`tests/search/test_patches.py` fails without it. A patch that shadows a builtin does so in one
OpenTuner module only.
"""

from __future__ import annotations

import functools
import importlib.metadata
import itertools
import logging
import random
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from math import inf
from types import SimpleNamespace
from typing import Any

from sqlalchemy import event
from sqlalchemy.exc import MovedIn20Warning
from sqlalchemy.orm import object_session

from harness.core.errors import HarnessError
from harness.core.plain_pickle import load_compressed

OPENTUNER_VERSION = "0.8.8"


@functools.cache
def apply() -> None:
    """Patch the installed OpenTuner, once; call this before anything of OpenTuner is used.

    Raises HarnessError for another version than 0.8.8.
    """
    _require_version()
    _import_quietly()
    _leave_logging_alone()
    _read_plain_pickles()
    _order_populations()
    _sort_by_comparison()
    _compare_unmeasured()
    _copy_the_right_way()
    _make_plain_requests()
    _find_duplicates()
    _copy_configurations()


def _require_version() -> None:
    """Raise HarnessError unless the installed OpenTuner is the version that is patched here."""
    installed = importlib.metadata.version("opentuner")
    if installed != OPENTUNER_VERSION:
        raise HarnessError(
            f"OpenTuner {OPENTUNER_VERSION} is needed, found {installed}: harness patches defects "
            f"of this version; run: pip install opentuner=={OPENTUNER_VERSION}"
        )


def _import_quietly() -> None:
    """declarative_base() warns on import (resultsdb/models.py:47)."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=MovedIn20Warning, module=r"opentuner\.")
        from opentuner.search import technique

        technique.all_techniques()


# Side effects of importing OpenTuner


def _leave_logging_alone() -> None:
    """Import replaces logging.Formatter for the whole process (tuningrunmain.py:49). OpenTuner's
    own programs write seconds with the class that replaces it."""
    from opentuner import tuningrunmain

    for formatter in tuningrunmain.the_logging_config["formatters"].values():
        formatter["class"] = "opentuner.tuningrunmain.LogFormatter"
    if logging.Formatter is tuningrunmain.LogFormatter:
        logging.Formatter = tuningrunmain._OldFormatter  # type: ignore[misc]
    logging.getLogger("opentuner").addHandler(logging.NullHandler())


# Data from elsewhere


def _read_plain_pickles() -> None:
    """A row of the database runs code when a pickled column of it is read
    (resultsdb/models.py:30). All pickled columns share this reader."""
    from opentuner.resultsdb import models

    models.CompressedPickler.loads = staticmethod(load_compressed)


# Techniques


def _order_populations() -> None:
    """Differential evolution orders by time and by address, so a seed does not repeat a run
    (search/differentialevolution.py:24, :28 and :112)."""
    from opentuner.search import differentialevolution

    differentialevolution.time = SimpleNamespace(time=itertools.count().__next__)
    differentialevolution.set = _Members


def _sort_by_comparison() -> None:
    """Simplices, annealing and recycling sort lists with `cmp`, which Python 3 has not
    (search/simplextechniques.py:359, search/simulatedannealing.py:108 and
    search/metatechniques.py:158)."""
    from opentuner.search import metatechniques, simplextechniques, simulatedannealing

    for module in (metatechniques, simplextechniques, simulatedannealing):
        module.list = _Sortable


def _compare_unmeasured() -> None:
    """PatternSearch, asked before there are results, compares with a first centre that it has not
    measured (search/patternsearch.py:57)."""
    from opentuner.search.objective import MinimizeTime

    def time_s(objective: Any, config: Any) -> float:
        results = objective.driver.results_query(config=config)
        return min((result.time for result in results), default=inf)

    def config_compare(objective: Any, left: Any, right: Any) -> int:
        left_s = time_s(objective, left)
        right_s = time_s(objective, right)
        return int(left_s > right_s) - int(left_s < right_s)

    MinimizeTime.config_compare = config_compare


def _copy_the_right_way() -> None:
    """A particle swarm changes the best configuration in place of the particle, where a parameter
    is an enumeration, and hands back one that was never measured (search/manipulator.py:443)."""
    from opentuner.search.manipulator import Parameter

    def opn_stochastic_mix(
        parameter: Any, cfg: Any, cfgs: Any, ratio: Any, *_: object, **__: object
    ) -> None:
        (parent,) = random.choices(cfgs, ratio)
        parameter.copy_value(parent, cfg)

    Parameter.opn_stochastic_mix = opn_stochastic_mix


def _make_plain_requests() -> None:
    """A request is an SQLAlchemy object even where no session holds it, a tenth of a search's time
    (search/technique.py:103)."""
    from opentuner.resultsdb.models import DesiredResult
    from opentuner.search import technique

    def make(**values: Any) -> Any:
        # harness's driver has no run of a session; OpenTuner's has.
        return Request(**values) if values["tuning_run"] is None else DesiredResult(**values)

    technique.DesiredResult = make


# OpenTuner's own driver


def _find_duplicates() -> None:
    """Every request is measured, however often it was: SQLAlchemy 2 no longer brings a request into
    the session of its run, so that it has no configuration_id when its duplicates are looked up
    (search/driver.py:183)."""
    from opentuner.resultsdb.models import DesiredResult

    @event.listens_for(DesiredResult.tuning_run, "set")
    def join(request: Any, run: Any, *_: object) -> None:
        session = object_session(run) if run is not None else None
        if session is not None:
            session.add(request)


def _copy_configurations() -> None:
    """A particle swarm goes on in the dict of a configuration that it asked for, so that the best
    one is handed back with values that were never measured (search/driver.py:264)."""
    from opentuner.search.driver import SearchDriver

    stored = SearchDriver.get_configuration

    def get_configuration(driver: Any, cfg: Any) -> Any:
        driver.manipulator.normalize(cfg)
        return stored(driver, driver.manipulator.copy(cfg))

    SearchDriver.get_configuration = get_configuration


# Replacements


@dataclass(eq=False)
class Request:
    """OpenTuner's DesiredResult without SQLAlchemy; `harness.results.store` writes its row."""

    configuration: Any
    requestor: str
    generation: int
    request_date: datetime
    tuning_run: None = None
    limit: float | None = None
    start_date: datetime | None = None
    result: Any = None
    id: int | None = None


class _Sortable(list[Any]):
    """A list that sorts as Python 2 did."""

    def sort(self, *, cmp: Any = None, key: Any = None) -> None:  # type: ignore[override]
        super().sort(key=key if cmp is None else functools.cmp_to_key(cmp))


class _Members(list[Any]):
    """A set of distinct members in their order, with the one operation that OpenTuner needs."""

    def __sub__(self, other: Iterable[Any]) -> _Members:
        return _Members(member for member in self if member not in other)
