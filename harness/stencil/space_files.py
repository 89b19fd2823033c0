"""Variants -> the folder of a space: YAML, kernels, host module and the points' features.

Each variant has its own file, in which the group sizes choose the kernel. The space's source
includes the file that VARIANT names, so a build reads no other.
"""

from __future__ import annotations

import csv
import io
import itertools
import operator
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.stencil.definition import Definition
from harness.stencil.emit import SUFFIXES, emit
from harness.stencil.explore import Threads, Variant, design
from harness.stencil.features import FEATURES, features

_CONSTRAINT_LENGTH = 800  # a space has at most 1,000 constraints, of 1,000 characters each


def files(
    definition: Definition,
    size: int,
    variants: Sequence[Variant],
    command: str,
) -> dict[Path, str]:
    """Write the folder's texts by relative path; their comments name the `command`."""
    folder = _SpaceFolder(definition, size, variants, command)
    name = definition.name
    texts = {Path(f"{name}.yaml"): folder.yaml(), Path(f"{name}.py"): folder.host()}
    for suffix in SUFFIXES:
        texts[Path(name + suffix)] = folder.chooser(suffix)
        for number, variant in enumerate(variants):
            texts[folder.variant_path(number, suffix)] = folder.variant(number, variant, suffix)
    texts[Path(f"{name}.features.csv")] = folder.features()
    return texts


def function_name(definition: Definition) -> str:
    """Name the kernel; the stencil's own name may be taken by one of its functions."""
    return f"{definition.name}_kernel"


