"""Modules that launch a dispatched kernel: copied unchanged next to the code that chooses.

They import nothing of harness, which may be absent where they run.
"""
