"""Sensors of a device beside its clock, which are never read while a sample is timed."""
