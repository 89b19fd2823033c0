"""Measure one configuration on one input: build, run, verify, time.

In: a space, a device or a program's command, and configurations. Out: a `Measurement` each, where
a failure is an outcome. Begin at `measurer.Measurer`, then `choose`, `kernels` and `programs`.
"""
