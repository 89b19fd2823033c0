"""The names of what harness observes of its own timing."""

CLOCK_ERROR = "clock_error_s"
"""The observation of a measurement whose times the clock may put off by so much."""

RUNS_PER_SAMPLE = "runs_per_sample"
"""The observation of a measurement whose samples are means of several runs."""

SM_CLOCK_MHZ = "sm_clock_mhz"
"""The observation of the GPU's clock in the runs of a measurement: their median."""

THROTTLED_SAMPLES = "throttled_samples"
"""The observation of how many runs were thrown away for a low clock; absent where none were."""

HOST_RETRIES = "host_retries"
"""The observation of how many runs were taken again since the host was too slow; absent where none
were."""

UNTIMED = "untimed_s"
"""The observation of a program that reports its own time: the seconds of its process outside of
it."""

ENERGY_SPREAD = "energy_spread_j"
"""The observation of half the 95 % confidence interval of an energy."""

UNCLAIMED = "unclaimed"
"""The observation of a measurement whose gain its first runs on new data do not show: 1."""

COUNTS = (THROTTLED_SAMPLES, HOST_RETRIES)
"""Observations that are counts of runs."""

HOW_TIMED = (CLOCK_ERROR, RUNS_PER_SAMPLE, *COUNTS, UNTIMED, ENERGY_SPREAD, UNCLAIMED)
"""Observations of the measuring, which say nothing of the configuration."""
