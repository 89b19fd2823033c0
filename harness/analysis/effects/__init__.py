"""Effects of parameters, alone and in pairs, on failures and on times.

Pure functions on plain tables, for scripts, harness.analyse and harness.report.
"""

from harness.analysis.effects.causes import causes
from harness.analysis.effects.times import Effect, Effects, effects_on_time
from harness.analysis.effects.trials import Trials, trials

__all__ = ["Effect", "Effects", "Trials", "causes", "effects_on_time", "trials"]
