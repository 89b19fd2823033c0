"""Run a command: print its error on standard error and return its exit code."""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import inspect
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, NoReturn

from harness.core.errors import HarnessError, SpecError
from harness.core.text import command_line, counted, escaped, suggestion
from harness.options.others import MODELS

if TYPE_CHECKING:
    from harness.api.documents import JsonDocument

EXIT_ERROR = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT

_ENDING = ("SIGTERM", "SIGHUP")
"""A batch system's signal, and that of a closed terminal; not all systems have both."""


_ALLOCATIONS = 100_000
"""Python looks for unreachable objects after so many, by default after 700. The records of 10^5
measurements all stay, and it would visit them again and again."""


def run(name: str, arguments: Sequence[str] | None = None) -> int:
    """Run a command with the words of a command line, by default those of this process: read its
    options, load its module, which may take seconds, and call its `run`. Return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    model = MODELS[name]
    options = model.from_command_line(parse(make_parser(name), words, model.moved), words)

    def body() -> int:
        options.check()
        read = options.read()
        return int(importlib.import_module(f"harness.commands.{name}").run(read))

    return guarded(body, getattr(options, "json", False), options.interrupted)


def make_parser(name: str) -> argparse.ArgumentParser:
    """Make the parser of a command; the docstring of its options is laid out as it is where there
    is an epilogue."""
    model = MODELS[name]
    text = inspect.cleandoc(model.__doc__ or "")
    parser = argparse.ArgumentParser(
        prog=command_line(name),
        description=text if model.epilog else " ".join(text.split()),
        epilog=model.epilog or None,
        allow_abbrev=model.allow_abbrev,
    )
    if model.epilog:
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
    model.add_to(parser)
    return parser


def parse(
    parser: argparse.ArgumentParser,
    words: Sequence[str],
    moved: Mapping[str, str] = MappingProxyType({}),
) -> argparse.Namespace:
    """Parse a command line; end the process for one that is wrong, with --json with a document."""
    if "--json" in words:
        parser.error = partial(_refuse, parser)  # type: ignore[method-assign]
    for word in words:
        name = word.partition("=")[0].removeprefix("--")
        if name in moved and word.startswith("--"):
            parser.error(f"--{name} is gone: use {moved[name]}")
    args, unknown = parser.parse_known_args(words)
    if unknown:
        parser.error(_unknown(unknown, parser))
    return args


def guarded(body: Callable[[], int], is_json: bool = False, when_interrupted: str = "") -> int:
    """Call what a command does; return its exit code.

    A HarnessError is printed without a traceback and returns EXIT_ERROR; with --json, it is a
    document on standard output as well. `when_interrupted` is printed after Ctrl-C and SIGTERM, to
    say what is kept.
    """
    gc.set_threshold(_ALLOCATIONS)
    try:
        with _ending_in_order():
            code = body()
        sys.stdout.flush()
        return code
    except KeyboardInterrupt as interrupt:
        print(f"interrupted{when_interrupted}", file=sys.stderr)
        # As shells count them.
        number = interrupt.args[0] if interrupt.args else signal.SIGINT
        return 128 + int(number)
    except BrokenPipeError:
        # The reader of our output has gone, so nothing is printed.
        _discard_output()
        return EXIT_ERROR
    except (HarnessError, MemoryError, OSError) as error:
        print(format_error(error), file=sys.stderr)
        if is_json and not isinstance(error, MemoryError):
            _print_error(_message(error))
        if isinstance(error, OSError):
            _discard_output()
        return EXIT_ERROR


def _message(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "memory ran out; close other programs, or raise `ulimit -v`"
    if isinstance(error, OSError):
        # No room on a disk, for instance, or a folder that is gone.
        return f"{error.filename or 'standard output or a file'}: {error.strerror or error}"
    return str(error)


@contextlib.contextmanager
def _ending_in_order() -> Iterator[None]:
    """End as at Ctrl-C at the first signal that asks this process to end; the next one kills it.

    Signals that are handled or ignored already, as with nohup, are left alone.
    """
    wanted = (getattr(signal, name, None) for name in _ENDING)
    numbers = [n for n in wanted if n and signal.getsignal(n) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        numbers = []  # only the main thread may set handlers

    def end(number: int, frame: FrameType | None) -> None:
        for handled in numbers:
            signal.signal(handled, signal.SIG_DFL)
        raise KeyboardInterrupt(number)

    for number in numbers:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _discard_output() -> None:
    """Write to nowhere what Python still holds: at exit it would fail once more."""
    with contextlib.suppress(OSError):  # an output that is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_json(document: JsonDocument) -> None:
    """Print a document on standard output."""
    print(document.model_dump_json(indent=2), flush=True)


def _print_error(message: str) -> None:
    """Print an error as a document on standard output."""
    from harness.api.documents import ErrorDocument  # here: it takes a while to load

    try:
        print_json(ErrorDocument(error=message))
    except OSError:  # standard output may be what failed
        _discard_output()


def _refuse(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    """Print what is wrong with a command line, also as a document, and exit."""
    _print_error(message)
    argparse.ArgumentParser.error(parser, message)


def format_error(error: Exception) -> str:
    """Format an error as `error: MESSAGE`; the faults of a space come before their count.

    What could control a terminal is escaped: names in a message may come from any file.
    """
    text = escaped(_message(error), "\n\t")
    if isinstance(error, SpecError):
        return f"{text}\nerror: {counted(len(error.faults), 'fault')} found"
    return f"error: {text}"


def _unknown(words: Sequence[str], parser: argparse.ArgumentParser) -> str:
    """Describe unknown arguments, with the nearest option."""
    option = words[0].partition("=")[0]
    options = re.findall(r"--?[a-z][a-z-]*", parser.format_usage())
    known = options if option.startswith("-") else []
    hint = suggestion(option, known, "--help lists the options")
    if option == "--devices":
        hint = f"`{command_line('devices')}` lists this machine's devices"
    return f"unrecognized arguments: {' '.join(words)}; {hint}"
