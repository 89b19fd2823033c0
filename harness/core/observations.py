"""The names of what harness observes of its own timing."""

CLOCK_ERROR = "clock_error_s"
"""The observation of a measurement whose times the clock may put off by so much."""

RUNS_PER_SAMPLE = "runs_per_sample"
"""The observation of a measurement whose samples are means of several runs."""

HOW_TIMED = (CLOCK_ERROR, RUNS_PER_SAMPLE)
"""Observations of the measuring, which say nothing of the configuration."""
