"""Kinds of values and options that several commands share."""

from __future__ import annotations

from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.core.options import Kind, flag, option
from harness.core.text import command_line

if TYPE_CHECKING:  # it takes a while to load
    pass


def _space(value: Any) -> Any:
    if isinstance(value, str | Path):
        return Path(value)
    from harness.space_file import Spec  # here: it takes half a second to load

    if not isinstance(value, Spec):
        raise ValueError
    return value


def _device(value: Any) -> str:
    is_index = isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0
    if not is_index and not isinstance(value, str):
        raise ValueError
    return str(value)


def _seconds(word: str) -> float:
    unit_s = {"s": 1, "m": 60, "h": 3600}.get(word[-1:])
    return float(word[:-1]) * unit_s if unit_s else float(word)


PAGE = Kind.path(".html", ".htm")
SPACE = Kind("the path of a space, or a Spec", _space)
SECONDS = Kind.number("seconds above 0, up to 10^9", lambda value: 0 < value <= 10**9, _seconds)
DEVICE = Kind("the name or the index of a device", _device)

WHERE = (
    "where kernels run (default auto: CUDA with a GPU, else an OpenCL GPU, else PoCL on the CPU)"
)


def device_option(more: str = "") -> Any:
    """Make the option that names a device, or several (harness.measure.devices)."""
    return option(
        DEVICE,
        "NAME",
        "which GPU or CPU runs kernels: index, UUID or part of its name; "
        f"`{command_line('devices')}` lists them (default: the first){more}",
        several=True,
    )


def wait_option(what: str) -> Any:
    """Make the option that waits for another process."""
    return option(
        Kind.number("seconds from 0, up to 10^9", lambda value: 0 <= value <= 10**9),
        "SECONDS",
        f"wait for up to so long for another process that {what} (default: end with an error)",
        default=0.0,
    )


def json_flag() -> Any:
    """Make the option that prints a document for scripts (harness.api.documents)."""
    return flag(
        "print one JSON document (docs/reference/json.md); all else goes to standard error",
        in_python=False,
    )
