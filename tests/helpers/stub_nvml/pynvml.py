"""A stand-in for nvidia-ml-py, scripted by the JSON object in NVML_STUB; read at every call.

    {"call": [value, ...]}            the values of successive calls; the last one stays
    {"call": "NotSupported"}          the call raises NVMLError_NotSupported

`gpus` are bus ids, `instances` UUIDs that are known; `names` has the names of processes by their
numbers, and `nvmlDeviceGetComputeRunningProcesses` lists pairs of a number and bytes.
`power_w` and `update_s` script the energy: the counter moves every so many seconds. What is not
scripted raises NVMLError_FunctionNotFound. `asked` counts the calls.
"""
# ruff: noqa: N801, N802 (the names are those of NVML)

import json
import os
import time
import types
from collections import Counter

NVML_TEMPERATURE_GPU = 0
NVML_CLOCK_MEM = 2

asked = Counter()


class NVMLError(Exception):
    pass


class NVMLError_NotSupported(NVMLError):
    pass


class NVMLError_NoPermission(NVMLError):
    pass


class NVMLError_LibraryNotFound(NVMLError):
    pass


class NVMLError_NotFound(NVMLError):
    pass


class NVMLError_FunctionNotFound(NVMLError):
    pass


def _script():
    return json.loads(os.environ["NVML_STUB"])


def _answer(call, otherwise="FunctionNotFound"):
    asked[call] += 1
    values = _script().get(call, otherwise)
    if isinstance(values, str):
        raise globals()[f"NVMLError_{values}"](values)
    return values[min(asked[call], len(values)) - 1]


def nvmlInit():
    asked.clear()
    _answer("nvmlInit", [None])


def nvmlDeviceGetHandleByPciBusId(bus_id):
    known = _script().get("gpus", ["0000:1B:00.0"])
    if bus_id not in known:
        raise NVMLError_NotFound(f"no {bus_id}")
    return bus_id


def nvmlDeviceGetHandleByUUID(uuid):
    known = _script().get("instances", [])
    if uuid not in known:
        raise NVMLError_NotFound(f"no {uuid}")
    return uuid


def nvmlDeviceGetComputeRunningProcesses(handle):
    return [
        types.SimpleNamespace(pid=pid, usedGpuMemory=size)
        for pid, size in _answer("nvmlDeviceGetComputeRunningProcesses")
    ]


def nvmlSystemGetProcessName(pid):
    asked["nvmlSystemGetProcessName"] += 1
    names = _script().get("names", {})
    if str(pid) not in names:
        raise NVMLError_NotFound(f"no process {pid}")
    return names[str(pid)]


def nvmlDeviceGetTemperature(handle, sensor):
    assert sensor == NVML_TEMPERATURE_GPU
    return _answer("nvmlDeviceGetTemperature")


def nvmlDeviceGetClockInfo(handle, clock):
    assert clock == NVML_CLOCK_MEM
    return _answer("nvmlDeviceGetClockInfo")


def nvmlDeviceGetCurrentClocksThrottleReasons(handle):
    return _answer("nvmlDeviceGetCurrentClocksThrottleReasons")


def nvmlDeviceGetMigMode(handle):
    return _answer("nvmlDeviceGetMigMode")


def nvmlDeviceGetTotalEnergyConsumption(handle):
    script = _script()
    if "power_w" not in script:
        return _answer("nvmlDeviceGetTotalEnergyConsumption")
    updates = time.perf_counter() // script["update_s"]
    return int(updates * script["update_s"] * script["power_w"] * 1000)
