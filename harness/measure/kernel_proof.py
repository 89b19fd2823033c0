"""Proofs of kernels whose times are too short to be believed: runs on new data, with the default.

On each of several sets of data that it has not seen, the kernel runs twice: first on the new data,
then after the same data were written once more to the same memory. The default does the same on
other data, so it can leave nothing that helps the kernel. What makes the second run shorter is what
new data cost the default as well, such as fresh pages of memory, and what the kernel keeps of data.
A kernel that owes most of its gain to the latter has not earned it.

On a busy machine single runs say little. So the sets of data vote, and more of them are tried until
the vote is clear (Wald, "Sequential Tests of Statistical Hypotheses", 1945).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.core.records import Measurement, Outcome
from harness.core.text import format_time
from harness.measure.occasions import join
from harness.measure.plausibility import LEAST_GAIN, TOLERATED_SLOWDOWN, Refusal, failed_proof

PROOF_DATA = (3, 3, 6, 12)
"""The sets of new data of a proof, and how many more while those do not settle the matter."""

_HONEST, _CHEATING = 0.4, 0.9
"""The share of sets of data that speak against an honest kernel, at most, and against one that
keeps results, at least."""

_PROVED, _REFUSED = -5.3, 6.9
"""The evidence, as a logarithm of likelihoods, at which a vote ends: one proof in 200 errs, and one
refusal in 1,000."""


@dataclass(frozen=True)
class ProofRuns:
    """The runs of a kernel in a proof, and those of the default, None where there is none.

    The warm-ups are, for each set of data, the first run on it, and the first one after the data
    were written again. A sample followed each of them.
    """

    kernel: Measurement
    default: Measurement | None = None

    def with_later(self, more: ProofRuns) -> ProofRuns:
        """Return these runs and later ones on other data."""
        parts = [runs.default for runs in (self, more) if runs.default is not None]
        return ProofRuns(join([self.kernel, more.kernel]), join(parts) if parts else None)

    def judge(self, time_s: float, default_s: float | None, overhead_s: float) -> ProofVerdict:
        """Return whether the runs prove a time, and whether more runs may still change that.

        `time_s` and `default_s` are the seconds that were measured of the kernel and of the
        default; launches of equal work differ by up to `overhead_s`.
        """
        if self.kernel.timing is None:
            return ProofVerdict(failed_proof(self.kernel), is_clear=True)
        slower = self._why_slower(time_s, default_s, overhead_s)
        evidence = self._evidence(overhead_s)
        reason = slower or (self._why_kept(overhead_s) if evidence > 0 else None)
        refusal = None if reason is None else Refusal(Outcome.IMPLAUSIBLE, reason)
        is_proved = slower is None and evidence <= _PROVED
        return ProofVerdict(refusal, is_clear=is_proved or evidence >= _REFUSED)

    def _why_slower(self, time_s: float, default_s: float | None, overhead_s: float) -> str | None:
        """Return why the shortest run is too long, as slow as the default shows the machine to be;
        None where it is not."""
        shortest_s = _shortest_s(self.kernel)
        slower, beside = 1.0, ""
        if self.default is not None and self.default.timing and default_s is not None:
            now_s = _shortest_s(self.default)
            slower = max(1.0, now_s / default_s)
            beside = f", and the default {format_time(now_s)} or more"
        if shortest_s <= TOLERATED_SLOWDOWN * slower * time_s + overhead_s:
            return None
        return (
            f"on {self._count} sets of new data a second build took {format_time(shortest_s)} or "
            f"more{beside}, where {format_time(time_s)} were measured"
        )

    def _evidence(self, overhead_s: float) -> float:
        """Return how clearly results that are kept of data explain most of the gain.

        This is the logarithm of the likelihood of the sets of data that speak for it and of those
        that do not, under a kernel that keeps results over that under an honest one. Without a gain
        over the default there is nothing to explain.
        """
        saved_s = self._saved_s
        if saved_s is None:
            return -math.inf
        limit_s = max(saved_s / 2, overhead_s)
        above = sum(extra_s > limit_s for extra_s in self._extra_s)
        below = self._count - above
        return above * math.log(_CHEATING / _HONEST) + below * math.log(
            (1 - _CHEATING) / (1 - _HONEST)
        )

    @property
    def _saved_s(self) -> float | None:
        """The seconds that the kernel gains over the default on data that were written once more;
        None where that is next to nothing, or there is no default."""
        if self.default is None or self.default.timing is None:
            return None
        seen_s, default_s = (min(one.warmup_s[1::2]) for one in (self.kernel, self.default))
        saved_s = default_s - seen_s
        return saved_s if saved_s > LEAST_GAIN * default_s else None

    @property
    def _extra_s(self) -> list[float]:
        """The seconds that the run on new data took longer than the second one, by set of data,
        beyond what new data cost the default."""
        warmup_s, cost_s = self.kernel.warmup_s, self._cost_of_new_s
        pairs = zip(warmup_s[::2], warmup_s[1::2], strict=True)
        return [unseen_s - seen_s - cost_s for unseen_s, seen_s in pairs]

    @property
    def _cost_of_new_s(self) -> float:
        """The seconds that new data cost the default, by its shortest runs: fresh pages of memory
        may take as long as a kernel of 10 us."""
        if self.default is None or self.default.timing is None:
            return 0.0
        unseen_s, seen_s = (min(self.default.warmup_s[k::2]) for k in (0, 1))
        return max(0.0, unseen_s - seen_s)

    def _why_kept(self, overhead_s: float) -> str | None:
        """Return why most of the gain is of what the kernel keeps; None where the shortest runs,
        which the machine disturbed least, do not say so, too."""
        unseen_s, seen_s = (min(self.kernel.warmup_s[k::2]) for k in (0, 1))
        saved_s = self._saved_s or 0.0
        if unseen_s - seen_s - self._cost_of_new_s <= max(saved_s / 2, overhead_s):
            return None
        return (
            f"on {self._count} sets of data it took {format_time(unseen_s)} or more when they were "
            f"new, and {format_time(seen_s)} when it had seen them, which is "
            f"{format_time(saved_s)} less than the default took"
        )

    @property
    def _count(self) -> int:
        return len(self.kernel.warmup_s) // 2


@dataclass(frozen=True)
class ProofVerdict:
    """Why a time is not proved, None where it is; `is_clear` where no more runs are needed."""

    refusal: Refusal | None
    is_clear: bool


def _shortest_s(measured: Measurement) -> float:
    samples_s = measured.timing.samples_s if measured.timing else ()
    return min(*samples_s, *measured.warmup_s)
