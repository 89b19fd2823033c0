"""A scripted stand-in for nvidia-ml-py, where there is no GPU that it could ask about."""

import importlib
import json
import sys
from pathlib import Path

import pytest

BUS = "0000:1B:00.0"
WELL = {
    "nvmlDeviceGetTemperature": [51, 64],
    "nvmlDeviceGetClockInfo": [2619],
    "nvmlDeviceGetCurrentClocksThrottleReasons": [0],
    "power_w": 300,
    "update_s": 0.002,
}


@pytest.fixture
def nvml(monkeypatch):
    """Scripts the stand-in: WELL, with these changes; what is None is left out."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)

    def scripted(**changes):
        left = {name: value for name, value in {**WELL, **changes}.items() if value is not None}
        monkeypatch.setenv("NVML_STUB", json.dumps(left))
        return importlib.import_module("pynvml")

    yield scripted
    sys.modules.pop("pynvml", None)
