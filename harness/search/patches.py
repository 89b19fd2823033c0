"""Patches for OpenTuner 0.8.8, which predates Python 3.11, SQLAlchemy 2 and numpy 2.

`apply` patches the installed package at run time, once. Each function that it calls fixes
one defect and gives its symptom and location (file:line in opentuner 0.8.8), and a test of
`tests/search/test_patches.py` fails without it. A patch that shadows a builtin does so in one
OpenTuner module only. Code that `harness.search.driver` replaces is not patched.
"""

from __future__ import annotations

import functools
import importlib.metadata
import itertools
import logging
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from sqlalchemy.exc import MovedIn20Warning

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
    _make_plain_requests()


def _require_version() -> None:
    """Raise HarnessError unless the installed OpenTuner is the version that is patched here."""
    found = importlib.metadata.version("opentuner")
    if found != OPENTUNER_VERSION:
        raise HarnessError(
            f"OpenTuner {OPENTUNER_VERSION} is needed, found {found}: harness patches defects of "
            f"this version; run: pip install opentuner=={OPENTUNER_VERSION}"
        )


def _import_quietly() -> None:
    """declarative_base() warns on import (resultsdb/models.py:47)."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=MovedIn20Warning, module=r"opentuner\.")
        from opentuner.search import technique

        technique.all_techniques()


# Side effects of importing OpenTuner


def _leave_logging_alone() -> None:
    """Import replaces logging.Formatter for the whole process (tuningrunmain.py:49)."""
    from opentuner import tuningrunmain

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


def _make_plain_requests() -> None:
    """A request is an SQLAlchemy object even where no session holds it, a tenth of a search's time
    (search/technique.py:103)."""
    from opentuner.search import technique

    technique.DesiredResult = Request


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


class _Members(list[Any]):
    """A set of distinct members in their order, with the one operation that OpenTuner needs."""

    def __sub__(self, other: Iterable[Any]) -> _Members:
        return _Members(member for member in self if member not in other)
