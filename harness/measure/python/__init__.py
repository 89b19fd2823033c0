"""Kernels that are Python callables: arrays of a framework, and what compiles for it."""
