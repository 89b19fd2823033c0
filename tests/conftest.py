"""Tests leave no trace outside their temporary folders."""

import gc
import os
import signal
import sys
from contextlib import closing
from pathlib import Path

import pytest

from harness.core.cache import Cache, content_key
from harness.measure.devices import choose_one
from harness.measure.kernels.measurer import KernelMeasurer
from harness.results import database as engines
from harness.results import schema
from harness.space_file import load_spec
from tests.helpers.cpu_times import CpuTimes
from tests.helpers.fake_kernels import measure_kernels_here, opening_fakes, write_fake
from tests.helpers.forked_commands import forked_commands
from tests.helpers.postgres_server import ADVICE, programs, running_server
from tests.helpers.replays import SIZED, FormulaMeasurer, results_of, sized_s
from tests.helpers.small_pocl import link_pocl
from tests.helpers.stub_driver import _loaded_stub, nvidia, package, stub, stub_of_module
from tests.helpers.stub_nvml import nvml

pytest.register_assert_rewrite("harness.testing")

__all__ = ["_loaded_stub", "nvidia", "nvml", "package", "stub", "stub_of_module"]

_BUILD_OPTIONS = "PYOPENCL_BUILD_OPTIONS"  # PyOpenCL adds them to every build


def pytest_configure(config):
    """Print the tests that took the most CPU, as many as the environment asks for."""
    if "DEAREST_TESTS" in os.environ:
        config.pluginmanager.register(CpuTimes(int(os.environ["DEAREST_TESTS"])))


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect no garbage while tests are collected, never look at all these objects again, and
    look at others seldom, as commands do."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000)
        gc.enable()


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory):
    """Cache the builds of tests in their own folder, which worker processes inherit."""
    with pytest.MonkeyPatch.context() as patch:
        cache = tmp_path_factory.mktemp("cache")
        patch.setenv("HARNESS_CACHE_DIR", str(cache))
        # PoCL looks at this once a process, whatever later tests set.
        (cache / "pocl").mkdir()
        patch.setenv("POCL_CACHE_DIR", str(cache / "pocl"))
        # PoCL's optimiser takes three times as long as all else that it does for a kernel.
        patch.setenv(_BUILD_OPTIONS, "-cl-opt-disable")
        if (library := link_pocl(cache / "linked")) is not None:
            patch.setenv("OCL_ICD_VENDORS", str(library))
        # pytest-xdist gives its workers the width of the terminal; output is tested without one.
        patch.delenv("COLUMNS", raising=False)
        yield


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A cache that no other test fills."""
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))


_PEAK = {"bytes": 1e15, "flops": 1e18}
"""No time reaches it. To measure that of PoCL without its optimiser takes half a minute."""


@pytest.fixture(autouse=True, scope="session")
def _no_peak_is_measured():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.measure.choose.measure_peak", lambda *_: _PEAK)
        yield


@pytest.fixture(autouse=True, scope="session")
def _no_bytecode_is_written():
    """Read modules that a test writes anew: Python takes bytecode of the same second and size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)
        yield


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c_ends():
    """Take SIGINT as commands of a terminal do: a shell's jobs in the background ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def _no_wait_for_the_disk():
    """Commit without waiting for the disk, which takes milliseconds."""
    set_up_writer = engines._set_up_writer

    def without_waiting(connection, record):
        set_up_writer(connection, record)
        connection.execute("PRAGMA synchronous=OFF")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "_set_up_writer", without_waiting)
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def _each_statement_compiled_once():
    """Share compiled SQL between the databases of tests.

    Tests open thousands of small ones, and each engine would compile all statements again.
    """
    create_engine = engines.create_engine
    first = {}

    def sharing(url, **options):
        engine = create_engine(url, **options)
        if engine.dialect.name != "sqlite":  # a server's depends on what the server is
            return engine
        shared = first.setdefault(engine.dialect.name, engine)
        # A compiled statement belongs to a dialect: it holds the functions that convert cells.
        engine.dialect, engine._compiled_cache = shared.dialect, shared._compiled_cache
        return engine

    create_all = schema.metadata.create_all
    statements = []

    def create_again(connection):
        if connection.dialect.name != "sqlite":
            create_all(connection)
        elif statements:
            for statement in statements:
                connection.exec_driver_sql(statement)
        else:
            create_all(connection)
            made = connection.exec_driver_sql("SELECT sql FROM sqlite_master WHERE sql NOT NULL")
            statements.extend(made.scalars())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "create_engine", sharing)
        patch.setattr(schema.metadata, "create_all", create_again)
        yield


@pytest.fixture
def few_folds(monkeypatch):
    """Judge what is learnt on five folds, where there is usually one for each of few inputs."""
    for bound in ("_FEW_GROUPS", "_SOME_GROUPS"):
        monkeypatch.setattr(f"harness.models.folds.{bound}", 0)


@pytest.fixture
def undrawn(monkeypatch):
    """Draw no pictures, which takes longer than all else of a page."""
    monkeypatch.setattr("harness.report.findings.Findings.picture", lambda *_: "")


@pytest.fixture(scope="session")
def sized(tmp_path_factory):
    """Results of SIZED."""
    return results_of(tmp_path_factory.mktemp("sized"), SIZED, FormulaMeasurer(sized_s))


@pytest.fixture(scope="session")
def can_start_postgres():
    """Skip tests where no PostgreSQL server can be started."""
    missing = "psycopg is not installed: pip install 'psycopg[binary]>=3.2'"
    pytest.importorskip("psycopg", reason=missing)
    if programs() is None:
        pytest.skip(ADVICE)


@pytest.fixture(scope="session")
def postgres_server(can_start_postgres):
    """A PostgreSQL server of this process."""
    with running_server() as server:
        yield server


@pytest.fixture
def postgres(postgres_server):
    """The URL of an empty database on a PostgreSQL server."""
    url = postgres_server.make_database()
    yield url
    postgres_server.drop(url)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def database(request, tmp_path):
    """The name of a database that is not there yet, of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "results.db")
    return request.getfixturevalue("postgres")


