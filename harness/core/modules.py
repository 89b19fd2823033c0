"""Load a person's Python file as a module."""

from __future__ import annotations

import importlib.util
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
