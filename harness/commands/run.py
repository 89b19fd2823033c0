"""What all commands share: errors caught once, told on standard error, with an exit code."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence

from harness.core.errors import HarnessError, SpecError
from harness.core.text import suggestion

EXIT_ERROR = 2
EXIT_INTERRUPTED = 130


def run_command(
    parser: argparse.ArgumentParser,
    arguments: Sequence[str] | None,
    command: Callable[[argparse.Namespace], int],
    when_interrupted: str = "",
) -> int:
    """Parse and run; a HarnessError is told without a traceback and gives exit code 2.

    `when_interrupted` says what Ctrl-C has left behind.
    """
    args, unknown = parser.parse_known_args(arguments)
    if unknown:
        parser.error(_unknown(unknown, parser))
    try:
        return command(args)
    except SpecError as error:
        count = len(error.faults)
        _tell(f"{error}\nerror: {count} {'fault' if count == 1 else 'faults'} found")
        return EXIT_ERROR
    except HarnessError as error:
        _tell(f"error: {error}")
        return EXIT_ERROR
    except KeyboardInterrupt:
        _tell(f"interrupted{when_interrupted}")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_ERROR


def _unknown(words: Sequence[str], parser: argparse.ArgumentParser) -> str:
    """What is not understood; of an option, the nearest that there is."""
    option = words[0].partition("=")[0]
    there = re.findall(r"--?[a-z][a-z-]*", parser.format_usage())
    known = there if option.startswith("-") else []
    hint = suggestion(option, known, "--help lists the options")
    return f"unrecognized arguments: {' '.join(words)}; {hint}"


def _tell(text: str) -> None:
    print(text, file=sys.stderr)
