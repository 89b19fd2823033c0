"""Builds: each once, remembered on disk, beside the measurements where that is harmless."""

import os
from contextlib import closing, nullcontext
from dataclasses import replace

import pytest

from harness.core.errors import BackendUnavailable, BuildFailed, UsageError
from harness.core.files import cache_folder
from harness.core.machine import spare_cores
from harness.core.program import Binary, Program
from harness.core.records import Build, Outcome
from harness.measure.builds.cache import BuildCache, digests
from harness.measure.builds.queue import BuildQueue
from harness.measure.kernels.measurer import KernelMeasurer
from harness.measure.process.child import ChildLost
from harness.space import ConstrainedSpace
from harness.space.constrained import make_program
from harness.space_file import load_spec
from tests.helpers.fake_kernels import FIVE, FOUR, write_fake
from tests.helpers.fakes import FAKE_SPACE, FakeBackend, HereChild, read_journal
from tests.helpers.planted import assert_ok


def test_second_run_compiles_nothing_until_something_changes(fake_here, tmp_path):
    write_fake(tmp_path, 'V\n#include "twice.h"\nkernel twice')

    def change(name, text):
        """Write a file, and return the build of a measurer that opens then."""
        (tmp_path / name).write_text(text)
        measurer, space = fake_here(load_spec(tmp_path / "fake.yaml"))
        return measurer.measure(space, FOUR, space.default, None).build

    first = change("twice.h", "// a header")
    second = change("twice.h", "// a header")
    assert (first.cached, second.cached) == (False, True)
    assert second.compile_s == first.compile_s
    assert not change("twice.h", "// another").cached
    assert change("twice.h", "// a header").cached
    flags = "flags: {opencl: {cl-mad-enable: boolean}}\n"
    assert change("fake.yaml", FAKE_SPACE + flags).cached, "an absent flag is no flag"
    assert not change("twice.cl", "V\nkernel twice").cached


def overlaps(journal):
    """How many launches began during a compilation, or the other way round."""
    during, count = set(), 0
    times = []
    for what, begin, end in read_journal(journal):
        times += [(begin, what, True), (end, what, False)]
    for _, what, begins in sorted(times):
        if begins:
            during.add(what)
            count += len(during) == 2
        else:
            during.discard(what)
    assert {what for _, what, _ in times} >= {"compile", "launch"}
    return count


@pytest.mark.parametrize("shares_cpu, spare", [(False, 1), (True, 1), (False, 0)])
def test_builds_overlap_measurements_but_where_they_share_its_core(
    fake_here, tmp_path, monkeypatch, shares_cpu, spare
):
    # Workers do not wait for each other, as in processes of their own.
    monkeypatch.setattr(HereChild, "_working", property(lambda child: nullcontext()))
    monkeypatch.setattr("harness.measure.kernels.measurer.spare_cores", lambda *, devices: spare)
    measurer, space = fake_here(shares_cpu=shares_cpu, compile_s=0.15, launch_s=0.04)
    configs = list(space)[:4]
    measurer.expect(space, configs[:3])
    for config in configs:
        assert_ok(measurer.measure(space, FOUR, config, None))
        measurer.expect(space, configs)
    assert (overlaps(tmp_path / "journal") == 0) == (shares_cpu or not spare)


@pytest.mark.parametrize("limit, spare", [(None, 15), ("max 9", 15), ("40 10", 3), ("15 10", 0)])
def test_builds_leave_a_core_to_the_device_of_those_that_a_container_gets(
    tmp_path, monkeypatch, limit, spare
):
    monkeypatch.setattr("harness.core.machine.usable_cores", lambda: 16)
    file = tmp_path / "cpu.max"
    if limit is not None:
        file.write_text(limit)
    assert spare_cores(file) == spare


def test_failed_build_is_not_repeated_in_a_run(fake_here, tmp_path):
    measurer, space = fake_here(write_fake(tmp_path, "V\nkernel twice\n#error it is broken"))
    for given in (FOUR, FIVE):
        measurer.expect(space, [space.default])
        alone = measurer.measure(space, given, space.default, None)
        (interleaved,) = measurer.measure_interleaved(space, given, [space.default], 2)
        assert alone.outcome is interleaved.outcome is Outcome.BUILD_FAILED
        assert alone.message == interleaved.message == "kernel:6: #error it is broken"
    assert [what for what, _, _ in read_journal(tmp_path / "journal")] == ["compile"]


