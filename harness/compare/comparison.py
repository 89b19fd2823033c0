"""The results of BASE and CANDIDATE -> one row for each kernel, input and configuration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

from harness.compare.matching import check_last, match, matching_notes
from harness.compare.reading import InputResults, KernelResults, Occasions
from harness.compare.statistics import (
    Change,
    Pair,
    Verdict,
    judge,
    occasion_variance,
)
from harness.core.errors import UsageError
from harness.core.records import Environment, Input, Measurement, Outcome
from harness.stats.timing import mean_log, relative_clock_error

BOTH = "the default is the best"
"""The note of a row that stands for both: one measurement on each side, and one test."""

_CHANCE = (Outcome.TIMEOUT, Outcome.CRASHED, Outcome.OUT_OF_MEMORY)
_MAY_BE_CHANCE = " (may be chance)"
_NEITHER = "works neither in BASE nor in CANDIDATE"
_MOST_REASON = 600  # characters: a default of many parameters precedes what went wrong
_REGRESSIONS = (Verdict.SLOWER, Verdict.BROKEN)


@dataclass(frozen=True)
class ComparedRow:
    """One comparison of the `best` or the `default` configuration, as `subject` says.

    Rows with samples on both sides have a `pair` of them to test, and then a `change`, which gives
    the verdict. `same_sources` is whether both sides have them, in the same environment.
    """

    kernel: str
    environment: Environment
    problem: Input
    subject: str
    base: Measurement | None = None
    candidate: Measurement | None = None
    verdict: Verdict = Verdict.MISSING
    change: Change | None = None
    notes: tuple[str, ...] = ()
    pair: Pair | None = None
    same_sources: bool = False

    @property
    def is_same_code(self) -> bool:
        """Whether both sides ran the same code. The sources of a program may be incomplete, so its
        binaries must be equal."""
        base = self.base
        candidate = self.candidate
        if not (self.same_sources and base and candidate and base.config == candidate.config):
            return False
        if self.environment.backend != "command":
            return True
        if base.build is None or candidate.build is None:
            return False
        digest = base.build.binary_sha256
        return digest is not None and digest == candidate.build.binary_sha256

    @property
    def is_regression(self) -> bool:
        """Whether this row should fail a build."""
        return self.verdict in _REGRESSIONS

    @property
    def upper_limit(self) -> float | None:
        """The upper confidence limit of CANDIDATE's time over BASE's.

        It is the largest slowdown that may have been missed; None where the verdict is clear, or
        nothing was tested.
        """
        unclear = (Verdict.WITHIN_NOISE, Verdict.MACHINE)
        if self.change is None or self.verdict not in unclear:
            return None
        return self.change.ratio.high


@dataclass(frozen=True)
class Rules:
    """The options of a comparison; see harness.compare.statistics.

    In a rerun both sides were measured together on several occasions (harness.compare.rerun).
    """

    level: float
    threshold: float
    run_noise: float
    subjects: tuple[str, ...] = ("best", "default")
    across_environments: bool = False
    is_rerun: bool = False


@dataclass(frozen=True)
class Comparison:
    """All rows, and notes on what was compared."""

    rows: Sequence[ComparedRow]
    rules: Rules
    notes: Sequence[str] = ()

    @property
    def tested(self) -> int:
        """The number of tests, over all of which the level holds."""
        return sum(row.change is not None for row in self.rows)

    @property
    def regressions(self) -> list[ComparedRow]:
        """The rows that should fail a build."""
        return [row for row in self.rows if row.is_regression]

    @property
    def least_certain(self) -> tuple[ComparedRow, float] | None:
        """The row with the largest upper confidence limit, and that limit; None without any."""
        limits = [(row, row.upper_limit) for row in self.rows if row.upper_limit is not None]
        return max(limits, key=lambda pair: pair[1], default=None)

    @property
    def counts(self) -> Counter[str]:
        """The number of rows of each verdict."""
        return Counter(row.verdict.value for row in self.rows)


def compare(
    base: Sequence[KernelResults], candidate: Sequence[KernelResults], rules: Rules
) -> Comparison:
    """Compare every kernel and input that both sides hold, and list those that only one holds.

    Raises UsageError where environments differ, unless `rules.across_environments`, and where
    there is nothing to compare.
    """
    matched = list(match(base, candidate, rules.across_environments))
    if not matched:
        names = [sorted({results.kernel for results in side}) for side in (base, candidate)]
        raise UsageError(
            f"BASE holds {', '.join(names[0])}, and CANDIDATE {', '.join(names[1])}: they have no "
            "kernel in common; tune the same space into both"
        )
    drafts: list[ComparedRow] = []
    for old, new in matched:
        drafts += _drafts(old, new, rules.subjects)
    fresh = {row.kernel for row in drafts if row.verdict not in (Verdict.SAME, Verdict.MISSING)}
    check_last(base, candidate, matched, fresh)
    if all(row.verdict is Verdict.MISSING for row in drafts):
        raise UsageError(
            "BASE and CANDIDATE have no input in common that works; tune the same inputs in both"
        )
    notes = [*matching_notes(base, candidate, matched), *_assumed_noise(drafts, rules)]
    judged = list(_judged(drafts, rules))
    if any(row.verdict is Verdict.MACHINE for row in judged):
        notes.append(
            "Where the machine changed, nothing is known of the kernel: --rerun measures both "
            "sides together"
        )
    return Comparison(judged, rules, tuple(notes))


def _assumed_noise(drafts: Sequence[ComparedRow], rules: Rules) -> Iterator[str]:
    """Say that noise between runs is assumed, where no variance is known."""
    pairs = [draft.pair for draft in drafts if draft.pair and not draft.pair.differences]
    if pairs and not any(pair.occasions.freedom for pair in pairs):
        yield (
            "No configuration was measured on two occasions. Noise between runs is assumed to be "
            f"{1 + rules.run_noise:.3f}x (--run-noise)"
        )


def _drafts(
    base: KernelResults, candidate: KernelResults, subjects: Sequence[str]
) -> Iterator[ComparedRow]:
    """Draft the rows of a kernel: those with a `pair` are to be tested."""
    is_same = (base.program, base.environment) == (candidate.program, candidate.environment)
    for problem in dict.fromkeys([*base.inputs, *candidate.inputs]):
        row = ComparedRow(
            candidate.kernel, candidate.environment, problem, subjects[0], same_sources=is_same
        )
        old = base.inputs.get(problem)
        new = candidate.inputs.get(problem)
        was_broken = base.broken.get(problem)
        is_broken = candidate.broken.get(problem)
        if old is not None and is_broken is not None and was_broken is None:
            row = replace(row, verdict=Verdict.BROKEN, notes=(_reason(is_broken),))
            drafts = [replace(row, subject=s, base=m) for s, m in _working(old, subjects)]
            yield from drafts or [replace(row, verdict=Verdict.MISSING, notes=(_NEITHER,))]
        elif old is not None and new is not None:
            yield from _of_input(row, old, new, subjects)
        elif was_broken is not None and new is not None:
            row = replace(row, verdict=Verdict.FIXED, notes=(_reason(was_broken),))
            for subject, m in _working(new, subjects):
                yield replace(row, subject=subject, candidate=m)
        else:
            yield replace(row, notes=(_only_in("BASE" if new is None else "CANDIDATE"),))


def _only_in(side: str) -> str:
    return f"measured only in {side}"


def _working(results: InputResults, subjects: Sequence[str]) -> list[tuple[str, Measurement]]:
    """Return the subjects that work."""
    pairs = [(subject, results.measured.get(subject)) for subject in subjects]
    return [(subject, m) for subject, m in pairs if m and m.timing]


def _reason(reason: str) -> str:
    """Shorten the reason why an input failed, which ends in `outcome: message`."""
    is_chance = any(f": {outcome}: " in reason for outcome in _CHANCE)
    return f"{reason[:_MOST_REASON]}{_MAY_BE_CHANCE if is_chance else ''}"


def _of_input(
    row: ComparedRow, old: InputResults, new: InputResults, subjects: Sequence[str]
) -> Iterator[ComparedRow]:
    """Draft the rows of an input that both sides measured."""
    groups = joined([*old.groups, *new.groups])
    variance = occasion_variance([tuple(group.values()) for group in groups])
    both: tuple[str, ...] = ()
    if all(side.measured.get("best") is side.measured.get("default") for side in (old, new)):
        both = (BOTH,) if len(subjects) > 1 else ()
        subjects = subjects[:1]
    for subject in subjects:
        base = old.measured.get(subject)
        candidate = new.measured.get(subject)
        if base is candidate is None:
            continue  # OpenTuner's own databases state no default
        draft = replace(row, subject=subject, base=base, candidate=candidate)
        if not (base and candidate and base.timing and candidate.timing):
            verdict, note = _untested(base, candidate)
            yield replace(draft, verdict=verdict, notes=(*both, note))
            continue
        uuid = old.uuids.get(subject)
        if uuid and uuid == new.uuids.get(subject):
            yield replace(draft, verdict=Verdict.SAME, notes=both)
            continue
        pair = Pair(
            base.timing.samples_s,
            candidate.timing.samples_s,
            variance,
            clock_error=relative_clock_error(base.timing, candidate.timing),
        )
        if old.is_rerun and new.is_rerun:
            occasions = zip(base.timing.by_occasion, candidate.timing.by_occasion, strict=True)
            differences = [mean_log(after) - mean_log(before) for before, after in occasions]
            pair = replace(pair, differences=tuple(differences))
        notes = (*both, *_notes_on(subject, old, new))
        yield replace(draft, verdict=Verdict.WITHIN_NOISE, notes=notes, pair=pair)


def joined(groups: Sequence[Occasions]) -> list[dict[Hashable, float]]:
    """Join groups that share occasions.

    A database that continues a copied one holds the occasions of both.
    """
    groups_of_all: list[dict[Hashable, float]] = []
    for group in groups:
        same = next((other for other in groups_of_all if not other.keys().isdisjoint(group)), None)
        if same is None:
            groups_of_all.append(dict(group))
        else:
            same.update(group)
    return groups_of_all


def _untested(base: Measurement | None, candidate: Measurement | None) -> tuple[Verdict, str]:
    """Return the verdict where a side has no time, and its reason."""
    if base is None or candidate is None:
        return Verdict.MISSING, _only_in("BASE" if base else "CANDIDATE")
    failed = candidate
    verdict = Verdict.MISSING
    if base.timing:
        verdict = Verdict.BROKEN
    elif candidate.timing:
        failed = base
        verdict = Verdict.FIXED
    chance = _MAY_BE_CHANCE if failed.outcome in _CHANCE else ""
    return verdict, f"{failed.outcome}{chance}: {' '.join(failed.message.split())[:200]}"


def _judged(drafts: Sequence[ComparedRow], rules: Rules) -> Iterator[ComparedRow]:
    """Test the drafts that have samples on both sides, and yield all rows."""
    pairs = [draft.pair for draft in drafts if draft.pair]
    changes = iter(judge(pairs, rules.level, rules.threshold, rules.run_noise))
    for row in drafts:
        if row.pair is None:
            yield row
            continue
        change = next(changes)
        verdict = change.verdict
        notes = row.notes
        if verdict is Verdict.WITHIN_NOISE:
            notes = tuple(note for note in notes if note == BOTH)
        elif row.is_same_code and not row.pair.differences:
            verdict = Verdict.MACHINE
            notes = (*notes, "the same code, in the same environment")
        yield replace(row, verdict=verdict, change=change, notes=notes)


def _notes_on(subject: str, old: InputResults, new: InputResults) -> Iterator[str]:
    """Name other causes of a difference than the kernel."""
    was = old.measured[subject].config
    now = new.measured[subject].config
    if subject == "default" and was != now:
        yield f"the default was ({was})"
    if subject == "best" and was not in new.tried:
        yield f"CANDIDATE did not try the best of BASE ({was})"
    if subject == "best" and now not in old.tried:
        yield f"BASE did not try the best of CANDIDATE ({now})"
    if not (old.is_remeasured and new.is_remeasured):
        yield "times of the search, which flatter the best"
