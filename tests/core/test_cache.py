"""What was judged once is read again, and only where it is certain to be the same."""

from __future__ import annotations

import dataclasses
import math
import os

import numpy as np
import pytest

from harness.core.cache import Cache, content_key
from harness.dispatch.learners import Fixed
from harness.dispatch.verdict import held_out_slowdowns
from tests.helpers.matrices import shapes

KEY = content_key("a test", 1)


@dataclasses.dataclass(frozen=True)
class Point:
    """A value to keep."""

    x: float
    names: tuple[str, ...]


@dataclasses.dataclass
class Counting:
    """A learner that counts its fits."""

    fits: int = dataclasses.field(default=0, repr=False)
    name: str = "counting"

    def fit(self, matrix, seed):
        """Learn nothing."""
        self.fits += 1
        return Fixed(tuple(range(len(matrix.candidates))))


def kept_value(folder, key=KEY):
    """What is kept; `made` where nothing is."""
    return Cache(folder).recall(key, lambda: "made")


def test_a_kept_value_is_equal(tmp_path):
    value = (Point(0.1 + 0.2, ("a", "b")), {"x": None, "y": True}, -math.inf, "ü", 1)
    assert Cache(tmp_path).recall(KEY, lambda: value) == value
    assert Cache(tmp_path).has(KEY)
    assert kept_value(tmp_path) == value
    assert kept_value(tmp_path, content_key("a test", 2)) == "made"
    assert kept_value(None) == "made"


def test_different_parts_have_different_keys():
    parts = [
        *(1, 1.0, True, "1", None, [], {}, {"a": 1}, [["a", 1]], Point(1.0, ()), np.zeros(2)),
        *(np.zeros((2, 1)), np.zeros(2, np.float32), {"a": np.array([1, 2])}, math.nan),
    ]
    keys = {content_key("a test", part) for part in parts}
    assert len(keys) == len(parts)
    assert content_key("a test", Point(1.0, ())) == content_key("a test", Point(1.0, ()))


@pytest.mark.parametrize("cut", [0, 10, -1])
def test_a_truncated_entry_is_made_again(tmp_path, cut):
    Cache(tmp_path).recall(KEY, lambda: "value")
    (file,) = tmp_path.rglob("output.pkl")
    file.write_bytes(file.read_bytes()[:cut])
    assert kept_value(tmp_path) == "made"
    assert kept_value(tmp_path) == "made"


def test_a_readonly_folder_keeps_nothing(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "file"))
    assert Cache.of_user().recall(KEY, lambda: "made") == "made"


def test_files_of_other_users_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path))
    Cache.of_user().recall(KEY, lambda: "value")
    assert (tmp_path / "kept").stat().st_mode & 0o77 == 0
    assert Cache.of_user().has(KEY)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert not Cache.of_user().has(KEY)


def test_of_more_than_64_mib_what_was_unused_longest_is_removed(tmp_path):
    kept, other = Cache(tmp_path), content_key("a test", 2)
    kept.recall(other, lambda: b"value" * (13 << 20))
    for path in tmp_path.rglob("*"):
        os.utime(path, (1000, 1000))
    kept.recall(KEY, lambda: "value")
    assert kept.has(KEY)
    assert not kept.has(other)


def _fits(matrix, folder, seed=0):
    learner, steps = Counting(), list[str]()
    held_out_slowdowns(matrix, [learner], seed, steps.append, Cache(folder))
    assert len(steps) > 1, "progress is counted whether or not a learner is fitted"
    return learner.fits


def test_a_learner_is_judged_once_and_again_for_other_measurements_or_options(
    tmp_path,
):
    matrix = shapes(16)
    assert _fits(matrix, tmp_path) > 0
    assert _fits(shapes(16), tmp_path) == 0
    assert _fits(matrix, tmp_path, seed=1) > 0
    time_s, tied = matrix.time_s.copy(), matrix.tied.copy()
    time_s[0, 0] = np.nextafter(time_s[0, 0], 1)
    tied[0, 0] = not tied[0, 0]
    changes = {
        "time_s": time_s,
        "tied": tied,
        "features": matrix.features.astype(float),
        "candidates": matrix.candidates[::-1],
        "groups": matrix.groups // 2,
        "choices": frozenset({"THRD"}),
    }
    for name, change in changes.items():
        assert _fits(dataclasses.replace(matrix, **{name: change}), tmp_path) > 0, name
