"""What was read of a large database is kept, and used only while its file has the same bytes."""

from __future__ import annotations

import dataclasses
import math
import shutil
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import ResultsError
from harness.core.records import Measurement, Outcome, StopReason, Timing
from harness.core.worst_element import WorstElement
from harness.results import connect, file_digest, guard, reading, runs, writing
from harness.results.view import read_results
from tests.helpers.results_examples import make_failed, make_ok, tamper, write

WRONG = dataclasses.replace(
    make_failed(Outcome.WRONG_RESULT, 3),
    worst=WorstElement("y", (1, 2), math.inf, 2**60, 0.5, 3, 4),
)
FOUND = (
    dataclasses.replace(
        make_ok(1),
        timing=Timing((2e-3, 1e-3, 3e-3, 4e-3), StopReason.PRECISE, (1, 3)),
        observed={"occupancy": 0.5},
        host_read=("LU",),
    ),
    dataclasses.replace(make_ok(2), shared_with=make_ok(1).config.digest),
    WRONG,
)


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database that counts as large, with a cache of its own."""
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(file_digest, "SMALLEST_BYTES", 1)
    write(tmp_path / "large.db", *FOUND)
    return tmp_path / "large.db"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What took a look at every row since the test began."""
    done: list[str] = []
    for module, name in ((runs, "read_measurements"), (guard, "_refuse_damage")):
        real = getattr(module, name)

        def counted(*args: object, _real=real, _name=name, **options: object) -> object:  # type: ignore[no-untyped-def]
            done.append(_name)
            return _real(*args, **options)

        monkeypatch.setattr(module, name, counted)
    return done


def measurements(database: Path, builds: bool = True) -> Sequence[Measurement]:
    (results,) = read_results(str(database), builds=builds)
    return [row.measurement for row in results.all_rows]


@pytest.mark.parametrize("builds", [True, False])
def test_unchanged_file_is_read_once_and_gives_the_same(
    database: Path, reads: list[str], builds: bool
) -> None:
    (first,) = read_results(str(database), builds=builds)
    assert reads == ["read_measurements"]  # the writer looked for damage at its end
    (again,) = read_results(str(database), builds=builds)
    assert reads == ["read_measurements"]
    assert list(again.all_rows) == list(first.all_rows)
    assert [type(row.measurement.worst) for row in again.all_rows][-1] is WorstElement
    assert again.default == first.default
    assert again.columns.columns.config_table.find(FOUND[1].config) == 1


def test_copy_of_the_file_is_not_read_again(database: Path, reads: list[str]) -> None:
    measurements(database)
    reads.clear()
    copy = database.with_name("copy.db")
    shutil.copy(database, copy)
    assert measurements(copy) == measurements(database)
    assert reads == []


def test_what_was_kept_without_builds_does_not_stand_for_what_has_them(database: Path) -> None:
    assert measurements(database, builds=False)[0].build is None
    assert measurements(database)[0].build is not None


def test_changed_measurement_is_read_anew(database: Path, reads: list[str]) -> None:
    before = measurements(database)
    tamper(database, "UPDATE measurements SET wall_s = 7.5")
    assert [m.wall_s for m in measurements(database)] == [7.5] * len(before)
    assert reads == ["read_measurements", "_refuse_damage", "read_measurements"]


def test_flipped_bit_in_a_file_that_was_read_before_is_refused(database: Path) -> None:
    measurements(database)
    tamper(database, "UPDATE measurements SET wall_s = 7.5", forget_checksums=False)
    with pytest.raises(ResultsError, match="checksum"):
        measurements(database)


@pytest.mark.parametrize("damage", [b"", b"nonsense", None])
def test_damaged_cache_is_not_used(
    database: Path, tmp_path: Path, reads: list[str], damage: bytes | None
) -> None:
    first = measurements(database)
    (kept,) = (tmp_path / "cache" / "rows").iterdir()
    other_time = kept.read_bytes().replace(struct.pack("<d", 1.5), struct.pack("<d", 2.5))
    kept.write_bytes(other_time if damage is None else damage)
    assert measurements(database) == first
    assert reads.count("read_measurements") == 2


@pytest.mark.parametrize("place", [8, 10])
def test_cache_that_seems_encrypted_or_packed_is_not_used(
    database: Path, tmp_path: Path, place: int
) -> None:
    first = measurements(database)
    (kept,) = (tmp_path / "cache" / "rows").iterdir()
    content = bytearray(kept.read_bytes())
    content[content.index(b"PK\1\2") + place] ^= 1  # the flags, or the method, of the first array
    kept.write_bytes(content)
    assert measurements(database) == first


def test_nothing_is_kept_of_a_file_with_changes_beside_it(database: Path, tmp_path: Path) -> None:
    database.with_name("large.db-journal").write_bytes(b"0")
    assert file_digest.file_digest(database) is None


def test_nothing_is_kept_of_a_small_database(tmp_path: Path, reads: list[str]) -> None:
    write(tmp_path / "small.db", *FOUND)
    assert measurements(tmp_path / "small.db") == measurements(tmp_path / "small.db")
    assert reads.count("read_measurements") == 2


def test_writer_looks_again_only_at_what_another_program_wrote(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    look, compare = guard._refuse_damage, connect.check_record

    def looked(*args: Any, thorough: bool) -> None:
        looks.append("whole" if thorough else "damage")
        look(*args, thorough=thorough)

    def compared(*args: Any) -> None:
        looks.append("record")
        compare(*args)

    monkeypatch.setattr(guard, "_refuse_damage", looked)
    monkeypatch.setattr(connect, "check_record", compared)
    with writing(str(database)) as engine, engine.begin() as connection:
        connection.exec_driver_sql("UPDATE environments SET driver = 'another'")
    assert looks == ["damage"]  # at the end, of what was written now
    looks.clear()
    with reading(str(database)), reading(str(database)):
        pass
    assert looks == ["record"]
    looks.clear()
    tamper(database, "UPDATE measurements SET wall_s = 7.5")
    with writing(str(database)):
        pass
    assert looks == ["whole", "record", "damage"]
