"""Analysis of measurements: inputs, failures, effects of parameters, importance."""

SLOWDOWN = "slowdown"
"""The default target of trees: the time over the least known time of the same input."""
