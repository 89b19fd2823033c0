"""Processes that may hang or crash, the folder of a run, and the lock of a device."""
