"""Measure kernels: one process owns the device and runs them, others compile them."""
