"""What single parameters and pairs of them do: to failures, to times, and to a winner.

Pure functions on plain tables, for scripts, harness.analyse and harness.report.
"""

from harness.effects import telling
from harness.effects.failures import Cause, causes
from harness.effects.minimal import Reduction, Step, Verdict, reduce
from harness.effects.times import Effect, Effects, effects_on_time
from harness.effects.trials import Trials, trials

__all__ = [
    "Cause",
    "Effect",
    "Effects",
    "Reduction",
    "Step",
    "Trials",
    "Verdict",
    "causes",
    "effects_on_time",
    "reduce",
    "telling",
    "trials",
]
