"""Analysis of measurements: inputs, failures and their causes, importance of parameters."""

SLOWDOWN = "slowdown"
"""The default target of trees: the time over the least known time of the same input."""
