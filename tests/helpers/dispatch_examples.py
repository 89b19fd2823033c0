"""Dispatchers to write: drawn ones, and a small one of mvmul; and how written code is called."""

import importlib.util
import itertools
import math
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from harness.core.records import Config, Environment
from harness.dispatch.choice import Choice, CostTree, DispatchProgram, Leaf, Split
from harness.dispatch.dispatcher import Dispatcher, Provenance
from harness.dispatch.features import Feature, Type, features_of
from harness.dispatch.package import cuda_kernels, files_of, opencl_kernels, write_dispatcher
from harness.dispatch.package import dispatcher_of as dispatcher_for
from harness.measure.cuda.bindings import BindingsDriver
from harness.measure.cuda.nvrtc import Nvrtc
from harness.measure.opencl.device import OpenClDevice
from harness.measure.opencl.driver import usable_devices
from harness.models.columns import Column, ColumnKind, LinearTerm, TunedRange, column_values

STRICT = ("-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Werror")

FEATURES = (
    Feature("m", Type.WHOLE),
    Feature("n", Type.WHOLE),
    Feature("s", Type.REAL),
    Feature("t", Type.WORD, ("half", "float")),
)
COLUMNS = (
    Column(ColumnKind.RAW, ("m",)),
    Column(ColumnKind.RAW, ("s",)),
    Column(ColumnKind.PRODUCT, ("m", "n", "s")),
    Column(ColumnKind.RATIO, ("m", "n")),
    Column(ColumnKind.RATIO, ("n", "s")),  # s may be zero
    Column(ColumnKind.EQUALS, ("t",), "half"),
    Column(ColumnKind.EQUALS, ("n",), 7),
    Column(ColumnKind.TWOS, ("m",)),
    Column(
        ColumnKind.LINEAR,
        ("m", "s"),
        constant=-0.1,
        terms=(LinearTerm("m", 0.7), LinearTerm("s", -1e3), LinearTerm("m", 0.3, is_log=True)),
    ),
)

GUARDS = (
    "A <= m",
    "m % A == n // B",
    "-m // A < -n % B",
    "ceil_div(m * n, A) >= B and s < 3",
    "min(m, n, A * B) > 9 or not n < m",
    "s * A + 0.1 * m <= n / A",
    "m if n > A else n in [1, 7, B]",
    "abs(m - n) ** 2 > A * B",
    "sqrt(m) * sqrt(A) < n",
    'A < m <= n < 5000 or t == "half"',
    "t in [WORD] and max(s, m / B) >= 1.5",
    "floor(s * A) - ceil(m / B) < n",
    "n % (m + A) > (m > n) * B",
)

PROVENANCE = Provenance(
    Environment("opencl", "a device, 2 compute units", "a platform", "3.0", "a compiler"),
    program_sha256="ab" * 32,
    databases=("results/one.db",),
    inputs=12,
    choice="tree, seed 0",
    date="2026-01-31",
    verdict=("| dispatcher  | 1.05 |", "| best static | 1.35 |"),
)

CUDA = Environment("cuda", "Stand-in GPU", "CUDA 13.0", "580", "nvrtc 13.0 sm_90")


def drawn_input(rng):
    """In or around the tuned range."""
    return {
        "m": rng.choice((rng.randint(1, 40), rng.randint(-2, 5000))),
        "n": rng.choice((rng.randint(1, 40), 7, rng.randint(0, 5000))),
        "s": rng.choice((rng.uniform(0, 4), float(rng.randint(0, 3)))),
        "t": rng.choice(("half", "float", "other")),
    }


SHAPES = (
    ("tree", 6),
    ("tree", 90),
    ("ensemble", 9),
    ("ensemble", 50),
    ("ensemble", 90),
    ("tree", 30),
    ("forest", 20),
)
"""What chooses, and with how many leaves: each is written in another way."""