def test_right_kernel_is_not_blamed_for_a_process_that_others_spoilt(fake_here):
    # Four launches a configuration: each second one dies in the process of the one before.
    measurer, space = fake_here(lives=6)
    outcomes = [measurer.measure(space, FOUR, config, None).outcome for config in list(space)[:3]]
    assert outcomes == [Outcome.OK] * 3


class _Aborting(FakeBackend):
    def open_device(self):
        raise ChildLost("died of SIGABRT")

    open_compiler = open_device


ABORTING = _Aborting("opencl", "opencl", "a fake")


@pytest.mark.usefixtures("kernels_here")
def test_device_that_cannot_be_opened_is_unavailable(tmp_path):
    with pytest.raises(BackendUnavailable, match=r"SIGABRT.*clinfo"):
        KernelMeasurer(write_fake(tmp_path), ABORTING)


@pytest.mark.usefixtures("kernels_here")
def test_compiler_that_dies_is_a_failed_build(tmp_path):
    spec = write_fake(tmp_path)
    space = ConstrainedSpace.of(spec, FOUR, None, "opencl")
    program = make_program(spec, space, space.default, "opencl")
    with closing(BuildQueue(ABORTING, "it dies")) as builds:
        for _ in range(2):
            with pytest.raises(BuildFailed, match="SIGABRT"):
                builds.finish(program)


# ------------------------------------------------------------------------------------------ on disk

PROGRAM = Program("int a;", ("-O3",), ("/include",), ("int b;",))
KEY = PROGRAM.key("compiler 1")
BUILD = Build(KEY, "-O3", "compiler 1", 0.5, "ab" * 32, registers=32, shared_bytes=0, log="ä")
BINARY = Binary(BUILD, b"\n\x00binary\nwith lines\n" + bytes(range(256)))


@pytest.fixture
def cache(tmp_path):
    return BuildCache(tmp_path)


def entry(folder):
    (path,) = folder.rglob("*.bin")
    return path


def test_entry_counts_while_what_it_read_is_the_same(cache, tmp_path):
    header = tmp_path / "a header.h"
    header.write_text("int b;")
    cache.put(Binary(BUILD, b"x", digests([str(header)])))
    assert cache.get(KEY).read == digests([str(header)])
    header.write_text("int c;")
    assert cache.get(KEY) is None
    header.unlink()
    assert cache.get(KEY) is None


def test_entry_without_a_build_is_no_entry_and_is_replaced(cache, tmp_path):
    cache.put(BINARY)
    path = entry(tmp_path)
    for content in (b"", b"{\n", b"[]\n", b"3\n", b"\xff\n", b'{"build": {}, "read": []}\n'):
        path.write_bytes(content)
        assert cache.get(KEY) is None
    cache.put(BINARY)
    assert cache.get(KEY).data == BINARY.data


def test_key_changes_with_what_decides_the_build():
    for change in [{"text": "c"}, {"options": ("-O2",)}, {"options": ()}, {"includes": ("d",)}]:
        changed = replace(PROGRAM, **change)
        assert changed.key("compiler 1") != KEY
    assert PROGRAM.key("compiler 2") != KEY


def test_folder_or_entry_that_cannot_be_written_says_what_to_set(cache, tmp_path, monkeypatch):
    (tmp_path / KEY[:2]).write_text("a file where a folder belongs")
    with pytest.raises(UsageError, match="cannot be written"):
        cache.put(BINARY)
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / KEY[:2]))
    with pytest.raises(UsageError, match=r"/builds cannot be written: .*set HARNESS_CACHE_DIR"):
        cache_folder("builds")


def test_the_binaries_unused_longest_are_removed_first(cache, tmp_path):
    keys = [f"{number}{KEY[1:]}" for number in range(4)]
    for age, key in enumerate(keys):
        build = replace(BUILD, key=key)
        cache.put(Binary(build, bytes(1000)))
        file = tmp_path / key[:2] / f"{key}.bin"
        os.utime(file, (1000 + age, 1000 + age))
    size_bytes = file.stat().st_size
    cache.get(keys[0])  # used now
    cache.trim(2 * size_bytes)
    assert [cache.get(key) is not None for key in keys] == [True, False, False, True]
