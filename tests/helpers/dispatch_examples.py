"""Dispatchers to write: drawn ones, and a small one of mvmul; and how written code is called."""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import math
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harness.constraints.expression import Expression
from harness.core.records import Config, Environment, Value
from harness.dispatch.choice import Choice, CostTree, DispatchProgram, Leaf, Node, Split
from harness.dispatch.dispatcher import Dispatcher, Provenance
from harness.dispatch.features import Feature, Type, features_of
from harness.dispatch.package import (
    KernelFile,
    cuda_kernels,
    files_of,
    opencl_kernels,
    write_dispatcher,
)
from harness.dispatch.package import dispatcher_of as dispatcher_for
from harness.measure.cuda.bindings import BindingsDriver
from harness.measure.cuda.nvrtc import Nvrtc
from harness.measure.opencl.device import OpenClDevice
from harness.measure.opencl.driver import usable_devices
from harness.models.columns import Column, ColumnKind, LinearTerm, TunedRange, column_values
from harness.space_file import Spec

STRICT = ("-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Werror")

FEATURES = (
    Feature("m", Type.WHOLE),
    Feature("n", Type.WHOLE),
    Feature("s", Type.REAL),
    Feature("t", Type.WORD, ("half", "float")),
)
_C_TYPES = (ctypes.c_int64, ctypes.c_int64, ctypes.c_double, ctypes.c_int)

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


def drawn_input(rng: random.Random) -> dict[str, Value]:
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


def drawn_program(
    rng: random.Random, inputs: Sequence[Mapping[str, Value]], kind: str, leaves: int
) -> DispatchProgram:
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


def _finite_numbers(column: Column, inputs: Sequence[Mapping[str, Value]]) -> list[float]:
    numbers = (column_number(column, given) for given in inputs)
    return [number for number in numbers if math.isfinite(number)]


def _tree(
    rng: random.Random, near: Sequence[Sequence[float]], leaves: int, endings: Sequence[Leaf]
) -> Node:
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


def column_number(column: Column, features: Mapping[str, Value]) -> float:
    """The number of one input."""
    first = features[column.features[0]]
    if column.kind is ColumnKind.EQUALS:
        return float(first == column.word)
    if column.kind is ColumnKind.LINEAR:
        return float(column_values([column], pd.DataFrame([features]))[0, 0])
    numbers = [features[name] for name in column.features]
    assert all(isinstance(number, (int, float)) for number in numbers)
    if column.kind is ColumnKind.TWOS:
        whole = int(first)  # type: ignore[arg-type]
        return float(whole & -whole)
    if column.kind is ColumnKind.RATIO:
        return _ratio(*map(float, numbers))  # type: ignore[arg-type]
    return math.prod(map(float, numbers))  # type: ignore[arg-type]


def _ratio(dividend: float, divisor: float) -> float:
    """Divide as C does; Python raises an error for a division by zero."""
    if divisor != 0:
        return dividend / divisor
    if dividend == 0 or math.isnan(dividend):
        return math.nan
    return math.copysign(math.inf, dividend) * math.copysign(1.0, divisor)


def order_of(program: DispatchProgram, features: Mapping[str, Value]) -> Sequence[int]:
    """The candidates for an input, best first."""
    if not all(tuned.holds(features[tuned.feature]) for tuned in program.tuned):
        return range(len(program.portfolio))
    costs = _costs(program, features)
    return sorted(range(len(costs)), key=costs.__getitem__)


def _costs(program: DispatchProgram, features: Mapping[str, Value]) -> list[float]:
    numbers = [column_number(column, features) for column in program.columns]
    costs = list(program.choice.offsets)
    for tree in program.choice.trees:
        node = tree.root
        while isinstance(node, Split):
            node = node.low if numbers[node.column] <= node.threshold else node.high
        for index, cost in enumerate(node.costs, start=tree.candidate or 0):
            costs[index] += cost
    return costs


def selected(program: DispatchProgram, features: Mapping[str, Value]) -> int | None:
    """The first of an input's order that applies, else the first of the portfolio that does; None
    if none does: what written code must return."""
    among = applying(program, features)
    return next((index for index in order_of(program, features) if index in among), None)


def listed(
    program: DispatchProgram, features: Mapping[str, Value], most: int, among: Sequence[int]
) -> list[int]:
    """The candidates that are worth a try, of those that apply: what written code must list."""
    costs = _costs(program, features)
    least = min((costs[index] for index in among), default=0.0)
    worth = [i for i in sorted(among, key=costs.__getitem__) if costs[i] - least <= math.log(2.0)]
    if not all(tuned.holds(features[tuned.feature]) for tuned in program.tuned):
        worth = [*among[:1], *worth]
    return list(dict.fromkeys(worth))[:most]


def applying(program: DispatchProgram, features: Mapping[str, Value]) -> list[int]:
    """The candidates whose guards hold."""
    return [
        index
        for index, guards in enumerate(program.guards)
        if all(_parsed(guard).holds({**program.portfolio[index], **features}) for guard in guards)
    ]


@lru_cache(maxsize=1024)
def _parsed(guard: str) -> Expression:
    return Expression(guard)


def dispatcher_of(program: DispatchProgram, name: str, **others: Any) -> Dispatcher:
    """A dispatcher over FEATURES."""
    printed = {"title": "an example", "functions": ("f",), "provenance": PROVENANCE, **others}
    return Dispatcher(name=name, features=FEATURES, program=program, **printed)


def mvmul_program(guards: tuple[tuple[str, ...], ...] = ((), (), ())) -> DispatchProgram:
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


