"""Check the names of NVIDIA's architectures, such as `sm_90`, against what a compiler knows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from harness.core.errors import BackendUnavailable, UsageError
from harness.core.text import nearest


def checked_arch(
    compiler: str, arch: str, known: Sequence[str], accepts: Callable[[str], bool], cure: str
) -> str:
    """Return an architecture that a compiler knows.

    `compiler` is its name and version, and `known` what it lists: `accepts` is asked for those with
    a feature suffix, which none lists. `cure` installs another release, with {} for older or newer.
    Raises UsageError for a malformed name, BackendUnavailable for one that is not known.
    """
    choice = f"compiles for {', '.join(known)}"
    if not re.fullmatch(r"sm_\d+[af]?", arch):
        hint, name = _nearest(arch, known), compiler.partition(" ")[0]
        raise UsageError(f"{arch!r} is not an architecture of {name}{hint} It {choice}")
    if arch not in known and not (arch.rstrip("af") in known and accepts(arch)):
        raise BackendUnavailable(
            f"{compiler} does not compile for {arch}: it {choice}. {_advice(arch, known, cure)}"
        )
    return arch


def _nearest(arch: str, known: Sequence[str]) -> str:
    near = nearest(arch, known, cutoff=0.5)
    return f"; did you mean `{near}`?" if near else "."


def _advice(arch: str, known: Sequence[str], cure: str) -> str:
    """Say which release knows an architecture that this one does not know."""
    number, numbers = _number(arch), sorted(map(_number, known))
    if not numbers or numbers[0] <= number <= numbers[-1]:
        return f"No release may know it{_nearest(arch, known)}"
    age, other = ("old", "an older") if number < numbers[0] else ("new", "a newer")
    return f"The device is too {age} for this release: {cure.format(other)}"


def _number(arch: str) -> int:
    return int("".join(filter(str.isdigit, arch)))