@pytest.fixture
def opencl(kernels_here):
    """Choose PoCL, which builds and runs in this process."""
    pytest.importorskip("pyopencl")
    return choose_one("opencl")


@pytest.fixture(scope="module")
def module_opencl():
    """Choose PoCL in this process, for a module that keeps one measurer."""
    pytest.importorskip("pyopencl")
    with pytest.MonkeyPatch.context() as patch:
        measure_kernels_here(patch)
        yield choose_one("opencl")


@pytest.fixture(scope="session")
def opencl_of_commands():
    """Put PoCL's peak into the cache, where commands that are processes of their own find it."""
    pytest.importorskip("pyopencl")
    with pytest.MonkeyPatch.context() as patch:
        measure_kernels_here(patch)
        spec = load_spec(Path(__file__).parents[1] / "spaces/mvmul.yaml")
        with closing(KernelMeasurer(spec, choose_one("opencl"))) as measurer:
            key = content_key("peak", measurer.environment.fingerprint)
    Cache.of_user().recall(key, lambda: _PEAK)


@pytest.fixture(scope="session")
def forked_harness(tmp_path_factory):
    """The shell's words for `harness`, where a command need not load its libraries."""
    with forked_commands(tmp_path_factory.mktemp("commands") / "socket") as words:
        yield words


@pytest.fixture
def kernels_here(monkeypatch):
    """Build and run kernels in this process, which takes no time to start."""
    measure_kernels_here(monkeypatch)


@pytest.fixture
def fake_here(kernels_here, tmp_path):
    """Opens measurers of fake devices with these traits, which this process builds and runs for."""
    with opening_fakes(tmp_path, write_fake(tmp_path)) as opened:
        yield opened
