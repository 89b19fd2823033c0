"""A measurer of kernels has the device's peak from when it is opened."""

from contextlib import closing

import pytest

from harness.core.errors import LaunchFailed
from harness.measure import choose
from harness.measure.choose import open_kernels
from harness.measure.process.device_lock import locked
from tests.helpers.results_examples import SPEC


def test_the_peak_is_measured_once_in_an_environment(opencl, own_cache, monkeypatch):
    peaks = iter([{"bytes": 2e9}])
    monkeypatch.setattr(choose, "measure_peak", lambda *_: next(peaks))
    for _ in range(2):
        with closing(open_kernels(SPEC, opencl)) as measurer:
            assert measurer.peak == {"bytes": 2e9}


def test_a_peak_that_fails_is_a_notice(opencl, own_cache, monkeypatch):
    def fail(*_):
        raise LaunchFailed("no group of 256 fits on it")

    monkeypatch.setattr(choose, "measure_peak", fail)
    with closing(open_kernels(SPEC, opencl)) as measurer:
        assert measurer.peak == {}
        assert "The device's peak is not known: no group of 256 fits on it." in measurer.notices


def test_the_device_is_free_after_ctrl_c(opencl, own_cache, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(choose, "measure_peak", interrupt)
    with pytest.raises(KeyboardInterrupt):
        open_kernels(SPEC, opencl)
    with locked(opencl.device.identity, str(opencl.device)):
        pass
