"""Load a person's Python file as a module."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType


def load_module(path: Path, prefix: str) -> ModuleType | None:
    """Load a Python file as a module named after `prefix` and the file.

    Returns None where the file's name does not end in .py. Raises whatever the file's code
    raises, SystemExit included.
    """
    spec = importlib.util.spec_from_file_location(f"{prefix}_{path.stem}", path)
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their own module up by its name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def forget_siblings(path: Path) -> None:
    """Forget the modules that lie beside a file, so that another file imports its own of that name.

    What already holds them keeps them.
    """
    folder = os.path.abspath(path.parent)
    beside = {
        name.partition(".")[0]
        for name, module in sys.modules.items()
        if _folder_of(module) == folder and name.partition(".")[0] != "harness"
    }
    for name in [name for name in sys.modules if name.partition(".")[0] in beside]:
        del sys.modules[name]


def _folder_of(module: ModuleType) -> str | None:
    """Return the folder of a module's file, or that of a package's folder."""
    file: str | None = getattr(module, "__file__", None)
    if not file:
        return None
    folder, name = os.path.split(os.path.abspath(file))
    return os.path.dirname(folder) if name == "__init__.py" else folder