class _SpaceFolder:
    def __init__(
        self, definition: Definition, size: int, variants: Sequence[Variant], command: str
    ) -> None:
        self._definition = definition
        self._size = size
        self._variants = variants
        self._command = command
        kernel = next(iter(variants[0].kernels.values()))
        self._inputs = {buffer.name: buffer.shape for buffer in kernel.inputs}
        self._result = kernel.output.shape
        self._title = f"{definition.name}, {' x '.join(map(str, self._result))}"
        used = [t.local for v in variants for t in v.kernels]
        self._axes = [0] + [axis for axis in (1, 2) if any(local[axis] > 1 for local in used)]

    # ---------------------------------------------------------------- sources

    def variant_path(self, number: int, suffix: str) -> Path:
        return Path("variants") / f"{self._definition.name}_{number}{suffix}"

    def chooser(self, suffix: str) -> str:
        names = ", ".join(self._launch_names())
        lines = [f"/* {self._title}: the variant VARIANT,"]
        lines += [f" * launched with {names}. */"]
        lines += [f"#ifndef LOCAL_{d}\n#define LOCAL_{d} 1\n#endif" for d in "XYZ"]
        for number in range(len(self._variants)):
            lines += [f"#{'elif' if number else 'if'} VARIANT == {number}"]
            lines += [f'#include "{self.variant_path(number, suffix).as_posix()}"']
        return "\n".join([*lines, "#endif", ""])

    def variant(self, number: int, variant: Variant, suffix: str) -> str:
        """Write the kernels, each under its group sizes, below a comment with the expression."""
        texts: dict[str, list[Threads]] = {}
        for threads, kernel in variant.kernels.items():
            texts.setdefault(emit(kernel, suffix), []).append(threads)
        lines = textwrap.wrap(str(variant.expression), 95, break_long_words=False)
        head = [f"/* Variant {number}:", *(f" * {line}" for line in lines), " */"]
        if len(texts) == 1:
            return "\n".join([*head, *texts])
        # The kernel that most launches share needs no condition.
        *others, usual = sorted(texts, key=lambda text: len(texts[text]))
        for index, text in enumerate(others):
            condition = " || \\\n    ".join(self._condition(t) for t in texts[text])
            head += [f"#{'elif' if index else 'if'} {condition}", text]
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
        default = next(iter(variants[0].kernels))
        rows = [self._launch_values(t) for v in variants for t in v.kernels]
        lines = [
            f"# {points} points: variants of a stencil, each with several thread configurations.",
            f"# Written by {self._command}",
            f"name: {name}",
            f"title: {self._title}, in {len(variants)} variants",
            "kernel:",
            f"  function: [{function_name(self._definition)}]",
            f"  source: {{opencl: {name}.cl, cuda: {name}.cu}}",
            f"  host: {name}.py",
            "parameters:",
            f"  VARIANT: {{type: integer, min: 0, max: {len(variants) - 1}, "
            "role: choice, default: 0}",
        ]
        for column, parameter in enumerate(self._launch_names()):
            values = sorted({row[column] for row in rows})
            start = self._launch_values(default)[column]
            lines += [f"  {parameter}: {{values: {values}, role: launch, default: {start}}}"]
        lines += [
            "# The thread configurations of each variant, each as one number of all its digits.",
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
        variants = [[self._launch_values(t) for t in v.kernels] for v in self._variants]
        digits = [len(str(max(c))) for c in zip(*itertools.chain(*variants), strict=True)]
        factors = [10 ** sum(digits[column + 1 :]) for column in range(len(names))]
        spelled = " + ".join(
            f"{factor} * {name}" if factor > 1 else name
            for factor, name in zip(factors, names, strict=True)
        )
        allowed = []
        for number, points in enumerate(variants):
            codes = sorted(sum(map(operator.mul, factors, point)) for point in points)
            allowed.append(f"VARIANT == {number} and {spelled} in {codes}")
        together = max(1, _CONSTRAINT_LENGTH // max(map(len, allowed)))
        for first in range(0, len(allowed), together):
            some = allowed[first : first + together]
            others = f"VARIANT < {first} or VARIANT > {first + len(some) - 1}"
            yield " or ".join([others, *some])
        local = " * ".join(n for n in names if n.startswith("LOCAL"))
        yield f"{local} <= max_group_size"

    # --------------------------------------------------------- host, features

    def host(self) -> str:
        local = ", ".join(
            f'config["LOCAL_{d}"]' if axis in self._axes else "1" for axis, d in enumerate("XYZ")
        )
        return _HOST.format(
            definition=self._definition.text.rstrip(),
            command=self._command,
            inputs=self._inputs,
            result=self._result,
            local=local,
            function=function_name(self._definition),
            features=f"{self._definition.name}.features.csv",
            tuned=("VARIANT", *self._launch_names()),
        )

    def features(self) -> str:
        table = io.StringIO()
        writer = csv.writer(table, lineterminator="\n")
        groups = ("groups_x", "groups_y", "groups_z")
        writer.writerow(["VARIANT", *self._launch_names(), *groups, *FEATURES, "design"])
        for number, variant in enumerate(self._variants):
            for threads, kernel in variant.kernels.items():
                point = [number, *self._launch_values(threads), *kernel.ndrange.groups]
                numbers = [f"{value:.10g}" for value in features(kernel).values()]
                writer.writerow([*point, *numbers, design(variant.expression, threads)])
        return table.getvalue()


_HOST = '''\
{definition}


# ------------------------------------------------------------------------------------------------
# Written by {command}
# The host functions that harness calls; the stencil is above.

import csv as _csv
import pathlib as _pathlib

import numpy as _np

from harness.host import Launch as _Launch

_INPUTS = {inputs}
_own_inputs = globals().get("inputs")
_own_reference = reference


def arguments(features, rng):
    """Make the inputs, from 0.5 to 1.5 unless the stencil has `inputs`, and an empty result."""
    if _own_inputs is not None:
        arrays = _own_inputs(features["size"], rng)
    else:
        arrays = {{
            name: 0.5 + rng.random(shape, dtype=_np.float32) for name, shape in _INPUTS.items()
        }}
    for name, shape in _INPUTS.items():
        if name not in arrays or _np.shape(arrays[name]) != shape:
            found = f"one of {{_np.shape(arrays[name])}}" if name in arrays else "none"
            raise ValueError(
                f"inputs() must return `{{name}}`, an array of {{shape}}, not {{found}}"
            )
    arrays = {{name: _np.ascontiguousarray(array, _np.float32) for name, array in arrays.items()}}
    return arrays | {{"result": _np.zeros({result}, _np.float32)}}


def reference(arguments):
    """Compute the result with the stencil's own reference."""
    inputs = {{name: array for name, array in arguments.items() if name != "result"}}
    return {{"result": _np.asarray(_own_reference(inputs), _np.float32)}}


_TUNED = {tuned}
with _pathlib.Path(__file__).with_name("{features}").open() as _file:
    _POINTS = {{tuple(int(row[n]) for n in _TUNED): row for row in _csv.DictReader(_file)}}


def _point(config):
    return _POINTS[tuple(config[name] for name in _TUNED)]


def launches(arguments, config):
    """Launch once, with as many groups as there is work for."""
    groups = tuple(int(_point(config)[f"groups_{{axis}}"]) for axis in "xyz")
    yield _Launch("{function}", ({local}), groups, (*_INPUTS, "result"))


def observe(config):
    """Return the point's features, the training data of predictors."""
    known = (*_TUNED, "groups_x", "groups_y", "groups_z")
    return {{name: float(value) for name, value in _point(config).items() if name not in known}}
'''
