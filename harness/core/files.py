"""Write files whole or not at all, and keep what can be made again in the user's cache."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import uuid
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.text import nearest

WRITTEN_BY = "Written by harness"
"""The words of the first line of each text that harness writes to a file that a user names."""

_OWN = (WRITTEN_BY.encode(), b'"autotuner": "harness"', b",technique,time_s,outcome,message")
"""What says so in a comment, in T4's metadata, and in the head of CSV, which has no comments."""

CACHE_ADVICE = "make room, or set HARNESS_CACHE_DIR to a folder that can be written"


def cache_folder(part: str) -> Path:
    """Return a folder of the cache, in HARNESS_CACHE_DIR or the user's cache; make it if missing.

    Raises UsageError where it cannot be made.
    """
    import platformdirs  # here: few commands need the folder before something slow

    root = os.environ.get("HARNESS_CACHE_DIR") or platformdirs.user_cache_dir("harness")
    folder = Path(root) / part
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error, CACHE_ADVICE, parents=True) from None
    return folder


def write_file(
    path: Path,
    content: str | bytes | Iterable[str],
    *,
    advice: str = "",
    parents: bool = False,
    replace: bool = True,
) -> None:
    """Write a file whole or not at all: others see the old content or the new, even after a crash.

    The content goes into a temporary file in the same folder, which then takes the file's place.
    A device, a pipe, or an open file such as /dev/stdout is written to directly; so is a file that
    can be written in a folder that cannot. `parents` makes missing folders. Without `replace`,
    the file must be new. Texts are written as they come. Raises UsageError with the path, the
    reason and the `advice`.
    """
    parts = [content] if isinstance(content, (str, bytes)) else content
    data = (part.encode() if isinstance(part, str) else part for part in parts)
    if not replace and os.path.lexists(path):
        raise UsageError(f"{path} already exists; name a new file")
    try:
        if _is_written_directly(path):
            with path.open("wb") as file:
                file.writelines(data)
            return
        target = Path(os.path.realpath(path))  # a link stays a link
        if parents:
            target.parent.mkdir(parents=True, exist_ok=True)
        _put(target, data)
    except OSError as error:
        raise unwritable(path, error, advice, parents=parents) from None


def check_writable(path: Path, advice: str = "", *, parents: bool = False) -> None:
    """Raise UsageError where `write_file`, or `write_folder` with `parents`, would fail later.

    Call it before long work. It leaves nothing behind.
    """
    if parents or not _is_written_directly(path):
        reason = obstacle(path, parents=parents)
    else:  # a pipe or a device is not asked
        reason = "it is read-only" if path.is_file() and not os.access(path, os.W_OK) else None
    if reason is not None:
        raise UsageError(_unwritable_text(path, reason, advice))


def check_output(path: Path) -> None:
    """Raise UsageError where a path names a file that the user would lose: anything but an empty
    file, a device, or a file that harness wrote; and where no file can be written.

    Call it before long work as well, so that the work does not end in this error.
    """
    try:
        content = b""
        if path.is_file():
            with path.open("rb") as file:
                content = file.readline()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}; name another file") from None
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file")
    if content and not any(mark in content for mark in _OWN):
        raise UsageError(
            f"{path} already exists and was not written by harness, so it stays as it is. Name "
            "another file, or move this one away"
        )
    check_writable(path, "name another file")


def write_output(path: Path, content: str | Iterable[str]) -> None:
    """Write a file that a user named; raises what `check_output` and `write_file` raise."""
    check_output(path)
    write_file(path, content)


def obstacle(path: Path, *, parents: bool = False) -> str | None:
    """Say why no file can be made at a path: a folder of it is missing, is a file, or takes no
    files; None where one can be made. With `parents`, missing folders will be made.
    """
    path = Path(os.path.realpath(path)) if os.path.islink(path) else path
    last = Path()
    for folder in reversed(path.parents):
        if not os.path.exists(folder):
            if parents:
                break
            return f"the folder {folder} does not exist"
        if not os.path.isdir(folder):
            return f"{folder} is a file, not a folder"
        last = folder
    try:
        with tempfile.TemporaryFile(dir=last):
            return None
    except OSError:
        return f"no file can be made in the folder {last.resolve()}"


def _is_written_directly(path: Path) -> bool:
    """Say whether a path exists and cannot, or must not, be replaced by a new file."""
    if not path.exists():
        return False
    is_open_file = path.absolute().parts[:2] in (("/", "dev"), ("/", "proc"))
    return is_open_file or not path.is_file() or not os.access(path.resolve().parent, os.W_OK)


def _put(target: Path, data: Iterable[bytes]) -> None:
    aside = target.with_name(f".{uuid.uuid4().hex}.part")
    try:
        with aside.open("xb") as file:
            file.writelines(data)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, aside)
        os.replace(aside, target)
    finally:
        aside.unlink(missing_ok=True)


def write_folder(
    folder: Path,
    files: Mapping[str, bytes],
    *,
    executables: Collection[str] = (),
    advice: str = "",
    replace: bool = True,
) -> None:
    """Replace a folder by one with these files, by their paths in it, or leave it as it was.

    `executables` are those that may be run. Without `replace`, the folder must be new. Raises
    UsageError with the path, the reason and the `advice`.
    """
    if not replace and os.path.lexists(folder):
        raise UsageError(f"{folder} already exists; name a new folder")
    target = Path(os.path.realpath(folder))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            prefix=f".{target.name}.", dir=target.parent, ignore_cleanup_errors=True
        ) as aside:
            _put_folder(target, files, Path(aside), executables)
    except OSError as error:
        raise unwritable(folder, error, advice, parents=True) from None


def _put_folder(
    target: Path, files: Mapping[str, bytes], aside: Path, executables: Collection[str]
) -> None:
    # Not the temporary folder itself, which nobody else may enter.
    new, old = aside / "new", aside / "old"
    for name, content in files.items():
        (new / name).parent.mkdir(parents=True, exist_ok=True)
        _put(new / name, [content])
        if name in executables:
            readable = stat.S_IMODE((new / name).stat().st_mode) & 0o444
            (new / name).chmod(readable | readable >> 2 | stat.S_IWUSR)
    if target.exists():
        os.rename(target, old)
    try:
        os.rename(new, target)
    except OSError:
        with contextlib.suppress(OSError):
            os.rename(old, target)
        raise


_OF_A_FOLDER = (FileNotFoundError, FileExistsError, NotADirectoryError)
"""Errors whose own words do not say which folder of a path is meant."""


def unwritable(
    path: Path, error: OSError, advice: str = "", *, parents: bool = False
) -> UsageError:
    """Return the error that names the path that cannot be written, the reason and the next step."""
    reason = obstacle(path, parents=parents) if isinstance(error, _OF_A_FOLDER) else None
    return UsageError(_unwritable_text(path, reason or str(error.strerror), advice))


def _unwritable_text(path: Path, reason: str, advice: str) -> str:
    text = f"{path} cannot be written: {reason}"
    return f"{text}; {advice}" if advice else text


def nearest_file(path: Path) -> Path | None:
    """Return the file in the same folder whose name is most like that of a missing one.

    Raises OSError where the folder cannot be read.
    """
    there = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    near = nearest(path.name, sorted(there))
    return path.with_name(near) if near else None