def mvmul_features(program: DispatchProgram) -> tuple[Feature, ...]:
    """Two whole numbers."""
    return features_of(program, ("m", "n"), ({"m": 16, "n": 16},))


def python_of(dispatcher: Dispatcher) -> Any:
    """The written module."""
    with tempfile.TemporaryDirectory() as name:
        return imported(write_all(Path(name), files_of(dispatcher)), dispatcher.name)


def write_all(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write files into a folder; return it."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def imported(folder: Path, name: str = "mvmul") -> Any:
    """The package of this name in a folder, under a name of its own."""
    place = folder / name / "__init__.py"
    alias = f"written_{abs(hash(str(folder)))}"
    spec = importlib.util.spec_from_file_location(
        alias, place, submodule_search_locations=[str(place.parent)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[alias] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_for_opencl(folder: Path, spec: Spec, program: DispatchProgram) -> None:
    """Write a dispatcher for the OpenCL device that is here."""
    device = OpenClDevice(usable_devices()[0])
    where = replace(PROVENANCE, environment=device.environment("a compiler"))
    kernels, limits = opencl_kernels(spec, program), device.limits.names()
    write_dispatcher(folder, dispatcher_for(program, spec, where, kernels, limits))


_CUBINS: dict[tuple[Path, tuple[Config, ...]], tuple[KernelFile, ...]] = {}


def write_for_cuda(folder: Path, spec: Spec, program: DispatchProgram) -> tuple[KernelFile, ...]:
    """Write a dispatcher for the stand-in GPU; return its kernels."""
    key = spec.path, program.portfolio
    if key not in _CUBINS:
        _CUBINS[key] = cuda_kernels(spec, program, Nvrtc("sm_90").compile)
    where = replace(PROVENANCE, environment=CUDA)
    write_dispatcher(folder, dispatcher_for(program, spec, where, _CUBINS[key]))
    return _CUBINS[key]


@contextmanager
def memories_of(*arrays: np.ndarray[Any, Any]) -> Iterator[list[Any]]:
    """Memories of CUDA Python that hold arrays; in the end the last array is read."""
    driver = BindingsDriver()
    driver.open(0)
    memories = [driver.allocate(array.nbytes) for array in arrays]
    for memory, array in zip(memories[:-1], arrays, strict=False):
        driver.write(int(memory), array)
    yield memories
    driver.read(arrays[-1], int(memories[-1]))


def product(queue: Any, kernel: Any, m: int, n: int) -> np.ndarray[Any, Any]:
    """A x with ones, on OpenCL: every element is n."""
    import pyopencl as cl

    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    arrays = (np.ones(size, np.float32) for size in (m * n, n, m))
    a, x, y = (cl.Buffer(queue.context, flags, hostbuf=array) for array in arrays)
    found = np.empty(m, np.float32)
    kernel(queue, a, x, y, np.int32(m), np.int32(n), m=m, n=n)
    cl.enqueue_copy(queue, found, y)
    return found


def compiled(folder: Path, headers: Mapping[str, str], compiler: Sequence[str]) -> Any:
    """A library with the functions of the headers' dispatchers, over FEATURES, by ctypes."""
    lines = ["#ifdef __cplusplus", 'extern "C" {', "#endif"]
    for name, text in headers.items():
        (folder / f"{name}.h").write_text(text)
        given = f"int64_t m, int64_t n, double s, enum {name}_t t"
        lines += [
            f'#include "{name}.h"',
            f"int top_{name}(int *top, int most, {given});" * _has_top(name, text),
            f"int select_{name}({given}); int applies_{name}(int index, {given});",
            f"int select_{name}({given}) {{ return {name}_select(m, n, s, t); }}",
            f"int top_{name}(int *top, int most, {given}) "
            f"{{ return {name}_select_top(top, most, m, n, s, t); }}" * _has_top(name, text),
            f"int applies_{name}(int index, {given}) "
            f"{{ return {name}_applies(index, m, n, s, t); }}",
        ]
    lines += ["#ifdef __cplusplus", "}", "#endif"]
    (folder / "all.c").write_text("\n".join(lines) + "\n")
    library = folder / "all.so"
    command = [*compiler, *STRICT, "-shared", "-fPIC", "all.c", "-o", str(library), "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = ctypes.CDLL(str(library))
    for name in headers:
        getattr(loaded, f"select_{name}").argtypes = _C_TYPES
        if _has_top(name, headers[name]):
            getattr(loaded, f"top_{name}").argtypes = (
                ctypes.POINTER(ctypes.c_int),
                ctypes.c_int,
                *_C_TYPES,
            )
        getattr(loaded, f"applies_{name}").argtypes = (ctypes.c_int, *_C_TYPES)
    return loaded


def _has_top(name: str, header: str) -> bool:
    return f"{name}_select_top(" in header


def top_of(
    library: Any, dispatcher: Dispatcher, values: Mapping[str, Value], most: int
) -> list[int]:
    """What the header lists, of up to so many."""
    found = (ctypes.c_int * most)() if most > 0 else None
    top = getattr(library, f"top_{dispatcher.name}")
    count = top(found, most, *c_arguments(dispatcher, values))
    return list(found[:count]) if found else []


def c_arguments(dispatcher: Dispatcher, given: Mapping[str, Value]) -> tuple[Any, ...]:
    """An input as the C functions take it: a word is its index, that of others behind them."""
    words = dispatcher.feature("t").words
    word = words.index(str(given["t"])) if given["t"] in words else len(words)
    return given["m"], given["n"], given["s"], word