def drawn_program(rng, inputs, kind, leaves):
    """Its thresholds lie on the columns' values for the inputs, or next to those."""
    count = rng.randint(2, 4)
    orders = list(itertools.permutations(range(count)))
    numbers = [rng.choice((0.1, 0.2, 0.3, rng.gauss(0, 1))) for _ in range(9)]
    near = [_finite_numbers(column, inputs) for column in COLUMNS]
    if kind == "tree":
        endings = [Leaf(tuple(map(float, order)), 2) for order in [*orders, (0,) * count]]
        choice = Choice.of_trees([_tree(rng, near, leaves, endings)], predicts_times=False)
    elif kind == "forest":
        costs = [Leaf(tuple(rng.choices(numbers, k=count))) for _ in range(9)]
        roots = [_tree(rng, near, leaves, costs) for _ in range(8)]
        choice = Choice.of_trees(roots, predicts_times=True)
    else:
        values = [Leaf((number,)) for number in numbers]
        trees = [
            CostTree(_tree(rng, near, rng.choice((1, leaves)), values), index)
            for index in range(count)
            for _ in range(8)
        ]
        offsets = tuple(rng.random() for _ in range(count))
        choice = Choice(offsets, tuple(trees), predicts_times=True)
    guards = tuple(
        tuple(rng.sample(GUARDS, rng.choice((0, 1, 2)))) if rng.random() < 0.7 else ()
        for _ in range(count)
    )
    columns, choice = choice.with_used_columns(COLUMNS)
    return DispatchProgram(
        columns=columns,
        tuned=(
            TunedRange("m", 2, 4500),
            TunedRange("n", 1, 4321),
            TunedRange("s", 0, 3.5),
            TunedRange("t", words=("half", "float")),
        ),
        portfolio=tuple(
            Config({"A": 2**index, "B": 3 + index, "WORD": "half"}) for index in range(count)
        ),
        choice=choice,
        guards=guards,
    )


def _finite_numbers(column, inputs):
    numbers = (column_number(column, given) for given in inputs)
    return [number for number in numbers if math.isfinite(number)]


