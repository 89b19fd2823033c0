"""Run CUDA over a stand-in for NVIDIA's driver (tests/helpers/stub_cuda), where there is no GPU.

The stand-in is compiled once a session and loaded before PyCUDA or cuda-bindings, which then takes
it for libcuda.so.1. Processes that a test starts find it through LD_LIBRARY_PATH.
"""

import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from harness.core.errors import BackendUnavailable
from harness.measure.builds.elf import sections
from harness.measure.cuda.gpus import BINDINGS, PACKAGE, PYCUDA
from harness.measure.cuda.nvcc import find_nvcc
from harness.measure.devices import choose_one

SOURCES = Path(__file__).parent / "stub_cuda"
LIBRARY = "libcuda.so.1"


MODULES = {PYCUDA: "pycuda", BINDINGS: "cuda"}


def is_there(package):
    """Whether a package that calls the driver is installed."""
    return importlib.util.find_spec(MODULES[package]) is not None


class StubBuildFailed(Exception):
    """The stand-in cannot be compiled here; says what to install."""


def build_stub(folder, without=()):
    """Compile the stand-in into a folder, without some symbols, as an older driver lacks them."""
    if not shutil.which("cc"):
        raise StubBuildFailed("there is no C compiler `cc`")
    others = folder / "not_modelled.c"
    calls = sorted(wanted_calls() - {*without})
    others.write_text("int not_modelled(const char *);\n" + "".join(map(_weak, calls)))
    renamed = [f"-D{name}=cuda_stub_without_{name}" for name in without]
    includes = [f"-I{folder}" for folder in (*toolkit_includes(), SOURCES)]
    flags = ["-shared", "-fPIC", f"-Wl,-soname,{LIBRARY}", *includes, *renamed]
    files = [*map(str, sorted(SOURCES.glob("*.c"))), str(others)]
    library = folder / LIBRARY
    subprocess.run(["cc", *flags, *files, "-lm", "-o", str(library)], check=True)
    (folder / "libcuda.so").symlink_to(LIBRARY)  # for -lcuda
    return library


def toolkit_includes():
    """Return the folders in which nvcc finds cuda.h; raises StubBuildFailed."""
    try:
        command = [str(find_nvcc()), "--dryrun", "-E", "-x", "cu", os.devnull]
    except BackendUnavailable as error:
        raise StubBuildFailed(str(error)) from error
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    folders = list(dict.fromkeys(re.findall(r'"-I([^"]+)"', done.stderr)))
    if not any(Path(folder, "cuda.h").exists() for folder in folders):
        raise StubBuildFailed("nvcc has no cuda.h")
    return folders


def _weak(call):
    """Define a call of the driver that the stand-in has only if it models it."""
    return f'__attribute__((weak)) int {call}() {{ return not_modelled("{call}"); }}\n'


def wanted_calls():
    """Return the calls of the driver that this machine's PyCUDA needs to be imported."""
    found = importlib.util.find_spec("pycuda")
    folders = found.submodule_search_locations if found is not None else None
    binaries = [file for folder in folders or () for file in Path(folder).glob("_driver*.so")]
    names = b"".join(
        each.content
        for binary in binaries
        for each in sections(binary.read_bytes())
        if each.name == b".dynstr"
    )
    return {name.decode() for name in re.findall(rb"\0(cu[A-Z]\w+)(?=\0)", names)}


@cache
def has_real_driver():
    """Say whether NVIDIA's own driver is installed; ask before the stand-in is loaded."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return False
    return True


class StubDriver:
    """The stand-in in this process, and in those that tests start."""

    def __init__(self, folder):
        self.folder = folder
        self.trace = folder / "trace.txt"
        self._library = ctypes.CDLL(str(folder / LIBRARY), ctypes.RTLD_GLOBAL)
        self._library.cuda_stub_allocated_bytes.restype = ctypes.c_size_t

    def reset(self):
        """Make a spoiled device work again, and forget the calls."""
        self._library.cuda_stub_reset()
        self.trace.write_text("")

    @property
    def allocated_bytes(self):
        """The device memory in use."""
        return int(self._library.cuda_stub_allocated_bytes())

    def calls(self):
        """Return the calls, arguments of launches included, since this or `reset` was called."""
        found = self.trace.read_text().splitlines()
        self.trace.write_text("")
        return found


@pytest.fixture(scope="session")
def _loaded_stub(tmp_path_factory):
    if has_real_driver():
        pytest.skip("NVIDIA's driver is here: the stand-in for it cannot be loaded as well")
    if not any(map(is_there, MODULES)):
        pytest.skip("neither cuda-bindings nor PyCUDA is installed, which call the stand-in")
    folder = tmp_path_factory.mktemp("stub_cuda")
    try:
        build_stub(folder)
    except StubBuildFailed as error:
        pytest.skip(f"needs a stand-in for NVIDIA's driver: {error}")
    return StubDriver(folder)


@pytest.fixture(scope="module")
def stub_of_module(_loaded_stub):
    """The stand-in, which the processes of this module find as well."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("LD_LIBRARY_PATH", "LIBRARY_PATH"):
            patch.setenv(name, str(_loaded_stub.folder), prepend=os.pathsep)
        patch.setenv("CUDA_STUB_TRACE", str(_loaded_stub.trace))
        yield _loaded_stub


@pytest.fixture
def stub(stub_of_module):
    """The stand-in as a new device is: it works, and nothing was called."""
    stub_of_module.reset()
    yield stub_of_module
    stub_of_module.reset()


needs_pycuda = pytest.mark.skipif(not is_there(PYCUDA), reason="PyCUDA is not installed")


@pytest.fixture(params=[BINDINGS, pytest.param(PYCUDA, marks=pytest.mark.pycuda)])
def package(request, monkeypatch):
    """The Python package that calls the driver, in this process and in those that it starts."""
    chosen = str(request.param)
    if not is_there(chosen):
        pytest.skip(f"{chosen} is not installed")
    monkeypatch.setenv(PACKAGE, chosen)
    return chosen


@pytest.fixture(scope="module")
def nvidia(request):
    """A device for CUDA: a GPU where there is one, else the stand-in."""
    if has_real_driver():
        try:
            choose_one("cuda")
        except BackendUnavailable as error:
            pytest.skip(str(error))
    else:
        request.getfixturevalue("stub_of_module")


if __name__ == "__main__":  # benchmarks.gpu_hour rehearses over this library
    build_stub(Path(sys.argv[1]))
