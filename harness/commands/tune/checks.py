"""What is wrong with a command line before anything is loaded or read."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.files import nearest_file
from harness.recordings.files import SPACE, known_as

_MEASURING = ("repeats", "precision", "give_up_at")


def check_line(args: argparse.Namespace) -> None:
    """Raise UsageError for options that do not go together, and for files that are not there or
    are something else."""
    if args.space is None and args.replay is None:
        raise UsageError("name a space, for example spaces/mvmul.yaml, or --replay FILE")
    _check_replay(args)
    _check_validation(args)
    for option, path in _files(args):
        _check_file(option, path)
    if args.space is not None:
        _check_space(args.space)
    for option, path in (("--results-log", args.results_log), ("--report", args.report)):
        if path is not None and not path.parent.is_dir():
            raise UsageError(f"{option} {path}: the folder {path.parent} does not exist; make it")


def check_recordings(args: argparse.Namespace) -> None:
    """Raise HarnessError for what the first bytes of recordings and their mapping show.

    A recording with a space is read as the space says, which is loaded later.
    """
    read = [*([args.replay] if args.replay and not args.space else []), *args.warm_start]
    if read:
        from harness.recordings.read import recording_files  # here: it loads the spec's model

        recording_files(read, args.mapping)


def _check_replay(args: argparse.Namespace) -> None:
    """Refuse options that a replay cannot obey."""
    if args.replay is not None and args.backend != "auto":
        raise UsageError("--replay takes the place of a device; leave out --backend")
    is_mapped = args.warm_start or (args.replay and not args.space)
    if args.mapping is not None and not is_mapped:
        raise UsageError("--mapping needs --warm-start FILE, or --replay FILE without a space")
    timing = [name for name in _MEASURING if getattr(args, name) is not None]
    if timing and args.replay:
        raise UsageError(
            f"--{timing[0].replace('_', '-')} says how launches are timed, but a recording is not "
            "timed again; leave it out"
        )


def _check_validation(args: argparse.Namespace) -> None:
    """A validation samples uniformly, and seeks no best."""
    if args.validate is None:
        return
    asked = set(args.technique or ()) - {"UniformRandom"}
    if asked:
        raise UsageError(
            "--validate samples with --technique UniformRandom alone, got "
            f"{', '.join(sorted(asked))}; leave --technique out"
        )
    if args.results_log is not None:
        raise UsageError("--results-log does not go with --validate, which seeks no best")


def _files(args: argparse.Namespace) -> Iterator[tuple[str, Path]]:
    """The files that must be there, with their options; what to write for a mapping that is not
    is told by what its recording holds."""
    for option in ("space", "replay"):
        path = getattr(args, option)
        if path is not None:
            yield ("" if option == "space" else f"--{option} "), path
    yield from (("--warm-start ", path) for path in args.warm_start)
    yield from (("--seed-configuration ", path) for path in args.seed_configuration)


def _check_file(option: str, path: Path) -> None:
    try:
        if path.is_file():
            return
        if path.exists():
            raise UsageError(f"{option}{path} is no file; name a file")
        near = nearest_file(path)
    except OSError as error:
        raise UsageError(f"{option}{path} cannot be read: {error.strerror}") from None
    hint = f"; did you mean `{near}`?" if near else ""
    raise UsageError(f"{option}{path} does not exist{hint}")


def _check_space(path: Path) -> None:
    """What is no space, but known: a recording is often given in its place."""
    found = known_as(path)
    if found == "a results database":
        raise UsageError(f"{path} is {found}; what it holds is told by harness.analyse {path}")
    if found not in (None, SPACE):
        raise UsageError(
            f"{path} is {found}, not a space; to search recorded measurements, use --replay {path}"
        )
