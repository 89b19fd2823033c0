"""Measure one configuration on one input: build, run, verify, time."""
