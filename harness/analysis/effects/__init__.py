"""Failures, and the values of parameters that explain them.

Pure functions on plain tables, for scripts, harness.analyse and harness.report.
"""

from harness.analysis.effects.causes import causes
from harness.analysis.effects.trials import Trials, trials

__all__ = ["Trials", "causes", "trials"]
