"""Run a command: print its error on standard error and return its exit code."""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import re
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn, TypeVar

from harness.core.errors import HarnessError, SpecError, Terminated, UsageError
from harness.core.invocation import command_line
from harness.core.text import counted, escaped, suggestion

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Options = TypeVar("Options", bound="DataclassInstance")

WITH_JSON = ("analyse", "check", "compare", "dispatch", "report", "tune")
"""The commands that take --json."""

EXIT_ERROR = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT

_ENDING = (
    "SIGTERM",
    "SIGHUP",
)  # a batch system's, or a closed terminal's; not all systems have both


_AGAIN_S = 0.1  # until a signal is sent again

_LEAST_ADDRESSES = 2 << 30  # bytes of a long run, and of each thread of the libraries
_THREAD_ADDRESSES = 80 << 20
_MOST_THREADS = 64
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")

_ALLOCATIONS = 1_000_000  # before Python looks for unreachable objects; by default 700


@contextlib.contextmanager
def collecting_rarely() -> Iterator[None]:
    """Look for unreachable objects seldom: the records of 10^5 inputs all stay, and Python would
    visit them again and again."""
    before = gc.get_threshold()
    gc.set_threshold(_ALLOCATIONS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def run_command(
    parser: argparse.ArgumentParser,
    arguments: Sequence[str] | None,
    command: Callable[[argparse.Namespace], int],
    when_interrupted: str = "",
) -> int:
    """Parse the arguments and run the command; return its exit code.

    A HarnessError is printed without a traceback and returns EXIT_ERROR; with --json, it is a
    document on standard output as well. `when_interrupted` is printed after Ctrl-C and SIGTERM, to
    say what is kept.
    """
    if "--json" in (sys.argv[1:] if arguments is None else arguments):
        parser.error = partial(_refuse, parser)  # type: ignore[method-assign]
    args, unknown = parser.parse_known_args(arguments)
    if unknown:
        parser.error(_unknown(unknown, parser))
    is_json = getattr(args, "json", False)
    try:
        _check_addresses()
        with _ending_in_order():
            code = command(args)
        sys.stdout.flush()
        return code
    except HarnessError as error:
        print(format_error(error), file=sys.stderr)
        if is_json:
            print_error(str(error))
        return EXIT_ERROR
    except KeyboardInterrupt as interrupt:
        print(f"interrupted{when_interrupted}", file=sys.stderr)
        return interrupted_code(interrupt)
    except MemoryError:
        print("error: memory ran out; close other programs, or raise `ulimit -v`", file=sys.stderr)
        return EXIT_ERROR
    except BrokenPipeError:
        # The reader of our output has gone, so nothing is printed.
        _discard_output()
        return EXIT_ERROR
    except OSError as error:
        # No room on a disk, for instance, or a folder that is gone.
        where = error.filename or "standard output or a file"
        message = f"{where}: {error.strerror or error}"
        print(f"error: {message}", file=sys.stderr)
        if is_json:
            print_error(message)
        _discard_output()
        return EXIT_ERROR


def _check_addresses() -> None:
    """Raise UsageError where the limit of addresses is too low for the libraries.

    Some would raise an error when they are loaded; NumPy's and SciPy's OpenBLAS would hang.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if sys.platform != "linux" or limit == resource.RLIM_INFINITY:
        return
    set_to = [int(text) for name in _THREADS if (text := os.environ.get(name, "")).isdecimal()]
    threads = min(len(os.sched_getaffinity(0)), _MOST_THREADS, *filter(None, set_to[:1]))
    need = _LEAST_ADDRESSES + threads * _THREAD_ADDRESSES
    if limit < need:
        raise UsageError(
            f"this shell limits the addresses of a process to {limit >> 10:,} KiB, and harness "
            f"needs {need >> 10:,} KiB with {counted(threads, 'thread')}: raise the limit, for "
            "example with `ulimit -v unlimited`"
            + (", or set OPENBLAS_NUM_THREADS=1 to need less" if threads > 1 else "")
        )


@contextlib.contextmanager
def _ending_in_order() -> Iterator[None]:
    """Raise Terminated at the first signal that asks this process to end; the next one kills it.

    Signals that are handled or ignored already, as with nohup, are left alone. A signal is sent
    again where Python ignored its exception: it does in the callbacks of weak references, which
    each import makes.
    """
    wanted = (getattr(signal, name, None) for name in _ENDING)
    numbers = [n for n in wanted if n and signal.getsignal(n) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        numbers = []  # only the main thread may set handlers

    def end(number: int, frame: FrameType | None) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_DFL)
        raise Terminated(number)

    def send_again(ignored: sys.UnraisableHookArgs) -> None:
        if not isinstance(ignored.exc_value, Terminated):
            before(ignored)
            return
        number = ignored.exc_value.signal_number
        signal.signal(number, end)
        main_thread = threading.main_thread().ident
        threading.Timer(_AGAIN_S, signal.pthread_kill, (main_thread, number)).start()

    before = sys.unraisablehook
    for number in numbers:
        signal.signal(number, end)
    sys.unraisablehook = send_again
    try:
        yield
    finally:
        sys.unraisablehook = before
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def interrupted_code(interrupt: KeyboardInterrupt) -> int:
    """Return the exit code after Ctrl-C or another signal, as shells count them."""
    if isinstance(interrupt, Terminated):
        return 128 + interrupt.signal_number
    return EXIT_INTERRUPTED


def _discard_output() -> None:
    """Write to nowhere what Python still holds: at exit it would fail once more."""
    with contextlib.suppress(OSError):  # an output that is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def options_of(kind: type[Options], args: argparse.Namespace) -> Options:
    """Make a record of options: each field has the name of its option; lists become tuples."""
    values = {field.name: getattr(args, field.name) for field in fields(kind)}
    return kind(**{n: tuple(v) if isinstance(v, list) else v for n, v in values.items()})


def whole_number(least: int, most: int = 10**9, shown: str = "10^9") -> Callable[[str], int]:
    """Make a parser of an option's number from `least` to `most`, which messages write as
    `shown`."""

    def parse(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            message = f"must be a whole number from {least} to {shown}, got {text!r}"
            raise argparse.ArgumentTypeError(message)
        return int(text)

    return parse


def add_device(
    parser: argparse.ArgumentParser | argparse._ArgumentGroup, several: bool = False
) -> None:
    """Add the option that names a device, or several (harness.measure.devices)."""
    more = "; repeat it, or name `all`, to share the inputs out over equal devices"
    parser.add_argument(
        "--device",
        action="append",
        default=[],
        metavar="NAME",
        help="which GPU or CPU runs kernels: index, UUID or part of its name; "
        f"`{command_line('check', '--devices')}` lists them (default: the first)"
        + (more if several else ""),
    )


def add_kernel_version(parser: argparse.ArgumentParser, default: str = "newest") -> None:
    """Add the option that chooses a version of an edited kernel (harness.results.versions)."""
    parser.add_argument(
        "--kernel-version",
        default=default,
        metavar="VERSION",
        help="version of an edited kernel: newest (tuned last), all, or one that analyse lists "
        f"(default {default})",
    )


def add_json(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add the option that prints a document for scripts (harness.api.documents)."""
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON document; progress and warnings go to standard error (docs/python.md)",
    )


