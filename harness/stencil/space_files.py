"""Variants -> a folder that is a space: YAML, kernels, host module, and the points' features.

Each variant is a file of its own, in which the group sizes choose the kernel; the space's source
includes the one that VARIANT names, so that a build reads no other.
"""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.stencil.definition import Definition
from harness.stencil.emit import DIALECTS, Dialect, emit
from harness.stencil.explore import Variant, design
from harness.stencil.features import FEATURES, features
from harness.stencil.ir import show
from harness.stencil.lower import parallel_extents
from harness.stencil.ndrange import Threads
from harness.stencil.types import Array, Type

MOST_VARIANTS = 1000
"""A space has no more constraints."""


def files(definition: Definition, size: int, variants: Sequence[Variant]) -> dict[Path, str]:
    """The folder's files by path within it."""
    made = _Space(definition, size, variants)
    name = definition.name
    written = {Path(f"{name}.yaml"): made.yaml(), Path(f"{name}.py"): made.host()}
    for dialect in DIALECTS:
        written[Path(name + dialect.suffix)] = made.chooser(dialect)
        for number, variant in enumerate(variants):
            written[made.variant_path(number, dialect)] = made.variant(number, variant, dialect)
    written[Path(f"{name}.features.csv")] = made.features()
    return written


def function_name(definition: Definition) -> str:
    """The kernel's name; that of the stencil itself may be a function's of its own."""
    return f"{definition.name}_kernel"


class _Space:
    def __init__(self, definition: Definition, size: int, variants: Sequence[Variant]) -> None:
        self._definition = definition
        self._size = size
        self._variants = variants
        used = [t.local for v in variants for t in v.kernels]
        self._axes = [0] + [axis for axis in (1, 2) if any(local[axis] > 1 for local in used)]

    # ---------------------------------------------------------------- sources

    def variant_path(self, number: int, dialect: Dialect) -> Path:
        return Path("variants") / f"{self._definition.name}_{number}{dialect.suffix}"

    def chooser(self, dialect: Dialect) -> str:
        names = ", ".join(self._launch_names())
        lines = [f"/* {self._definition.name}, {self._size} x {self._size}: one of its variants,"]
        lines += [f" * launched as {names} say. */"]
        lines += [f"#ifndef LOCAL_{d}\n#define LOCAL_{d} 1\n#endif" for d in "XYZ"]
        for number in range(len(self._variants)):
            lines += [f"#{'elif' if number else 'if'} VARIANT == {number}"]
            lines += [f'#include "{self.variant_path(number, dialect).as_posix()}"']
        return "\n".join([*lines, "#endif", ""])

    def variant(self, number: int, variant: Variant, dialect: Dialect) -> str:
        """A comment with the expression, and the kernels; each for its group sizes."""
        texts: dict[str, list[Threads]] = {}
        for threads, kernel in variant.kernels.items():
            texts.setdefault(emit(kernel, dialect), []).append(threads)
        told = textwrap.wrap(show(variant.expression), 95, break_long_words=False)
        head = [f"/* Variant {number}:", *(f" * {line}" for line in told), " */"]
        if len(texts) == 1:
            return "\n".join([*head, *texts])
        # The kernel that most launches share needs no condition.
        *others, usual = sorted(texts, key=lambda text: len(texts[text]))
        for place, text in enumerate(others):
            condition = " || \\\n    ".join(self._condition(t) for t in texts[text])
            head += [f"#{'elif' if place else 'if'} {condition}", text]
        return "\n".join([*head, "#else", usual, "#endif", ""])

    def _condition(self, threads: Threads) -> str:
        values = zip(self._launch_names(), self._launch_values(threads), strict=True)
        return " && ".join(f"{name} == {value}" for name, value in values)

    # ------------------------------------------------------------------- YAML

    def _launch_names(self) -> list[str]:
        return [*(f"LOCAL_{'XYZ'[axis]}" for axis in self._axes), "COARSENING"]

    def _launch_values(self, threads: Threads) -> list[int]:
        return [*(threads.local[axis] for axis in self._axes), threads.coarsening]

    def yaml(self) -> str:
        name, variants = self._definition.name, self._variants
        points = sum(len(v.kernels) for v in variants)
        title = f"{name}, {self._size} x {self._size}, in {len(variants)} variants"
        default = next(iter(variants[0].kernels))
        rows = [self._launch_values(t) for v in variants for t in v.kernels]
        lines = [
            f"# {points} points: variants of a stencil, each with some thread configurations.",
            f"# Written by python -m harness.stencil explore {name} --size {self._size}",
            f"name: {name}",
            f"title: {title}",
            "kernel:",
            f"  function: [{function_name(self._definition)}]",
            f"  source: {{opencl: {name}.cl, cuda: {name}.cu}}",
            f"  host: {name}.py",
            "parameters:",
            f"  VARIANT: {{type: integer, min: 0, max: {len(variants) - 1}, "
            "role: choice, default: 0}",
        ]
        for place, parameter in enumerate(self._launch_names()):
            values = sorted({row[place] for row in rows})
            start = self._launch_values(default)[place]
            lines += [f"  {parameter}: {{values: {values}, role: launch, default: {start}}}"]
        lines += [
            "# The thread configurations of each variant, spelled as one number.",
            "constraints:",
        ]
        lines += [f"  - {line}" for line in self._constraints()]
        lines += [
            "launch: host",
            f"inputs: {{features: [size], values: [{{size: {self._size}}}]}}",
            "verify: {rtol: 1.0e-3, atol: 1.0e-4}",
            "",
        ]
        return "\n".join(lines)

    def _constraints(self) -> Iterator[str]:
        names = self._launch_names()
        # Four digits a size, and one for the coarsening.
        factors = [10 ** (4 * place + 1) for place in reversed(range(len(names) - 1))] + [1]
        spelled = " + ".join(
            f"{factor} * {name}" if factor > 1 else name
            for factor, name in zip(factors, names, strict=True)
        )
        for number, variant in enumerate(self._variants):
            codes = sorted(
                sum(f * v for f, v in zip(factors, self._launch_values(t), strict=True))
                for t in variant.kernels
            )
            yield f"VARIANT != {number} or {spelled} in {codes}"
        local = " * ".join(n for n in names if n.startswith("LOCAL"))
        yield f"{local} <= max_group_size"

    # --------------------------------------------------------- host, features

    def host(self) -> str:
        kernel = next(iter(self._variants[0].kernels.values()))
        inputs = {buffer.name: _lengths(buffer.type) for buffer in kernel.inputs}
        work = [
            f"    {(('global' in kinds), extents)},"
            for kinds, extents in map(_work, (v.expression for v in self._variants))
        ]
        local = ", ".join(
            f'config["LOCAL_{d}"]' if axis in self._axes else "1" for axis, d in enumerate("XYZ")
        )
        return _HOST.format(
            definition=self._definition.text.rstrip(),
            inputs=inputs,
            shape=_lengths(kernel.output.type),
            work="\n".join(work),
            local=local,
            function=function_name(self._definition),
            features=f"{self._definition.name}.features.csv",
        )

    def features(self) -> str:
        table = io.StringIO()
        writer = csv.writer(table, lineterminator="\n")
        writer.writerow(["VARIANT", *self._launch_names(), *FEATURES, "design"])
        for number, variant in enumerate(self._variants):
            for threads, kernel in variant.kernels.items():
                numbers = [f"{value:.10g}" for value in features(kernel).values()]
                drawn = design(variant.expression, threads)
                writer.writerow([number, *self._launch_values(threads), *numbers, drawn])
        return table.getvalue()


