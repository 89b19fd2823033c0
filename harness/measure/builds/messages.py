"""What compilers say when they did not obey their flags.

Compilers warn about flags that exclude one another, that they adjust or ignore, and exit with
status 0. The measured time would be filed under flags that had no effect, so such a build has
failed. Warnings about the source do not count, nor those about deprecated flags that still work.
"""

from __future__ import annotations

import re

from harness.core.errors import BuildFailed
from harness.core.program import family

# nvcc's tools warn about the source in the same format, so the messages that count are listed. They
# are those of nvcc, ptxas and nvlink 13.0, and of NVRTC, which takes flags of nvcc;
# `harness/space_file/flags/nvcc.yaml` has the settings.
_NVCC_TOOL = r"^(?:(?:nvcc|ptxas|nvlink|cicc)\s+(?:warning|info)\s*|nvrtc: warning):\s*"
_NVCC_CONFLICT = "|".join(
    (
        r"incompatible redefinition for option",
        r"Conflicting options",
        r"adjusting per thread register count",
        r"Too big maxrregcount value",
        r"Value of .* will be ignored",
        r"option will be ignored",
        r"Command line option .* will be ignored",
        r"Option .* (?:will be ignored|ignoring)",
        r"[Oo]ption .* is ignored unless",
        r"flag is not supported .* will be ignored",
        r"is not fully implemented",
        r"not compatible with .*, ignoring option",
        r"Too many (?:values )?specified for .* will be ignored",
        r"minnctapersm is ignored",
        r"overrides '",
        r"Ignoring -dlto option",
        r"setmaxnreg' ignored",
        r'" followed by "',
    )
)

# The C compilers report the file and line of the source: a message of the driver or the front end
# without them is about the command line.
_C_TOOL = r"^(?:\S*/)?(?:cc1|cc1plus|gcc|g\+\+|lto1|lto-wrapper|clang|clang\+\+)(?:-\d+)?"
_C_CONFLICT = _C_TOOL + r": (?:warning|sorry, unimplemented): (?!.*\bdeprecated\b)"
_UNPLACED = r"^(?:<invalid loc>: )?(?:warning|sorry, unimplemented): (?!.*\bdeprecated\b)"

# PoCL's clang; "not yet supported" is PoCL's own.
_OPENCL_CONFLICT = "|".join(
    (
        r"^(?:warning: )?<invalid loc>:.*does not support the option",
        r"build option is not (?:yet )?supported",
        r"argument unused during compilation",
        r"^(?:warning: )?.*overriding '-",
    )
)

_PATTERNS = {
    "nvcc": f"{_NVCC_TOOL}.*(?:{_NVCC_CONFLICT})",
    "opencl": _OPENCL_CONFLICT,
    "gcc": _C_CONFLICT,
    "g++": _C_CONFLICT,
    "clang": f"{_C_CONFLICT}|{_UNPLACED}",
    "clang++": f"{_C_CONFLICT}|{_UNPLACED}",
}


def require_obeyed(compiler: str, log: str) -> None:
    """Raise BuildFailed with the lines which say that the compiler did not obey its flags."""
    lines = conflicts(compiler, log)
    if lines:
        raise BuildFailed("the compiler did not obey its flags\n" + "\n".join(lines))


def conflicts(compiler: str, log: str) -> tuple[str, ...]:
    """Return the lines of a log which say that the compiler did not obey its flags, each once.

    `compiler` is a key of `harness.space_file.flags.COMPILERS`, with or without a version. For
    another compiler there are none.
    """
    pattern = _PATTERNS.get(family(compiler))
    if pattern is None:
        return ()
    lines = (line.strip() for line in log.splitlines())
    return tuple(dict.fromkeys(line for line in lines if re.search(pattern, line)))
