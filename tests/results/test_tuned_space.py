"""The space that a database was tuned from: found again, and named."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.results.provenance import TunedSpace


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`mine/x.yaml` was tuned in `mine` into `results/x.db`; now we are one folder above."""
    (tmp_path / "mine" / "results").mkdir(parents=True)
    (tmp_path / "mine" / "x.yaml").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tuned(database: str, noted: tuple[str, ...] = ("x.yaml",)) -> TunedSpace:
    return TunedSpace("x", noted, (database,))


def test_the_file_is_found_from_the_databases_folder_and_from_that_above(folder: Path) -> None:
    for database in ("mine/results/x.db", "mine/x.db", str(folder / "mine" / "x.db")):
        found = tuned(database)
        assert found.path is not None
        assert found.path.samefile(folder / "mine" / "x.yaml")
        assert found.place == ""


def test_a_file_that_is_not_found_is_tuned_where_it_was(folder: Path) -> None:
    found = tuned("far/x.db")
    assert (found.path, found.file, found.place) == (
        None,
        "x.yaml",
        "in the folder where you tuned",
    )


def test_a_space_built_in_python_is_tuned_in_python(folder: Path) -> None:
    found = tuned("x.db", ("<space x>",))
    assert (found.path, found.place) == (None, "in Python")


def test_a_note_cannot_control_a_terminal() -> None:
    assert "\x1b" not in tuned("x.db", ("\x1b[2J.yaml",)).file
