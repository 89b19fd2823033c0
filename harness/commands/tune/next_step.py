"""The command to run next: continue a search, see its results, or generate code."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.analysis.inputs import InputReport
from harness.api.tune_options import TuneOptions
from harness.core.invocation import command_words
from harness.results import StoredCampaign
from harness.results.url import shown_database
from harness.search import EndReason
from harness.tuning import Campaign

_LEAST_TIME_S = 60


@dataclass(frozen=True)
class NextStep:
    """What to know or to do next, and the words of the command that does it, if any."""

    text: str
    words: tuple[str, ...] = ()


def next_steps(
    options: TuneOptions, campaign: Campaign, reports: Sequence[InputReport], database: str
) -> Iterator[NextStep]:
    """Say where the samples are, and what to run next."""
    if not any(report.measured for report in reports) and not campaign.left_out:
        why = "Nothing was measured, because the time was up. To allow more time,"
        yield run_again(options, why, "--max-time", _longer_s(options))
        return
    shown = shown_database(database)
    look = command_words("analyse", shown)
    stored = f"All samples are in {shown}. To see the results again: {shlex.join(look)}"
    yield NextStep(stored, look)
    if not any(report.best for report in reports):
        yield NextStep("Fix what the messages above name, then run the same command again.")
    elif all(report.is_exhausted for report in reports):
        yield NextStep(f"{_all_measured(reports)} The search is complete.")
    elif campaign.has_ended:
        place = f" in place of {'--validate' if options.validate else '--technique'}"
        yield NextStep(
            "This technique has ended. To continue with another, run the same command with "
            f"--technique auto{place if options.validate or options.technique else ''}."
        )
    elif _is_time_up(campaign, options):
        yield run_again(options, "To continue the search,")
    else:
        limit = options.test_limit or campaign.spec.search.test_limit
        yield run_again(options, "To continue the search,", "--test-limit", str(2 * limit))


def run_again(options: TuneOptions, why: str, *changed: str) -> NextStep:
    """Say that the same command goes on, with these options changed.

    Of an option that is given twice, argparse takes the last. --fresh would begin again.
    """
    again = f"with {' '.join(changed)}" if changed else "again"
    without = ", without --fresh" if options.fresh else ""
    typed = [word for word in options.command if word != "--fresh"]
    words = command_words("tune", *typed, *changed)
    return NextStep(f"{why} run the same command {again}{without}.", words)


def _all_measured(reports: Sequence[InputReport]) -> str:
    counts = {report.legal for report in reports}
    all_ = f"All {counts.pop():,}" if len(counts) == 1 else "All"
    where = " on each input" if len(reports) > 1 else ""
    return f"{all_} legal configurations were measured{where}."


def _is_time_up(campaign: Campaign, options: TuneOptions) -> bool:
    """Whether the time ran out before the tests; for a validation, whether it was limited."""
    ends = [found.ended for found in campaign.searched.values()]
    return EndReason.TIME in ends if ends else options.max_time_s is not None


def _longer_s(options: TuneOptions) -> str:
    """Return seconds in which something is measured."""
    return f"{max(_LEAST_TIME_S, 10 * (options.max_time_s or 0)):g}"


def dispatch_words(
    tuned: StoredCampaign, stored: Iterable[StoredCampaign], database: str
) -> list[str]:
    """Return the words after `dispatch` that generate code from a campaign, of all that a
    database stores."""
    program = tuned.space_name, tuned.key.program_sha256
    same = [other for other in stored if (other.space_name, other.key.program_sha256) == program]
    is_alone = len({other.environment.device for other in same}) == 1
    device = [] if is_alone else ["--device", tuned.environment.device]
    return [shown_database(database), "-o", "out", *device]
