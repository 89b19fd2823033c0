"""Builds on disk: found again whole, or not at all."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.core.errors import UsageError
from harness.core.files import cache_folder
from harness.core.program import Binary, Program
from harness.core.records import Build
from harness.measure.build_cache import BuildCache, digests

PROGRAM = Program("int a;", ("-O3",), ("/include",), ("int b;",))
KEY = PROGRAM.key("compiler 1")
BUILD = Build(
    KEY, "-O3", "compiler 1", 0.5, "ab" * 32, registers=32, shared_bytes=0, log="w\u00e4rning\n"
)
BINARY = Binary(BUILD, b"\n\x00binary\nwith lines\n" + bytes(range(256)))


@pytest.fixture
def cache(tmp_path: Path) -> BuildCache:
    return BuildCache(tmp_path)


def entry(folder: Path) -> Path:
    (path,) = folder.rglob("*.bin")
    return path


def test_what_was_put_is_found_and_marked_as_cached(cache: BuildCache) -> None:
    assert cache.get(KEY) is None
    cache.put(BINARY)
    found = cache.get(KEY)
    assert found is not None
    assert found.data == BINARY.data
    assert found.build == dataclasses.replace(BUILD, cached=True)


def test_entry_counts_while_the_files_that_the_compiler_read_are_the_same(
    cache: BuildCache, tmp_path: Path
) -> None:
    header = tmp_path / "a header.h"
    header.write_text("int b;")
    cache.put(Binary(BUILD, b"x", digests([str(header)])))
    found = cache.get(KEY)
    assert found is not None
    assert found.read == digests([str(header)])
    header.write_text("int c;")
    assert cache.get(KEY) is None
    header.unlink()
    assert cache.get(KEY) is None


def test_binary_may_be_empty(cache: BuildCache) -> None:
    cache.put(Binary(BUILD, b""))
    found = cache.get(KEY)
    assert found is not None
    assert found.data == b""


def test_no_other_file_is_left_beside_an_entry(cache: BuildCache, tmp_path: Path) -> None:
    cache.put(BINARY)
    cache.put(BINARY)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [entry(tmp_path)]


def test_entry_cut_short_anywhere_is_no_entry(cache: BuildCache, tmp_path: Path) -> None:
    cache.put(BINARY)
    whole = entry(tmp_path).read_bytes()
    for size in range(len(whole)):
        entry(tmp_path).write_bytes(whole[:size])
        assert cache.get(KEY) is None


def test_entry_with_any_byte_changed_is_no_entry(cache: BuildCache, tmp_path: Path) -> None:
    cache.put(BINARY)
    whole = entry(tmp_path).read_bytes()
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 0x20
        entry(tmp_path).write_bytes(changed)
        assert cache.get(KEY) is None


def test_broken_entry_is_replaced(cache: BuildCache, tmp_path: Path) -> None:
    cache.put(BINARY)
    entry(tmp_path).write_bytes(b"broken")
    cache.put(BINARY)
    assert cache.get(KEY) is not None


def test_entry_under_another_key_is_no_entry(cache: BuildCache, tmp_path: Path) -> None:
    cache.put(BINARY)
    other = tmp_path / KEY[:2] / f"{KEY[:-1]}x.bin"
    os.rename(entry(tmp_path), other)
    assert cache.get(f"{KEY[:-1]}x") is None


@pytest.mark.parametrize("record", [b"{", b"[]", b"3", b"\xff"])
def test_entry_with_a_right_digest_and_no_build_is_no_entry(
    cache: BuildCache, tmp_path: Path, record: bytes
) -> None:
    cache.put(BINARY)
    (entry,) = tmp_path.rglob("*.bin")
    rest = record + b"\n"
    entry.write_bytes(
        b"harness-build-6 " + hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest
    )
    assert cache.get(KEY) is None


def test_folder_in_an_entrys_place_is_no_entry(cache: BuildCache, tmp_path: Path) -> None:
    (tmp_path / KEY[:2] / f"{KEY}.bin").mkdir(parents=True)
    assert cache.get(KEY) is None


@pytest.mark.parametrize(
    "change",
    [{"text": "int c;"}, {"options": ("-O2",)}, {"options": ()}, {"includes": ("int d;",)}],
)
def test_key_changes_with_what_decides_the_build(change: dict[str, object]) -> None:
    changed = dataclasses.replace(PROGRAM, **change)  # type: ignore[arg-type]
    assert changed.key("compiler 1") != KEY


def test_key_changes_with_the_compiler() -> None:
    assert PROGRAM.key("compiler 2") != KEY


WRITER = """
import sys
sys.path.insert(0, sys.argv[3])
from pathlib import Path
from harness.measure.backends.base import Binary
from harness.measure.build_cache import BuildCache
from harness.core.records import Build
cache, data = BuildCache(Path(sys.argv[1])), sys.argv[2].encode() * 100_000
for _ in range(200):
    cache.put(Binary(Build("k" * 64, "", "c", 1.0), data))
    found = cache.get("k" * 64)
    assert found is not None and len(set(found.data)) == 1, "half-written"
"""


def test_two_processes_that_write_the_same_key_do_no_harm(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[2])
    commands = [[sys.executable, "-c", WRITER, str(tmp_path), mark, root] for mark in "ab"]
    writers = [subprocess.Popen(command, stderr=subprocess.PIPE) for command in commands]
    message = [writer.communicate()[1].decode() for writer in writers]
    assert message == ["", ""]
    assert len(list(tmp_path.rglob("*"))) == 2, "the folder, and in it one entry"


def test_folder_that_cannot_be_made_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(UsageError, match=r"file/builds cannot be written: .*set HARNESS_CACHE_DIR"):
        cache_folder("builds")


def test_disk_that_refuses_an_entry_is_reported(cache: BuildCache, tmp_path: Path) -> None:
    (tmp_path / KEY[:2]).write_text("a file where a folder belongs")
    with pytest.raises(UsageError, match="cannot be written"):
        cache.put(BINARY)


def test_the_binaries_unused_longest_are_removed_first(cache: BuildCache, tmp_path: Path) -> None:
    keys = [f"{number}{KEY[1:]}" for number in range(4)]
    for age, key in enumerate(keys):
        build = dataclasses.replace(BUILD, key=key)
        cache.put(Binary(build, bytes(1000)))
        file = tmp_path / key[:2] / f"{key}.bin"
        os.utime(file, (1000 + age, 1000 + age))
    size_bytes = file.stat().st_size
    cache.get(keys[0])  # used now
    cache.trim(2 * size_bytes)
    assert [cache.get(key) is not None for key in keys] == [True, False, False, True]


def test_a_trimmed_cache_keeps_what_fits(cache: BuildCache, tmp_path: Path) -> None:
    cache.put(BINARY)
    (tmp_path / "link").symlink_to(tmp_path)
    cache.trim()
    cache.trim(entry(tmp_path).stat().st_size)
    assert cache.get(KEY) is not None
    cache.trim(0)
    assert cache.get(KEY) is None
    assert (tmp_path / "link").is_symlink()


def test_cache_lies_below_the_requested_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "asked"))
    BuildCache().put(BINARY)
    assert entry(tmp_path / "asked" / "builds").is_file()
