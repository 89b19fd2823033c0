"""Tune from Python: the stages, the database and the resuming of `python -m harness.tune`."""

from __future__ import annotations

import inspect
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.api.arguments import check_arguments, naming_arguments
from harness.api.checks import check_options
from harness.api.options import TuneOptions
from harness.core.errors import HarnessError, ResultsError, SpecError
from harness.space_file import Spec

if TYPE_CHECKING:
    from harness.api.results import TuneResults
    from harness.display.progress import ProgressDisplay

_COMMAND_OR_OPTION = re.compile(r"-m harness\.\w[^;`\n]*|--([a-z][a-z-]*)")
_ARGUMENTS = {
    "max-time": "`max_time_s`",
    "stop-after": "`max_time_s`",
    "no-cross": "`cross=False`",
    "no-reduce": "`reduce=False`",
    "seed-configuration": "`seed_configurations`",
    "quiet": "`progress=False`",
}
"""The arguments that are not named like their options."""


@naming_arguments
def tune(
    space: str | Path | Spec | None = None,
    *,
    inputs: str | None = None,
    inputs_from: str | Path | None = None,
    cover: float | None = None,
    most_inputs: int | None = None,
    backend: str = "auto",
    device: str | int | Sequence[str | int] = (),
    replay: str | Path | None = None,
    technique: str | Sequence[str] = (),
    test_limit: int | None = None,
    max_time_s: float | None = None,
    seed: int = 0,
    seed_configurations: Sequence[Mapping[str, Any]] = (),
    warm_start: Sequence[str | Path] = (),
    repeats: int | None = None,
    precision: float | None = None,
    database: str | Path | None = None,
    label: str = "unnamed",
    fresh: bool = False,
    wait: float = 0.0,
    cross: bool = True,
    finalists: int | None = None,
    reduce: bool = True,
    progress: bool = True,
) -> TuneResults:
    """Find the fastest configuration of a kernel for each input, and return the results.

    docs/python.md describes the arguments. What the database holds is not measured again.

    Raises HarnessError, and on Ctrl-C KeyboardInterrupt, whose message says how to continue.
    """
    check_arguments(locals())  # by their names; there is nothing else yet
    options = TuneOptions(
        space=space if space is None or isinstance(space, Spec) else Path(space),
        inputs=inputs,
        inputs_from=None if inputs_from is None else Path(inputs_from),
        cover=cover,
        most_inputs=most_inputs,
        backend=backend,
        device=list(map(str, [device] if isinstance(device, str | int) else device)),
        replay=None if replay is None else Path(replay),
        technique=[technique] if isinstance(technique, str) else list(technique),
        test_limit=test_limit,
        stop_after=max_time_s,
        seed=seed,
        seed_configuration=list(seed_configurations),
        warm_start=list(map(Path, warm_start)),
        repeats=repeats,
        precision=precision,
        database=None if database is None else str(database),
        label=label,
        fresh=fresh,
        wait=wait,
        no_cross=not cross,
        finalists=finalists,
        no_reduce=not reduce,
    )
    return _checked_results(options, progress)


def _checked_results(options: TuneOptions, progress: bool) -> TuneResults:
    with _naming_arguments():
        check_options(options)  # before anything is loaded
        with _own_random():
            return _results(options, progress)


def _results(options: TuneOptions, progress: bool) -> TuneResults:
    # Here, since OpenTuner and others take seconds to load.
    from harness.api.request import read_request
    from harness.api.results import TuneResults
    from harness.api.session import tuned
    from harness.results.url import shown_database

    request = read_request(options)
    try:
        with tuned(request, _display(not progress)) as done:
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


@contextmanager
def _naming_arguments() -> Iterator[None]:
    """Name the arguments of `tune` in messages in place of the command's options."""
    try:
        yield
    except HarnessError as error:
        if not isinstance(error, SpecError):
            error.args = (in_python(str(error)),)
        raise


def in_python(message: str) -> str:
    """Replace the options that a message names by arguments, but not those of whole commands."""
    return _COMMAND_OR_OPTION.sub(lambda m: m[0] if m[1] is None else _argument(m[1]), message)


def _argument(option: str) -> str:
    name = option.replace("-", "_")
    known = inspect.signature(tune).parameters
    return _ARGUMENTS.get(option) or (f"`{name}`" if name in known else f"--{option}")


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
