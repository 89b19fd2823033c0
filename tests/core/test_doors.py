"""One library, one door: who may import what; and how large a module may grow."""

import re
import subprocess
import sys

import pytest

from tests import ROOT

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
    "pynvml": ("harness/measure/sensors/nvml.py",),
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


MODULES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "harness").rglob("*.py"))
}
"""The text of each module. Statements begin a line, which ruff checks: no parser is needed."""


def _imported(text):
    """The top-level names of everything that a module imports, in functions too."""
    statements = re.findall(r"^ *(?:from|import) (\w+)", text, re.MULTILINE)
    return {*statements, *re.findall(r"importlib\.import_module\(f?[\"'](\w+)", text)}


def test_a_library_is_imported_through_its_door_alone():
    imported = {module: _imported(text) for module, text in MODULES.items()}
    for library, doors in DOORS.items():
        users = [module for module, names in imported.items() if library in names]
        assert users, f"nothing imports {library}: it has no place in this list"
        assert all(user.startswith(doors) for user in users), library


# What no import of a module may load: GPU stacks, and what takes a second or more.
HEAVY = "dask distributed pyopencl pycuda cuda pynvml torch matplotlib sklearn pandas"
# The loaders are copied into dispatchers, and a predictor is imported where it is asked for.
EXEMPT = ("harness/dispatch/loaders/", "harness/stencil/predicted.py")


def test_what_is_slow_to_load_is_imported_where_it_is_used():
    for module, text in MODULES.items():
        if not module.startswith(EXEMPT):
            at_once = re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE)
            assert not set(HEAVY.split()) & set(at_once), module


@pytest.mark.slow
def test_importing_a_module_loads_nothing_that_it_needs_not():
    heavy = {"harness.search", "opentuner", "scipy.optimize"}
    more = {"pyopencl", "sklearn", "sqlalchemy", "tree_sitter"}
    code = (
        f"import sys, harness.commands.check; print({heavy | more} & set(sys.modules));"
        f"import harness.report.page; print({heavy} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "set()\nset()\n", done.stderr


def test_every_folder_with_modules_is_a_package():
    """import-linter does not see a folder without `__init__.py`, and a wheel leaves it out."""
    folders = {module.rpartition("/")[0] for module in MODULES}
    assert {f"{folder}/__init__.py" for folder in folders} <= MODULES.keys()


def test_the_path_of_tune_in_contributing_names_files_that_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    path = text.partition("## Where to begin")[2].partition("## The rooms")[0]
    named = re.findall(r"`(?:harness/)?(\w[\w/]*\.py)`", path)
    assert len(named) > 20
    assert {f"harness/{name}" for name in named} <= MODULES.keys()


def test_a_class_name_has_one_meaning():
    folder_of = {}
    for module, text in MODULES.items():
        folder = module.rpartition("/")[0]
        for name in re.findall(r"^ *class _*(\w+)[(:]", text, re.MULTILINE):
            # The two loaders of dispatched kernels, in one folder, share the name `Kernel`.
            assert folder_of.setdefault(name, folder) == folder, f"{module}: {name}"


def test_no_module_evaluates_or_unpickles():
    called = {
        module: set(re.findall(r"(?<![\w.])(eval|exec)\(\w", text)) | _imported(text) & {"pickle"}
        for module, text in MODULES.items()
    }
    assert {module: names for module, names in called.items() if names} == {
        # It evaluates syntax trees that it has checked (tests/dispatch/test_dispatch_code.py).
        "harness/dispatch/loaders/expressions.py": {"eval"},
        # It finds nothing but stand-ins (tests/core/test_plain_pickle.py).
        "harness/core/plain_pickle.py": {"pickle"},
    }