def print_json(document: object) -> None:
    """Print a document on standard output."""
    from harness.api.schemas import to_json  # here: it takes a while to load

    print(to_json(document), flush=True)


def print_error(message: str) -> None:
    """Print an error as a document on standard output."""
    from harness.api.documents import ErrorDocument

    try:
        print_json(ErrorDocument(message))
    except OSError:  # standard output may be what failed
        _discard_output()


def _refuse(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    """Print what is wrong with a command line, also as a document, and exit."""
    print_error(message)
    argparse.ArgumentParser.error(parser, message)


def report_file(text: str) -> Path:
    """Parse the name of a report's file."""
    if not text.lower().endswith((".html", ".htm")):
        raise argparse.ArgumentTypeError(f"must end in .html, got {text!r}")
    return Path(text)


def format_error(error: HarnessError) -> str:
    """Format an error as `error: MESSAGE`; the faults of a space come before their count.

    What could control a terminal is escaped: names in a message may come from any file.
    """
    text = escaped(str(error), "\n\t")
    if isinstance(error, SpecError):
        return f"{text}\nerror: {counted(len(error.faults), 'fault')} found"
    return f"error: {text}"


def _unknown(words: Sequence[str], parser: argparse.ArgumentParser) -> str:
    """Describe unknown arguments, with the nearest option."""
    option = words[0].partition("=")[0]
    options = re.findall(r"--?[a-z][a-z-]*", parser.format_usage())
    known = options if option.startswith("-") else []
    hint = suggestion(option, known, "--help lists the options")
    return f"unrecognized arguments: {' '.join(words)}; {hint}"
