"""Tune from Python: the stages, the database and the resuming of `python -m harness.tune`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.api.checks import check_options
from harness.api.tune_options import TuneOptions
from harness.core.errors import ResultsError
from harness.core.options import from_arguments, naming_arguments, signature_of

if TYPE_CHECKING:
    from harness.api.results import TuneResults
    from harness.display.progress import ProgressDisplay
    from harness.space_file import Spec


def tune(space: str | Path | Spec | None = None, **arguments: Any) -> TuneResults:
    """Find the fastest configuration of a kernel for each input, and return the results.

    docs/reference/commands.md describes the arguments. What the database holds is not measured
    again.

    Raises HarnessError, and on Ctrl-C KeyboardInterrupt, whose message says how to continue.
    """
    options = from_arguments(TuneOptions, "tune", {"space": space, **arguments})
    with naming_arguments(TuneOptions):
        check_options(options)
        with _own_random():
            return _results(options)


tune.__signature__ = signature_of(TuneOptions, space="space")  # type: ignore[attr-defined]


def _results(options: TuneOptions) -> TuneResults:
    # Here, since OpenTuner and others take seconds to load.
    from harness.api.request import read_request
    from harness.api.results import TuneResults
    from harness.api.session import tuned
    from harness.results.url import shown_database

    request = read_request(options)
    try:
        with tuned(request, _display(not options.progress)) as done:
            stored = done.results()
            if stored is None:
                raise ResultsError(f"{request.database}: nothing was measured")
            return TuneResults(stored, request.whole)
    except KeyboardInterrupt:
        # Raised anew: a traceback into the search would hide what the person needs to know.
        again = "with the same arguments" + (", without fresh" if options.fresh else "")
        raise KeyboardInterrupt(
            f"all measurements are kept in {shown_database(request.database)}. To continue, call "
            f"tune again {again}; to see them, open_results"
        ) from None


def _display(quiet: bool) -> ProgressDisplay:
    """Show progress on standard error."""
    from harness.display.formats import make_console
    from harness.display.progress import ProgressDisplay

    return ProgressDisplay(make_console(stderr=True), quiet)


@contextmanager
def _own_random() -> Iterator[None]:
    """Put the caller's global generators back: they are seeded for OpenTuner, which uses them."""
    import numpy as np

    state, numpy_state = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(state)
        np.random.set_state(numpy_state)
