"""Tune from Python, as `python -m harness.tune` does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.core.arrays import own_random
from harness.core.errors import ResultsError
from harness.options.tune import CampaignOptions, ReplayOptions, TuneOptions

if TYPE_CHECKING:
    from harness.api.results import TuneResults
    from harness.space_file import Spec


def tune(space: str | Path | Spec | None = None, **arguments: Any) -> TuneResults:
    """Find the fastest configuration of a kernel for each input, and return the results.

    docs/reference/commands.md describes the arguments. What the database holds is not measured
    again.

    Raises HarnessError, and on Ctrl-C KeyboardInterrupt, whose message says how to continue.
    """
    return _results(TuneOptions, "tune", {"space": space, **arguments})


def replay(recording: str | Path, **arguments: Any) -> TuneResults:
    """Search recorded measurements in place of a device, as `harness replay` does, and return the
    results.

    With a `space`, its inputs and constraints count. Raises what `tune` does.
    """
    return _results(ReplayOptions, "replay", {"recording": recording, **arguments})


def _results(
    model: type[CampaignOptions], function: str, arguments: Mapping[str, object]
) -> TuneResults:
    with model.called(function, arguments) as options, own_random():
        # Here, since OpenTuner and others take seconds to load.
        from harness.api.request import read_request
        from harness.api.results import TuneResults
        from harness.api.running import tuned
        from harness.display.progress import ProgressDisplay
        from harness.display.text import make_console
        from harness.results.url import shown_database

        request = read_request(options.read())
        display = ProgressDisplay(make_console(stderr=True), quiet=not options.progress)
        try:
            with tuned(request, display) as done:
                stored = done.results
        except KeyboardInterrupt:
            without = ", without fresh" if options.fresh else ""
            # Raised anew: a traceback into the search would hide what the person needs to know.
            raise KeyboardInterrupt(
                f"all measurements are kept in {shown_database(request.database)}. To continue, "
                f"call {function} again with the same arguments{without}; to see them, open_results"
            ) from None
        if not stored.runs:
            raise ResultsError(f"{request.database}: nothing was measured")
        return TuneResults(stored, request.space)


tune.__signature__ = TuneOptions.signature(space="space")  # type: ignore[attr-defined]
replay.__signature__ = ReplayOptions.signature(recording="recording")  # type: ignore[attr-defined]
