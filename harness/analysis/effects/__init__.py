"""Effects of parameters, alone and in pairs, on failures and on times.

Pure functions on plain tables, for scripts, harness.analyse and harness.report.
"""

from harness.analysis.effects import text as effects_text
from harness.analysis.effects.causes import Cause, causes
from harness.analysis.effects.times import Effect, Effects, effects_on_time
from harness.analysis.effects.trials import Trials, trials

__all__ = [
    "Cause",
    "Effect",
    "Effects",
    "Trials",
    "causes",
    "effects_on_time",
    "effects_text",
    "trials",
]
