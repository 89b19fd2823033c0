"""A stencil's file: it defines `expression(size)`, `reference(arguments)` and perhaps `inputs`."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.core.errors import UsageError
from harness.core.modules import load_module
from harness.source.kernel_source import read_text
from harness.stencil.ir import Node
from harness.stencil.types import FLOAT, StencilError, leaf


@dataclass(frozen=True)
class Definition:
    """A stencil: its name, its file and the functions that the file defines."""

    name: str
    path: Path
    text: str
    module: ModuleType

    @property
    def function_name(self) -> str:
        """Name the kernel; the stencil's own name may be taken by one of its functions."""
        return f"{self.name}_kernel"

    def expression(self, size: int) -> Node:
        """Call the file's `expression`; raise StencilError, with file and line, if it fails."""
        try:
            result = self.function("expression")(size)
        except Exception as error:
            reason = str(error) if isinstance(error, StencilError) else repr(error)
            raise StencilError(f"{_where(error, self.path)}: {reason}") from error
        if not isinstance(result, Node):
            kind = type(result).__name__
            raise StencilError(
                f"{self.path}: expression() must return an expression, but returned a {kind}"
            )
        if leaf(result.type) != FLOAT or result.type == FLOAT:
            raise StencilError(
                f"{self.path}: expression() must return an array of float, "
                f"but returned {result.type}"
            )
        return result

    def function(self, name: str) -> Callable[..., Any]:
        """Return a function that the file must define."""
        function = getattr(self.module, name, None)
        if not callable(function):
            raise StencilError(f"{self.path} must define the function `{name}`")
        return function  # type: ignore[no-any-return]


def load_definition(path: Path) -> Definition:
    """Load a stencil from its file.

    Raises UsageError if it cannot be read, and StencilError if it is not a stencil.
    """
    if not path.stem.isidentifier():
        raise UsageError(
            f"{path}: a stencil has the name of its file, so use only letters, digits and _ there"
        )
    try:
        text = read_text(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(
            f"{path} cannot be read: {reason}; a stencil is a Python file, such as "
            "kernels/stencils/jacobi2d_5pt.py"
        ) from None
    definition = Definition(path.stem, path, text, _load(path))
    for name in ("expression", "reference"):
        definition.function(name)
    return definition


def _load(path: Path) -> ModuleType:
    try:
        module = load_module(path, "harness_stencil")
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}"
        raise StencilError(f"{_where(error, path)}: {reason}") from error
    if module is None:
        raise UsageError(f"{path} is not a Python file: its name must end in .py")
    return module


def _where(error: BaseException, path: Path) -> str:
    """Name the file, with the line that raised the error."""
    # Python's frames hold absolute paths.
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename) == path.absolute()]
    return f"{path}:{lines[-1]}" if lines else str(path)
