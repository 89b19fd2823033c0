"""Sensors of a device beside its clock: energy, temperature, memory clock and throttling.

`nvml` reads NVIDIA's GPUs, `energy` processors. Sensors are read by the
process that owns the device, and never while a sample is timed.
"""
