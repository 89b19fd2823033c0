"""One library, one door: who may import what; and how large a module may grow."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOORS = {
    "opentuner": ("harness/search/",),
    "sqlalchemy": ("harness/results/", "harness/search/"),
    "yaml": ("harness/space_file/",),
    # Files are validated: spaces, catalogues of compiler flags, mappings, and JSON recordings.
    # The documents of --json have their schemas from it, and what is stored as JSON its shapes.
    "pydantic": (
        "harness/space_file/",
        "harness/recordings/csv_mapping.py",
        "harness/recordings/json_file.py",
        "harness/results/",
        "harness/api/documents.py",
    ),
    "pydantic_core": (
        "harness/space_file/",
        "harness/core/records.py",
        "harness/results/inserting.py",
    ),
    "distributed": ("harness/fleet/cluster.py",),
    "dask": ("harness/fleet/cluster.py",),
    "pyopencl": (
        "harness/measure/opencl/driver.py",
        "harness/dispatch/loaders/opencl.py",
        "harness/dispatch/loaders/torch_op.py",
    ),
    "torch": ("harness/dispatch/loaders/torch_op.py", "harness/measure/python/frameworks.py"),
    "cupy": ("harness/measure/python/frameworks.py",),
    "warp": ("harness/measure/python/frameworks.py",),
    "pycuda": ("harness/measure/cuda/pycuda.py",),
    # NVIDIA's cuda-bindings, `import cuda.bindings`: the driver, and the compiler NVRTC.
    "cuda": (
        "harness/measure/cuda/bindings.py",
        "harness/measure/cuda/nvrtc.py",
        "harness/measure/cuda/nvcc.py",
        "harness/dispatch/loaders/cuda.py",
    ),
    "pynvml": ("harness/measure/nvml.py",),
    "sklearn": (
        "harness/models/",
        "harness/dispatch/",
        "harness/stencil/predicted.py",
        "harness/analysis/bits.py",
    ),
    "jinja2": ("harness/core/text.py", "harness/dispatch/c_code.py", "harness/report/page.py"),
    "matplotlib": ("harness/models/starchart/reading.py", "harness/report/plots.py"),
    "joblib": ("harness/core/cache.py",),
    "rich": ("harness/commands/", "harness/compare/", "harness/display/"),
    "filelock": ("harness/core/locks.py",),
    "platformdirs": ("harness/core/files.py",),
    "tree_sitter": ("harness/source/syntax_tree.py",),
    "tree_sitter_cuda": ("harness/source/syntax_tree.py",),
}


def _modules() -> list[Path]:
    return sorted((ROOT / "harness").rglob("*.py"))


@functools.cache
def _nodes(path: Path) -> tuple[ast.AST, ...]:
    """All of a file's code."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@functools.cache
def _imports(path: Path) -> frozenset[str]:
    """The top-level names of everything that a file imports, at any depth of its code."""
    return frozenset(_imported(_nodes(path)))


def _imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.split(".")[0]
        elif isinstance(node, ast.Call) and _is_import_module(node.func):
            yield ast.unparse(node.args[0]).lstrip("f").strip("'\"").split(".")[0]


def _is_import_module(called: ast.expr) -> bool:
    return (
        isinstance(called, ast.Attribute)
        and called.attr == "import_module"
        and ast.unparse(called) == "importlib.import_module"
    )


@pytest.mark.parametrize("library", DOORS)
def test_a_library_is_imported_through_its_door_alone(library: str) -> None:
    users = [path.relative_to(ROOT).as_posix() for path in _modules() if library in _imports(path)]
    assert users, f"nothing imports {library}: it has no place in this list"
    assert all(user.startswith(DOORS[library]) for user in users)


# What no import of a module may load: GPU stacks, and what takes a second or more.
LOADED_ON_USE = {
    *("dask", "distributed", "pyopencl", "pycuda", "cuda", "pynvml", "torch"),
    *("matplotlib", "sklearn", "pandas"),
}
# The loaders are copied into dispatchers, and a predictor is imported where it is asked for.
EXEMPT = ("harness/dispatch/loaders/", "harness/stencil/predicted.py")


def test_what_is_slow_to_load_is_imported_where_it_is_used() -> None:
    for path in _modules():
        if not path.relative_to(ROOT).as_posix().startswith(EXEMPT):
            at_once = ast.parse(path.read_text(encoding="utf-8")).body
            assert not LOADED_ON_USE & set(_imported(at_once)), path


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("commands.check", {"pyopencl", "opentuner", "sklearn", "sqlalchemy", "tree_sitter"}),
        ("report.page", {"harness.search", "opentuner", "scipy.optimize"}),
    ],
)
def test_importing_a_module_loads_nothing_that_it_needs_not(module: str, heavy: set[str]) -> None:
    code = f"import sys, harness.{module}; print(*{heavy!r} & sys.modules.keys())"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "\n"


def test_every_folder_with_modules_is_a_package() -> None:
    """import-linter does not see a folder without `__init__.py`, and a wheel leaves it out."""
    folders = {path.parent for path in _modules()}
    assert [folder for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_the_path_of_tune_in_contributing_names_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    path = text.partition("## Where to begin")[2].partition("## The rooms")[0]
    named = re.findall(r"`(?:harness/)?(\w[\w/]*\.py)`", path)
    assert len(named) > 20
    assert [name for name in named if not (ROOT / "harness" / name).is_file()] == []


def test_a_class_name_has_one_meaning() -> None:
    folders_of: dict[str, set[Path]] = {}
    for path in _modules():
        for node in _nodes(path):
            if isinstance(node, ast.ClassDef):
                folders_of.setdefault(node.name.lstrip("_"), set()).add(path.parent)
    # The two loaders of dispatched kernels, side by side in one folder, share the name `Kernel`.
    assert [name for name, folders in folders_of.items() if len(folders) > 1] == []


def test_no_module_evaluates_or_unpickles() -> None:
    banned = {"eval", "exec", "pickle"}
    # It makes an unpickler that finds no code.
    for path in (module for module in _modules() if module.name != "plain_pickle.py"):
        called = {
            n.func.id
            for n in _nodes(path)
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
        }
        # It finds nothing but stand-ins (tests/core/test_plain_pickle.py).
        allowed = {"pickle"} if path.name == "plain_pickle.py" else set()
        # It evaluates syntax trees that it has checked (tests/dispatch/test_dispatch_code.py).
        allowed |= {"eval"} if path.match("dispatch/loaders/expressions.py") else set()
        assert not (banned - allowed) & (called | _imports(path)), path
