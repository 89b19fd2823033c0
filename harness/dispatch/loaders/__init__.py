"""Modules that launch a dispatched kernel or program: copied next to the code that chooses.

Harness may be absent where they run. So what they import of it needs nothing but Python, and is
copied too, as a module beside them.
"""

from __future__ import annotations

import inspect
from pathlib import Path

from harness.dispatch.loaders import trying
from harness.measure.opencl import pocl_cpu

_BESIDE = {"opencl": (pocl_cpu, trying), "cuda": (trying,), "command": ()}


def counter_file() -> dict[str, bytes]:
    """Return the content of what counts the calls of any dispatcher, by its name."""
    return {"_workload.py": Path(__file__).with_name("workload.py").read_bytes()}


def loader_files(backend: str) -> dict[str, bytes]:
    """Return the content of a backend's loader and of what it imports, by their names."""
    loader = Path(__file__).with_name(f"{backend}.py").read_text(encoding="utf-8")
    files: dict[str, bytes] = {}
    for module in _BESIDE[backend]:
        path = Path(inspect.getfile(module))
        loader = loader.replace(f"from {module.__name__} import", f"from ._{path.stem} import")
        files[f"_{path.name}"] = path.read_bytes()
    return {f"_{backend}.py": loader.encode(), **files}


def torch_files(name: str) -> dict[str, bytes]:
    """Return the content of the file that makes operators of PyTorch, by its path."""
    return {f"{name}/torch_op.py": Path(__file__).with_name("torch_op.py").read_bytes()}
