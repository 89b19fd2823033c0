"""Two places -> a row for each kernel, input and configuration that is looked at."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from harness.compare.matching import check_last, match, matching_notes
from harness.compare.reading import Found, Held, Occasions
from harness.compare.statistics import (
    Change,
    OccasionVariance,
    Pair,
    Verdict,
    judge,
    occasion_variance,
)
from harness.core.errors import UsageError
from harness.core.records import Environment, Input, Measurement, Outcome


class Ending(str, Enum):
    """What came of a row without a test."""

    SAME = "not measured again"
    BROKEN = "works no more"
    MENDED = "works now"
    MISSING = "not compared"

    def __str__(self) -> str:
        return self.value


BOTH = "the default is the best"
"""Of a row that stands for both, which are one measurement on each side, and one test."""

_CHANCE = (Outcome.TIMEOUT, Outcome.CRASHED)
_MOST_REASON = 600  # characters: a default of many parameters stands before what went wrong
REGRESSIONS = (Verdict.SLOWER, Ending.BROKEN)


@dataclass(frozen=True)
class Row:
    """One comparison. `of` is `best` or `default`; `change` is there exactly where samples were
    compared, and then has the verdict; `notes` say what a person has to know of it."""

    kernel: str
    where: Environment
    given: Input
    of: str
    base: Measurement | None = None
    candidate: Measurement | None = None
    verdict: Verdict | Ending = Ending.MISSING
    change: Change | None = None
    notes: tuple[str, ...] = ()

    @property
    def is_regression(self) -> bool:
        """Whether a build should fail of it."""
        return self.verdict in REGRESSIONS

    @property
    def upper_limit(self) -> float | None:
        """The upper confidence limit of CANDIDATE's time over BASE's, the largest slowdown that
        may have been missed; None where the verdict is clear, or nothing was tested."""
        if self.change is None or self.verdict is not Verdict.WITHIN_NOISE:
            return None
        return self.change.ratio.high


@dataclass(frozen=True)
class Rules:
    """How is compared; see harness.compare.statistics."""

    level: float
    threshold: float
    run_noise: float
    of: tuple[str, ...] = ("best", "default")
    across: bool = False


@dataclass(frozen=True)
class Comparison:
    """All rows, and what is to be told besides."""

    rows: Sequence[Row]
    rules: Rules
    notes: Sequence[str] = ()

    @property
    def tested(self) -> int:
        """How many rows are of the family that the level is for."""
        return sum(row.change is not None for row in self.rows)

    @property
    def regressions(self) -> list[Row]:
        """The rows that a build should fail of."""
        return [row for row in self.rows if row.is_regression]

    @property
    def least_certain(self) -> tuple[Row, float] | None:
        """The row with the largest upper confidence limit, and that limit; None without any."""
        limits = [(row, row.upper_limit) for row in self.rows if row.upper_limit is not None]
        return max(limits, key=lambda pair: pair[1], default=None)

    @property
    def counts(self) -> Counter[str]:
        """How often each verdict came."""
        return Counter(row.verdict.value for row in self.rows)


def compare(base: Sequence[Held], candidate: Sequence[Held], rules: Rules) -> Comparison:
    """Every kernel and input that both hold, and what only one holds.

    Raises UsageError where environments differ, unless `rules.across`, and where there is nothing
    to compare.
    """
    matched = list(match(base, candidate, rules.across))
    if not matched:
        names = [sorted({held.kernel for held in side}) for side in (base, candidate)]
        raise UsageError(
            f"BASE holds {', '.join(names[0])} and CANDIDATE {', '.join(names[1])}: nothing that "
            "both hold; tune the same space into both"
        )
    drafts = [draft for pair in matched for draft in _drafts(*pair, rules.of)]
    fresh = {row.kernel for row, _ in drafts if row.verdict not in (Ending.SAME, Ending.MISSING)}
    check_last(base, candidate, matched, fresh)
    if all(row.verdict is Ending.MISSING for row, _ in drafts):
        lost = [note for pair in matched for note in _without_default(*pair, rules.of)]
        advice = "export again, or give the databases" if lost else "tune the same inputs in both"
        told = "BASE and CANDIDATE have no input in common that works"
        raise UsageError("; ".join([told, *lost, advice]))
    rows, notes = list(_judged(drafts, rules)), list(matching_notes(base, candidate, matched))
    variances = [variance for _, variance in drafts if variance]
    if variances and not any(variance.freedom for variance in variances):
        notes.append(
            f"nothing was measured at two moments: noise of {1 + rules.run_noise:.3f}x between "
            "runs is assumed (--run-noise)"
        )
    notes += [note for pair in matched for note in _without_default(*pair, rules.of)]
    return Comparison(rows, rules, tuple(notes))


def _without_default(base: Held, candidate: Held, of: Sequence[str]) -> Iterator[str]:
    """Which side has no default to compare, where it is asked for."""
    for side, held in (("BASE", base), ("CANDIDATE", candidate)):
        found = held.inputs.values()
        if "default" in of and found and not any("default" in one.measured for one in found):
            yield f"{held.kernel}: {side} does not tell of its default"


Draft = tuple[Row, "OccasionVariance | None"]
"""A row before its test, and the variance of its input; None where there is nothing to test."""


def _drafts(base: Held, candidate: Held, of: Sequence[str]) -> Iterator[Draft]:
    blank = Row(candidate.kernel, candidate.environment, Input({}), of[0])
    for given in dict.fromkeys([*base.inputs, *candidate.inputs]):
        row = dataclasses.replace(blank, given=given)
        old, new = base.inputs.get(given), candidate.inputs.get(given)
        was_broken, is_broken = given in base.broken, given in candidate.broken
        if old is not None and is_broken and not was_broken:
            yield from _of_broken(row, old, candidate.broken[given], of)
        elif old is not None and new is not None:
            yield from _of_input(row, old, new, of)
        elif was_broken and new is not None:
            yield from _of_mended(row, new, base.broken[given], of)
        else:
            why = f"measured only in {'BASE' if new is None else 'CANDIDATE'}"
            yield dataclasses.replace(row, notes=(why,)), None


def _of_broken(row: Row, old: Found, why: str, of: Sequence[str]) -> Iterator[Draft]:
    """An input that CANDIDATE could not measure."""
    found = [
        dataclasses.replace(row, of=what, base=base, verdict=Ending.BROKEN, notes=(_reason(why),))
        for what, base in _working(old, of)
    ]
    missing = dataclasses.replace(row, notes=("works neither in BASE nor in CANDIDATE",))
    yield from ((one, None) for one in found or [missing])


def _of_mended(row: Row, new: Found, why: str, of: Sequence[str]) -> Iterator[Draft]:
    """An input that BASE could not measure."""
    for what, measured in _working(new, of):
        mended = dataclasses.replace(row, of=what, candidate=measured, verdict=Ending.MENDED)
        yield dataclasses.replace(mended, notes=(_reason(why),)), None


def _working(found: Found, of: Sequence[str]) -> Iterator[tuple[str, Measurement]]:
    """What is looked at of an input and works."""
    for what in of:
        measured = found.measured.get(what)
        if measured is not None and measured.timing:
            yield what, measured


def _reason(why: str) -> str:
    """Why an input did not work, as a command told it: `outcome: message` at its end."""
    is_chance = any(f": {outcome}: " in why for outcome in _CHANCE)
    return f"{why[:_MOST_REASON]}{' (may be chance)' if is_chance else ''}"


def _of_input(row: Row, old: Found, new: Found, of: Sequence[str]) -> Iterator[Draft]:
    variance = occasion_variance(
        [tuple(one.values()) for one in joined([*old.groups, *new.groups])]
    )
    told: set[tuple[int, int]] = set()
    is_both = len(of) > 1 and all(
        side.measured.get("best") is side.measured.get("default") for side in (old, new)
    )
    for what in of:
        base, candidate = old.measured.get(what), new.measured.get(what)
        lacking = [base, candidate].count(None)
        if lacking == 2 or (lacking and told) or (id(base), id(candidate)) in told:
            continue  # exports have no default; or it is the best
        told.add((id(base), id(candidate)))
        found = dataclasses.replace(row, of=what, base=base, candidate=candidate)
        verdict, notes = _ended(base, candidate)
        is_copy = bool(uuid := old.uuids.get(what)) and uuid == new.uuids.get(what)
        if verdict is Verdict.WITHIN_NOISE and is_copy:
            verdict = Ending.SAME
        if verdict is Verdict.WITHIN_NOISE:
            notes = tuple(_notes_on(what, old, new))
        notes = (BOTH, *notes) if is_both else notes
        if verdict is Verdict.WITHIN_NOISE:
            yield dataclasses.replace(found, verdict=verdict, notes=notes), variance
        else:
            yield dataclasses.replace(found, verdict=verdict, notes=notes), None


def joined(groups: Sequence[Occasions]) -> list[dict[Hashable, float]]:
    """Groups that share occasions are one: a database that was carried on holds those of the one
    that it was copied from, and may have added some."""
    found: list[dict[Hashable, float]] = []
    for group in groups:
        same = next((one for one in found if not one.keys().isdisjoint(group)), None)
        if same is None:
            found.append(dict(group))
        else:
            same.update(group)
    return found


def _ended(
    base: Measurement | None, candidate: Measurement | None
) -> tuple[Verdict | Ending, tuple[str, ...]]:
    """What is known without a test, and why; `within noise` where there are samples to test."""
    if base is None or candidate is None:
        return Ending.MISSING, (f"measured only in {'BASE' if base else 'CANDIDATE'}",)
    if base.timing and candidate.timing:
        return Verdict.WITHIN_NOISE, ()
    failed = candidate if candidate.timing is None else base
    chance = " (may be chance)" if failed.outcome in _CHANCE else ""
    why = (f"{failed.outcome}{chance}: {' '.join(failed.message.split())[:200]}",)
    if base.timing:
        return Ending.BROKEN, why
    return (Ending.MENDED if candidate.timing else Ending.MISSING), why


def _judged(drafts: Sequence[Draft], rules: Rules) -> Iterator[Row]:
    """The rows, with what the test says of those that have samples to compare."""
    pairs = [
        Pair(_samples(row.base), _samples(row.candidate), variance)
        for row, variance in drafts
        if variance is not None
    ]
    changes = iter(judge(pairs, rules.level, rules.threshold, rules.run_noise))
    for row, variance in drafts:
        if variance is None:
            yield row
            continue
        change = next(changes)
        is_clear = change.verdict is not Verdict.WITHIN_NOISE
        notes = tuple(note for note in row.notes if is_clear or note == BOTH)
        yield dataclasses.replace(row, verdict=change.verdict, change=change, notes=notes)


def _samples(measurement: Measurement | None) -> Sequence[float]:
    return measurement.timing.samples_s if measurement and measurement.timing else ()


def _notes_on(what: str, old: Found, new: Found) -> Iterator[str]:
    """What else than the kernel may be behind a difference."""
    was, now = old.measured[what].config, new.measured[what].config
    if what == "default" and was != now:
        yield f"the default was ({was})"
    if what == "best" and was not in new.tried:
        yield f"CANDIDATE did not try the best of BASE ({was})"
    if what == "best" and now not in old.tried:
        yield f"BASE did not try the best of CANDIDATE ({now})"
    if not (old.is_remeasured and new.is_remeasured):
        yield "times of the search, which flatter the best"
