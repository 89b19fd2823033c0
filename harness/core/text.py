"""Text for people: counts with their noun, times with their unit, near names, printable text, and
the commands that messages name."""

from __future__ import annotations

import difflib
import shlex
import shutil
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2


MAX_SHOWN = 200
"""The most characters that `printable` keeps."""

_MOST_NAMES = 12
_PREFIXES = ((1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n"))


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: `1 input`, `1,200 inputs`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def kind_of(value: object) -> str:
    """Say what kind of object a value is, where another was expected."""
    return "a class" if isinstance(value, type) else f"an object of the type {type(value).__name__}"


def format_factor(ratio: float) -> str:
    """Format a ratio with three significant digits: 1.05, 35,200."""
    rounded = float(f"{ratio:.3g}")
    return f"{rounded:,.0f}" if rounded >= 1000 else f"{rounded:.3g}"


def format_time(seconds: float, digits: int = 3) -> str:
    """Format seconds in s, ms, us or ns with so many significant digits: 412 us."""
    return _with_unit(seconds, "s", digits)


def format_energy(joules: float, digits: int = 3) -> str:
    """Format joules in J, mJ, uJ or nJ with so many significant digits: 5.20 mJ."""
    return _with_unit(joules, "J", digits)


def _with_unit(value: float, unit: str, digits: int) -> str:
    if value == 0:
        return f"0 {unit}"
    # Rounded first: 999.6 us is 1.00 ms.
    rounded = float(f"{value:.{digits - 1}e}")
    scale, prefix = next((pair for pair in _PREFIXES if rounded >= pair[0]), _PREFIXES[-1])
    number = rounded / scale
    before_point = len(f"{number:.0f}") if number >= 1 else 1
    return f"{number:.{max(0, digits - before_point)}f} {prefix}{unit}"


def first_few(items: Iterable[str], separator: str = "; ", most: int = 5) -> str:
    """Join the first few items, and say how many more there are."""
    every = list(items)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return separator.join(every[:most]) + more


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known name that is spelled most like `name`, whatever the case of its letters;
    None where none is as similar as `cutoff` (from 0 to 1, see `difflib`)."""
    by_folded = {word.casefold(): word for word in known}
    near = difflib.get_close_matches(name.casefold(), by_folded, 1, cutoff)
    return by_folded[near[0]] if near else None


def suggestion(name: str, known: Iterable[str], otherwise: str | None = None) -> str:
    """Return the hint that ends an error about an unknown name: ``did you mean `NAME`?``.

    Where no known name is near, that is `otherwise`, or a list of the known names.
    """
    names = sorted(known)
    near = nearest(name, names)
    if near is not None:
        return f"did you mean `{near}`?"
    if otherwise is not None:
        return otherwise
    verb = "is" if len(names) == 1 else "are"
    more = ", ..." if len(names) > _MOST_NAMES else ""
    return f"there {verb} {', '.join(names[:_MOST_NAMES])}{more}"


def printable(text: str) -> str:
    """Return a text from a file as one short line that cannot control a terminal."""
    cut = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
    return escaped(cut)


def escaped(text: str, allowed: str = "") -> str:
    """Return a text with its unprintable characters escaped, except those in `allowed`."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in allowed else c.encode("unicode_escape").decode() for c in text
    )


def signal_name(number: int) -> str:
    """Return the name of a signal, such as SIGKILL."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def template(package: str, name: str) -> jinja2.Template:
    """Return a template of a text, from the package's folder `templates`."""
    import jinja2  # here: it takes long to load

    loader = jinja2.PackageLoader(package)
    environment = jinja2.Environment(
        loader=loader,
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # not HTML
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(f"{name}.j2")


def command_words(command: str, *words: str) -> tuple[str, ...]:
    """Return the words that start a command of harness as the user started this one."""
    script = Path(sys.argv[0])
    if script.stem == "harness":
        return ("harness" if shutil.which("harness") else sys.argv[0], command, *words)
    is_module = script.parent.name == "harness"  # harness/tune.py, harness/__main__.py
    python = sys.orig_argv[0] if is_module else "python"
    return (python, "-m", "harness", command, *words)


def command_line(command: str, *words: str) -> str:
    """Return a command of harness as a line to copy into a shell (see `command_words`)."""
    return shlex.join(command_words(command, *words))
