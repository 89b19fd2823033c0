"""Sensors of a device beside its clock: energy, temperature, memory clock and throttling.

`harness.measure.sensors.nvml` reads NVIDIA's GPUs, `rapl` processors. Sensors are read by the
process that owns the device, and never while a sample is timed.
"""

from harness.measure.sensors.choose import SensorFacts, Sensors, energy_notices, open_sensors
from harness.measure.sensors.energy import EnergyCounter, SensorUnavailable
from harness.measure.sensors.processes import other_processes, processes_notice

__all__ = [
    "EnergyCounter",
    "SensorFacts",
    "SensorUnavailable",
    "Sensors",
    "energy_notices",
    "open_sensors",
    "other_processes",
    "processes_notice",
]
