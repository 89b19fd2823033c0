"""Tune from Python: the stages, the database and the resuming of `python -m harness.tune`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.api.tune_options import TuneOptions
from harness.core.errors import ResultsError, UsageError
from harness.core.files import check_output, check_writable, nearest_file
from harness.core.text import command_line
from harness.recordings.files import FileKind, file_kind

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
    options = TuneOptions.from_arguments("tune", {"space": space, **arguments})
    with TuneOptions.naming_arguments():
        check_options(options)
        with own_random():
            return _results(options)


tune.__signature__ = TuneOptions.signature(space="space")  # type: ignore[attr-defined]


def _results(options: TuneOptions) -> TuneResults:
    # Here, since OpenTuner and others take seconds to load.
    from harness.api.request import read_request
    from harness.api.results import TuneResults
    from harness.api.session import tuned
    from harness.results.url import shown_database

    request = read_request(options)
    try:
        with tuned(request, make_display(not options.progress)) as done:
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


def make_display(quiet: bool) -> ProgressDisplay:
    """Show progress on standard error."""
    from harness.display.progress import ProgressDisplay
    from harness.display.text import make_console

    return ProgressDisplay(make_console(stderr=True), quiet)


@contextmanager
def own_random() -> Iterator[None]:
    """Put the caller's global generators back: they are seeded for OpenTuner, which uses them."""
    import numpy as np

    state, numpy_state = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(state)
        np.random.set_state(numpy_state)


def check_options(options: TuneOptions) -> None:
    """Raise HarnessError for options that exclude each other, and for missing or wrong files."""
    if options.space is None and options.replay is None:
        raise UsageError("name a space, for example spaces/mvmul.yaml, or --replay FILE")
    _check_replay(options)
    _check_validation(options)
    if options.cover is not None and options.inputs_from is None:
        raise UsageError("--cover needs --inputs-from FILE, whose calls it counts")
    if options.insecure and options.cluster is None:
        raise UsageError("--insecure needs --cluster ADDRESS, whose encryption it concerns")
    if options.most_inputs is not None and options.inputs_from is None:
        raise UsageError("--most-inputs needs --inputs-from FILE, whose inputs it counts")
    for option, path in _files(options):
        _check_file(option, path)
    if isinstance(options.space, Path):
        _check_space(options.space)
    if options.results_log is not None:
        check_writable(options.results_log, "name another file with --results-log")
    if options.report is not None:
        check_output(options.report)


def _check_replay(options: TuneOptions) -> None:
    """Refuse options that a replay cannot obey."""
    is_backend = options.backend != "auto"
    places = {"backend": is_backend, "device": options.device, "cluster": options.cluster}
    for name in (name for name, given in places.items() if given and options.replay):
        raise UsageError(f"--replay takes the place of a device; leave out --{name}")
    if options.mapping is not None and not (options.warm_recordings or options.replays_alone):
        raise UsageError("--mapping needs --warm-start FILE, or --replay FILE without a space")
    if options.measure and options.replay:
        name = next(iter(options.measure)).replace("_", "-")
        raise UsageError(
            f"--{name} says how launches are timed, but a recording is not timed again; leave it "
            "out"
        )


def _check_validation(options: TuneOptions) -> None:
    """Refuse options of a search, since a validation samples uniformly."""
    if options.validate is None:
        return
    others = set(options.technique) - {"UniformRandom"}
    if others:
        raise UsageError(
            "--validate samples with --technique UniformRandom alone, got "
            f"{', '.join(sorted(others))}; leave --technique out"
        )
    if options.results_log is not None:
        raise UsageError("--results-log does not go with --validate, which seeks no best")


def _files(options: TuneOptions) -> Iterator[tuple[str, Path]]:
    """Yield the files that must exist, with their options.

    A missing --mapping is reported later, with a suggestion made from its recording.
    """
    if isinstance(options.space, Path):
        yield "", options.space
    if options.inputs_from is not None:
        yield "--inputs-from ", options.inputs_from
    if options.replay is not None:
        yield "--replay ", options.replay
    yield from (("--warm-start ", path) for path in options.warm_recordings)
    seeds = (seed for seed in options.seed_configurations if isinstance(seed, Path))
    yield from (("--seed-configuration ", path) for path in seeds)


def _check_file(option: str, path: Path) -> None:
    try:
        if path.is_file():
            return
        if path.exists():
            raise UsageError(f"{option}{path} is not a file; name a file")
        near = nearest_file(path)
    except OSError as error:
        raise UsageError(f"{option}{path} cannot be read: {error.strerror}") from None
    hint = f"; did you mean `{near}`?" if near else ""
    raise UsageError(f"{option}{path} does not exist{hint}")


def _check_space(path: Path) -> None:
    """Refuse another known file in place of a space, often a recording."""
    kind = file_kind(path)
    if kind is FileKind.DATABASE:
        raise UsageError(
            f"{path} is {kind.value}, not a space; to see its results, run: "
            f"{command_line('analyse', str(path))}"
        )
    if kind is not FileKind.YAML:
        raise UsageError(
            f"{path} is {kind.value}, not a space; to search recorded measurements, use "
            f"--replay {path}"
        )