def _lengths(kind: Type) -> tuple[int, ...]:
    return (kind.length, *_lengths(kind.element)) if isinstance(kind, Array) else ()


def _work(expression: object) -> tuple[set[str], tuple[int, int, int]]:
    """Whether threads or groups share the work, and how much there is along x, y, z."""
    extents = {key: e for key, e in parallel_extents(expression).items() if key[0] != "local"}  # type: ignore[arg-type]
    by_dim = {dim: extent for (_, dim), extent in extents.items()}
    return {kind for kind, _ in extents}, (by_dim.get(0, 0), by_dim.get(1, 0), by_dim.get(2, 0))


_HOST = '''\
{definition}


# ------------------------------------------------------------------------------------------------
# Written by python -m harness.stencil explore: what the harness asks for, beside the stencil above.

import csv as _csv
import pathlib as _pathlib

import numpy as _np

from harness.host import Launch as _Launch

_INPUTS = {inputs}
_own_inputs = globals().get("inputs")
_own_reference = reference


def arguments(features, rng):
    """The inputs, from 0.5 to 1.5 unless the stencil makes its own, and room for the result."""
    if _own_inputs is not None:
        given = _own_inputs(features["size"], rng)
    else:
        given = {{
            name: 0.5 + rng.random(shape, dtype=_np.float32) for name, shape in _INPUTS.items()
        }}
    given = {{name: _np.ascontiguousarray(array, _np.float32) for name, array in given.items()}}
    return given | {{"result": _np.zeros({shape}, _np.float32)}}


def reference(arguments):
    """The stencil's own."""
    given = {{name: array for name, array in arguments.items() if name != "result"}}
    return {{"result": _np.asarray(_own_reference(given), _np.float32)}}


# Of each variant: whether threads share the work, else groups do; and how much, along x, y, z.
_WORK = [
{work}
]


def launches(arguments, config):
    """One launch, with as many groups as there is work for."""
    local = ({local})
    of_threads, work = _WORK[config["VARIANT"]]
    last = max(axis for axis in range(3) if work[axis])
    groups = []
    for axis in range(3):
        share = (local[axis] if of_threads else 1) * (config["COARSENING"] if axis == last else 1)
        groups.append(max(1, -(-work[axis] // share)))
    yield _Launch("{function}", local, tuple(groups), (*_INPUTS, "result"))


def observe(config):
    """The point's features, which predictors learn from."""
    with _pathlib.Path(__file__).with_name("{features}").open() as file:
        rows = _csv.DictReader(file)
        tuned = [name for name in rows.fieldnames if name.isupper()]
        for row in rows:
            if all(int(row[name]) == config[name] for name in tuned):
                return {{name: float(row[name]) for name in row if name not in tuned}}
    return {{}}
'''