def _tree(rng, near, leaves, endings):
    """Draw a tree whose thresholds are on and beside the numbers `near` of each column."""
    if leaves == 1:
        return rng.choice(endings)
    index = rng.randrange(len(COLUMNS))
    number = rng.choice(near[index])
    threshold = rng.choice((number, math.nextafter(number, math.inf), number - 0.5))
    # Mostly chains: deep trees are written as tables.
    low = leaves - 1 if rng.random() < 0.95 else max(leaves // 2, 1)
    return Split(
        index, threshold, _tree(rng, near, low, endings), _tree(rng, near, leaves - low, endings)
    )


def column_number(column, features):
    """The number of one input."""
    first = features[column.features[0]]
    if column.kind is ColumnKind.EQUALS:
        return float(first == column.word)
    if column.kind is ColumnKind.LINEAR:
        return float(column_values([column], pd.DataFrame([features]))[0, 0])
    numbers = [features[name] for name in column.features]
    assert all(isinstance(number, (int, float)) for number in numbers)
    if column.kind is ColumnKind.TWOS:
        whole = int(first)
        return float(whole & -whole)
    if column.kind is ColumnKind.RATIO:
        return _ratio(*map(float, numbers))
    return math.prod(map(float, numbers))


def _ratio(dividend, divisor):
    """Divide as C does; Python raises an error for a division by zero."""
    if divisor != 0:
        return dividend / divisor
    if dividend == 0 or math.isnan(dividend):
        return math.nan
    return math.copysign(math.inf, dividend) * math.copysign(1.0, divisor)


def order_of(program, features):
    """The candidates for an input, best first."""
    if not all(tuned.holds(features[tuned.feature]) for tuned in program.tuned):
        return range(len(program.portfolio))
    costs = costs_of(program, features)
    return sorted(range(len(costs)), key=costs.__getitem__)


def costs_of(program, features):
    """The cost of each candidate for an input."""
    numbers = [column_number(column, features) for column in program.columns]
    costs = list(program.choice.offsets)
    for tree in program.choice.trees:
        node = tree.root
        while isinstance(node, Split):
            node = node.low if numbers[node.column] <= node.threshold else node.high
        for index, cost in enumerate(node.costs, start=tree.candidate or 0):
            costs[index] += cost
    return costs


def dispatcher_of(program, name, **others):
    """A dispatcher over FEATURES."""
    printed = {"title": "an example", "functions": ("f",), "provenance": PROVENANCE, **others}
    return Dispatcher(name=name, features=FEATURES, program=program, **printed)


def mvmul_program(guards=((), (), ())):
    """Three configurations of mvmul and a tree of three leaves."""
    configs = [(64, 1, 0), (16, 1, 0), (64, 2, 0)]
    tall = Split(1, 0.75, Leaf((1.0, 2.0, 0.0), 5), Leaf((0.0, 1.0, 2.0), 1))
    return DispatchProgram(
        columns=(Column(ColumnKind.RAW, ("m",)), Column(ColumnKind.RATIO, ("m", "n"))),
        tuned=(TunedRange("m", 16, 65536), TunedRange("n", 16, 65536)),
        portfolio=tuple(Config({"THRD": a, "LU": b, "X_CACHE": c}) for a, b, c in configs),
        choice=Choice.of_trees([Split(0, 96.5, Leaf((1.0, 0.0, 2.0), 4), tall)], False),
        guards=guards,
    )


def mvmul_features(program):
    """Two whole numbers."""
    return features_of(program, ("m", "n"), ({"m": 16, "n": 16},))


def python_of(dispatcher):
    """The written module."""
    with tempfile.TemporaryDirectory() as name:
        return imported(write_all(Path(name), files_of(dispatcher)), dispatcher.name)


def write_all(folder, files):
    """Write files into a folder; return it."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def imported(folder, name="mvmul"):
    """The package of this name in a folder, under a name of its own."""
    place = folder / name / "__init__.py"
    alias = f"written_{abs(hash(str(folder)))}"
    spec = importlib.util.spec_from_file_location(
        alias, place, submodule_search_locations=[str(place.parent)]
    )
    module = sys.modules[alias] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_for_opencl(folder, spec, program):
    """Write a dispatcher for the OpenCL device that is here."""
    device = OpenClDevice(usable_devices()[0])
    where = replace(PROVENANCE, environment=device.environment("a compiler"))
    kernels, limits = opencl_kernels(spec, program), device.limits.names()
    write_dispatcher(folder, dispatcher_for(program, spec, where, kernels, limits))


_CUBINS = {}


def shaped_50_by_300():
    """Return a matrix, a vector, and one for their product, which is 600 everywhere."""
    return [np.ones((50, 300), "f4"), np.full(300, 2, "f4"), np.zeros(50, "f4")]


def write_for_cuda(folder, spec, program):
    """Write a dispatcher for the stand-in GPU; return its kernels."""
    key = spec.path, program.portfolio
    if key not in _CUBINS:
        _CUBINS[key] = cuda_kernels(spec, program, Nvrtc("sm_90").compile)
    where = replace(PROVENANCE, environment=CUDA)
    write_dispatcher(folder, dispatcher_for(program, spec, where, _CUBINS[key]))
    return _CUBINS[key]


@contextmanager
def memories_of(*arrays):
    """Memories of CUDA Python that hold arrays; in the end the last array is read."""
    driver = BindingsDriver()
    driver.open(0)
    memories = [driver.allocate(array.nbytes) for array in arrays]
    for memory, array in zip(memories[:-1], arrays, strict=False):
        driver.write(memory, array)
    pointer = importlib.import_module("cuda.bindings.driver").CUdeviceptr
    yield [pointer(memory) for memory in memories]
    driver.read(arrays[-1], memories[-1])


def product(queue, kernel, m, n):
    """A x with ones, on OpenCL: every element is n."""
    import pyopencl as cl

    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    arrays = (np.ones(size, np.float32) for size in (m * n, n, m))
    a, x, y = (cl.Buffer(queue.context, flags, hostbuf=array) for array in arrays)
    found = np.empty(m, np.float32)
    kernel(queue, a, x, y, np.int32(m), np.int32(n), m=m, n=n)
    cl.enqueue_copy(queue, found, y)
    return found
