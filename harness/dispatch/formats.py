"""Formats beyond C and Python that a dispatcher is written in where a user asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from harness.core.errors import UsageError
from harness.core.text import suggestion
from harness.dispatch.dispatcher import Dispatcher
from harness.dispatch.json_format import json_files
from harness.dispatch.loaders import torch_files
from harness.dispatch.triton_format import triton_files
from harness.space_file import Spec

TRITON = "triton"

FORMATS: Mapping[str, Callable[[Dispatcher], dict[str, bytes]]] = {
    "json": json_files,
    "torch": lambda dispatcher: torch_files(dispatcher.name),
    TRITON: triton_files,
}
"""What makes the files of each format, by their paths in the folder."""


_LANGUAGES = {"cuda": "CUDA", "opencl": "OpenCL"}


def check_formats(names: Iterable[str], spec: Spec) -> None:
    """Raise UsageError for a format that harness does not write, or not for this space."""
    for name in names:
        if name not in FORMATS:
            raise UsageError(f"no format `{name}`; {suggestion(name, FORMATS)}")
        flag = next((p for p in spec.parameters if p.role == "flag"), None)
        if name == TRITON and flag is not None:
            raise UsageError(
                f"{spec.name} cannot be written for Triton: {flag.name} is a flag of "
                f"{flag.compiler}, which compiles no kernel of Triton; leave out --format {TRITON}"
            )
        if name == TRITON and spec.sources:
            languages = " and ".join(_LANGUAGES[each] for each in sorted(spec.sources))
            raise UsageError(
                f"{spec.name} cannot be written for Triton: its kernel is {languages}; leave out "
                f"--format {TRITON}, or tune a kernel of Triton as a program"
            )


def format_files(dispatcher: Dispatcher, names: Iterable[str]) -> dict[str, bytes]:
    """Return the content of the files of these formats, by their paths in the folder."""
    return {path: content for name in names for path, content in FORMATS[name](dispatcher).items()}
