"""A database that is deleted, replaced or cut while it is written: an error, and a rescue."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from filelock import FileLock, Timeout
from sqlalchemy import text

from harness.commands.analyse import main as analyse
from harness.commands.tune import main as tune
from harness.core.errors import DatabaseBusy, ResultsError
from harness.recordings.replay import ReplayMeasurer
from harness.results import reading
from harness.results.lock import locked
from tests.commands.test_planted import SPACE
from tests.helpers.replays import write_recording
from tests.helpers.results_examples import begin_search, make_ok, opened, query, write


def delete(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    other = path.with_name("other")
    shutil.copy(path, other)
    os.replace(other, path)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


DEEDS: list[tuple[Callable[[Path], None], str]] = [
    (delete, "was deleted or moved"),
    (replace, "was replaced by another file"),
    (cut, "was cut from "),
]


@pytest.mark.parametrize(("deed", "message"), DEEDS)
def test_tune_ends_with_an_error_that_says_what_happened(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    deed: Callable[[Path], None],
    message: str,
) -> None:
    space, recording = write_recording(tmp_path, SPACE)
    database = tmp_path / "results.db"
    measured = ReplayMeasurer.measure
    count = iter(range(100))

    def measure(*arguments: object) -> object:
        if next(count) == 2:
            deed(database)
        return measured(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ReplayMeasurer, "measure", measure)
    command = [str(space), "--replay", str(recording), "--database", str(database), "--quiet"]
    assert tune(command) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert "All samples are in" not in printed.out


@pytest.mark.parametrize("deed", [delete, replace])
def test_what_was_measured_so_far_is_rescued(tmp_path: Path, deed: Callable[[Path], None]) -> None:
    database, rescued = tmp_path / "results.db", tmp_path / "results-rescued-2.db"
    write(database, make_ok(0))
    (tmp_path / "results-rescued.db").touch()  # not overwritten

    def write_on() -> None:
        with opened(database) as store:
            search = begin_search(store)
            search.test(make_ok(1))
            deed(database)
            search.test(make_ok(2))

    with pytest.raises(ResultsError, match=f"is in {rescued}"):
        write_on()
    assert query(rescued, "SELECT count(*) FROM measurements") == [(3,)]
    assert analyse([str(rescued)]) == 0
    assert (tmp_path / "results-rescued.db").read_bytes() == b""


def test_rows_that_are_lost_after_the_last_commit_are_noticed(tmp_path: Path) -> None:
    database = tmp_path / "results.db"
    write(database, make_ok(0))
    before = database.read_bytes()

    def overwrite_when_closed() -> None:
        with opened(database) as store:
            search = begin_search(store)
            search.test(make_ok(1))
            dispose = store.engine.dispose
            store.engine.dispose = lambda: (dispose(), database.write_bytes(before))  # type: ignore

    with pytest.raises(ResultsError, match="holds 1 measurements, but 2 were there"):
        overwrite_when_closed()


def test_only_the_database_is_left_by_writers_and_readers(tmp_path: Path) -> None:
    database = tmp_path / "results.db"
    write(database, make_ok(0))
    assert [path.name for path in tmp_path.iterdir()] == ["results.db"]
    written = database.read_bytes()
    with reading(str(database)) as engine, engine.connect() as connection:
        connection.execute(text("SELECT 1 FROM runs"))
    assert [path.name for path in tmp_path.iterdir()] == ["results.db"]
    assert database.read_bytes() == written


def test_the_log_of_a_killed_writer_stays_until_the_next_writer(tmp_path: Path) -> None:
    database = tmp_path / "results.db"
    write(database, make_ok(0))
    log = tmp_path / "results.db-wal"
    log.write_bytes(b"not empty")
    with reading(str(database)):
        pass
    assert log.exists()


def test_a_lock_is_taken_from_a_writer_that_has_just_deleted_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, takes = FileLock, iter(["deleted first", "locked"])

    def acquire(self: FileLock, timeout: float) -> None:
        if next(takes) == "deleted first":
            raise Timeout(self.lock_file)
        acquired(self, timeout=timeout)

    acquired = lock.acquire
    monkeypatch.setattr(lock, "acquire", acquire)
    write(tmp_path / "results.db", make_ok(0))
    assert next(takes, None) is None


def test_of_many_writers_that_come_and_go_no_two_write_at_once(tmp_path: Path) -> None:
    database, inside = str(tmp_path / "results.db"), tmp_path / "inside"
    write(Path(database), make_ok(0))

    def busy(_: str) -> DatabaseBusy:
        return DatabaseBusy("somebody writes", "Wait.")

    def come_and_go() -> int:
        entered = 0
        for _ in range(50):
            with contextlib.suppress(DatabaseBusy), locked(database, busy):
                inside.touch(exist_ok=False)
                entered += 1
                inside.unlink()
        return entered

    with ThreadPoolExecutor(4) as pool:
        entered = sum(task.result() for task in [pool.submit(come_and_go) for _ in range(4)])
    assert entered > 0
    assert not (tmp_path / "results.db.lock").exists()
