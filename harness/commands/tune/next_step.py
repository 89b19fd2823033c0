"""The command to run next: continue a search, see its results, or generate code."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.analysis.inputs import InputReport
from harness.commands.tune.options import TuneCommand
from harness.core.invocation import command_words
from harness.results import StoredCampaign
from harness.results.url import shown_database
from harness.search import EndReason
from harness.tuning import Campaign

_LEAST_TIME_S = 60
_ONLY_ONCE = ("--fresh", "--test-limit", "--stop-after", "--max-time")
_TECHNIQUE = ("--technique", "-t", "--validate")
_FLAGS = ("--fresh",)


@dataclass(frozen=True)
class NextStep:
    """What to know or to do next, and the words of the command that does it, if any."""

    text: str
    words: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.text}: {shlex.join(self.words)}" if self.words else self.text


def next_steps(
    options: TuneCommand, campaign: Campaign, reports: Sequence[InputReport], database: str
) -> Iterator[NextStep]:
    """Say where the samples are, and which command to run next."""
    limit = options.test_limit or campaign.spec.search.test_limit
    if not any(report.measured for report in reports) and not campaign.state.left_out:
        again = _again(options, "--test-limit", str(limit), "--max-time", _longer_s(options))
        yield NextStep("Nothing was measured: the time was up. To allow more time", again)
        return
    shown = shown_database(database)
    stored = f"All samples are in {shown}. To see the results again"
    yield NextStep(stored, command_words("analyse", shown))
    if not any(report.best for report in reports):
        yield NextStep("Fix what the messages above name, then run the same command again.")
    elif all(report.is_exhausted for report in reports):
        yield NextStep(f"{_all_measured(reports)} The search is complete.")
    elif campaign.has_ended:
        again = _again(options, "--technique", "auto", with_technique=False)
        yield NextStep("This technique has ended. To continue with another", again)
    else:
        if not _is_time_up(campaign, options):
            limit *= 2  # the tests ran out
        again = _again(options, "--test-limit", str(limit))
        yield NextStep("To continue the search", again)


def _all_measured(reports: Sequence[InputReport]) -> str:
    counts = {report.legal for report in reports}
    all_ = f"All {counts.pop():,}" if len(counts) == 1 else "All"
    where = " on each input" if len(reports) > 1 else ""
    return f"{all_} legal configurations were measured{where}."


def _is_time_up(campaign: Campaign, options: TuneCommand) -> bool:
    """Whether the time ran out before the tests; for a validation, whether it was limited."""
    ends = [found.ended for found in campaign.searched.values()]
    return EndReason.TIME in ends if ends else options.stop_after is not None


def _longer_s(options: TuneCommand) -> str:
    """Return seconds in which something is measured."""
    return f"{max(_LEAST_TIME_S, 10 * (options.stop_after or 0)):g}"


def _again(options: TuneCommand, *added: str, with_technique: bool = True) -> tuple[str, ...]:
    """Return the same command with other limits."""
    dropped = _ONLY_ONCE if with_technique else _ONLY_ONCE + _TECHNIQUE
    return command_words("tune", *kept_arguments(options, dropped), *added)


def after_interrupt(options: TuneCommand) -> str:
    """Say after Ctrl-C what is kept, and which command continues."""
    words = command_words("tune", *kept_arguments(options, _FLAGS))
    return str(NextStep("interrupted: all measurements are kept. To continue", words))


def kept_arguments(options: TuneCommand, dropped: Collection[str] = _ONLY_ONCE) -> Iterator[str]:
    """Yield the arguments of a command that continues this one, without the `dropped` options; a
    password is not shown."""
    is_value = False
    for word in options.typed:
        option, assigned, _ = word.partition("=")
        was_value, is_value = is_value and not word.startswith("-"), False
        if option in dropped or (word.startswith("-t") and "-t" in dropped):
            is_value = not assigned and option in dropped and option not in _FLAGS
        elif not was_value:
            yield word


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
