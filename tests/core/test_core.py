"""Files are written whole or not at all; hints name the nearest known name."""

import errno
import os
from pathlib import Path

import pytest

from harness.core.config_diff import default_text, difference, differing
from harness.core.errors import UsageError
from harness.core.files import nearest_file, write_file, write_folder
from harness.core.records import Config
from harness.core.text import counted, nearest, printable, suggestion


def test_file_is_replaced_and_keeps_its_mode(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    path.chmod(0o640)
    write_file(path, "new\n")
    assert path.read_bytes() == b"new\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["a.txt"]


def test_new_file_gets_the_usual_mode(tmp_path):
    usual, new = tmp_path / "usual", tmp_path / "sub" / "b.bin"
    usual.touch()
    write_file(new, b"\x00", parents=True)
    assert new.stat().st_mode == usual.stat().st_mode


def full(_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match=r"a\.txt .*No space left .*make room"):
        write_file(path, "new", advice="make room")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_pipe_is_written_to_and_not_replaced():
    reader, writer = os.pipe()
    write_file(Path(f"/dev/fd/{writer}"), "text")
    assert os.read(reader, 9) == b"text"
    os.close(reader)
    os.close(writer)


def test_link_stays_a_link_and_a_device_is_written_to(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_file(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "text"
    write_file(Path(os.devnull), "text")
    assert not Path(os.devnull).is_file()


def test_missing_folder_is_an_error_unless_asked_for(tmp_path):
    with pytest.raises(UsageError, match="/no does not exist"):
        write_file(tmp_path / "no" / "a.txt", "text")


def test_new_file_or_folder_never_replaces_another(tmp_path):
    path, folder, dangling = (tmp_path / name for name in ("a.txt", "out", "link"))
    write_file(path, "first", replace=False)
    write_folder(folder, {"a": b"1"}, replace=False)
    (tmp_path / "empty").mkdir()
    dangling.symlink_to(tmp_path / "nowhere")
    for taken in (path, folder, tmp_path / "empty", dangling):
        with pytest.raises(UsageError, match=taken.name):
            write_file(taken, "second", replace=False)
        with pytest.raises(UsageError, match=taken.name):
            write_folder(taken, {"b": b"2"}, replace=False)
    assert path.read_text() == "first"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a", "a.txt", "empty", "link", "out"]


def test_a_folder_is_replaced_or_stays(tmp_path, monkeypatch):
    folder = tmp_path / "out"
    write_folder(folder, {"a": b"1", "sub/b": b"2"})
    write_folder(folder, {"c": b"3"})
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match=f"{folder} .*No space left"):
        write_folder(folder, {"sub/a": b"new"})
    assert [p.name for p in folder.rglob("*")] == ["c"]
    assert os.listdir(tmp_path) == ["out"]


def test_suggestion_names_the_nearest_or_all():
    assert "`BLOCK`" in suggestion("blok", ["BLOCK", "UNROLL"])
    assert "a, b" in suggestion("x", ["b", "a"])
    assert suggestion("x", ["a"]).endswith("is a")
    assert suggestion("?", [f"n{i:02}" for i in range(13)]).endswith("n10, n11, ...")
    assert suggestion("x", ["abc"], "see --help") == "see --help"
    assert nearest("x", []) is None


def test_nearest_file_is_in_the_same_folder(tmp_path):
    (tmp_path / "scale.cl").touch()
    assert nearest_file(tmp_path / "scael.cl") == tmp_path / "scale.cl"
    assert nearest_file(tmp_path / "no" / "scael.cl") is None


def test_counts_have_their_noun():
    assert [counted(1, "input"), counted(1200, "input")] == ["1 input", "1,200 inputs"]


def test_text_from_a_file_cannot_control_a_terminal():
    assert printable("a\x1b[2Jb") == "a\\x1b[2Jb"
    assert len(printable("x" * 500)) == 203


# ---------- what of a configuration differs from the default


DEFAULT = Config({"TILE": 0, "level": None, "ivopts": None, "fast_math": False})


def test_only_what_differs_is_listed():
    cases = [
        ({}, "default"),
        ({"level": 3}, "level=3"),
        ({"level": "3", "ivopts": "no-ivopts"}, "level=3, no-ivopts"),
        ({"ivopts": "ivopts", "fast_math": True}, "ivopts, fast_math=true"),
        ({"ivopts": "ivopts-2"}, "ivopts=ivopts-2"),
        ({"OWN": None}, "OWN=absent"),  # one without a default
    ]
    for settings, printed in cases:
        assert difference(Config({**DEFAULT, **settings}), DEFAULT) == printed


def test_values_of_another_type_differ():
    assert not differing(Config({"TILE": 0}), DEFAULT)
    for value in (False, 0.0, -0.0, "0"):
        assert dict(differing(Config({"TILE": value}), DEFAULT)) == {"TILE": value}


def test_of_a_default_with_many_absent_flags_their_number_is_said():
    assert default_text(DEFAULT) == "TILE=0, level=absent, ivopts=absent, fast_math=false"
    flags = dict.fromkeys("abcd")
    printed = default_text(Config({**flags, "N": 0, "O": 0, "P": 0, "Q": 0, "fast": False}))
    assert printed == "N=0, O=0, P=0, Q=0, fast=false, 4 parameters absent"
