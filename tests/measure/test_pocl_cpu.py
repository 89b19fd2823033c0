"""The processor's name that PoCL's compiler refuses is replaced in PoCL's record of the device."""

from __future__ import annotations

import ctypes
import platform
from pathlib import Path

import pytest

from harness.measure.backends.pocl_cpu import name_processor

VERSION = "OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-"
needs_linux = pytest.mark.skipif(
    platform.machine() != "x86_64" or not Path("/proc/self/maps").exists(),
    reason="the name is replaced on Linux on x86-64",
)


class Record(ctypes.Structure):
    """A device's record: what stands around the pointer to the name does not matter."""

    _fields_ = (
        ("before", ctypes.c_uint64 * 80),
        ("name", ctypes.c_char_p),
        ("after", ctypes.c_uint64 * 80),
    )


@needs_linux
def test_the_refused_name_becomes_a_level_of_x86_64() -> None:
    record = Record(name=b"generic")
    name_processor(f"{VERSION}generic", ctypes.addressof(record))
    assert record.name.startswith(b"x86-64-v")


@needs_linux
def test_a_name_that_pocl_knows_is_kept() -> None:
    record = Record(name=b"generic")
    name_processor(f"{VERSION}znver3", ctypes.addressof(record))
    assert record.name == b"generic"


@needs_linux
def test_a_record_without_the_name_is_left_alone() -> None:
    record = Record(name=b"znver3")
    name_processor(f"{VERSION}generic", ctypes.addressof(record))
    assert record.name == b"znver3"
