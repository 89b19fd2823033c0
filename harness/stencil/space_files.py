"""A stencil's file, and the folder of a space: YAML, kernels, host module and the points' features.

A stencil's file defines `expression(size)`, `reference(arguments)` and perhaps `inputs`.

In the folder each variant has its own file, in which the group sizes choose the kernel. The space's
source includes the file that VARIANT names, so a build reads no other.
"""

from __future__ import annotations

import csv
import io
import itertools
import operator
import textwrap
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.core.errors import UsageError
from harness.core.modules import load_module
from harness.core.text import template
from harness.source.kernel_source import read_text
from harness.stencil.emit import SUFFIXES, emit
from harness.stencil.explore import Threads, Variant, design
from harness.stencil.features import FEATURES, WARP, features
from harness.stencil.ir import Node
from harness.stencil.types import FLOAT, StencilError, leaf

_CONSTRAINT_LENGTH = 800  # a space has at most 1,000 constraints, of 1,000 characters each


@dataclass(frozen=True)
class Definition:
    """A stencil: its name, its file and the functions that the file defines."""

    name: str
    path: Path
    text: str
    module: ModuleType

    @classmethod
    def load(cls, path: Path) -> Definition:
        """Load a stencil from its file.

        Raises UsageError if it cannot be read, and StencilError if it is not a stencil.
        """
        if not path.stem.isidentifier():
            raise UsageError(
                f"{path}: a stencil is named after its file: use only letters, digits and _ there"
            )
        try:
            text = read_text(path)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise UsageError(
                f"{path} cannot be read: {reason}; a stencil is a Python file, such as "
                "kernels/stencils/jacobi2d_5pt.py"
            ) from None
        definition = cls(path.stem, path, text, _load(path))
        for name in ("expression", "reference"):
            definition.function(name)
        return definition

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


# ------------------------------------------------------------------------- the folder


class SpaceFolder:
    """The texts of a space's folder; their comments name the `command` that repeats them. Features
    are of warps of so many threads."""

    def __init__(
        self,
        definition: Definition,
        size: int,
        variants: Sequence[Variant],
        command: str,
        warp: int = WARP,
    ) -> None:
        self._definition = definition
        self._size = size
        self._variants = variants
        self._command = command
        self._warp = warp
        kernel = next(iter(variants[0].kernels.values()))
        self._inputs = {buffer.name: buffer.shape for buffer in kernel.inputs}
        self._result = kernel.output.shape
        self._title = f"{definition.name}, {' x '.join(map(str, self._result))}"
        used = [t.local for v in variants for t in v.kernels]
        self._axes = [0] + [axis for axis in (1, 2) if any(local[axis] > 1 for local in used)]

    def texts(self) -> dict[Path, str]:
        """Write the texts by relative path."""
        name = self._definition.name
        texts = {Path(f"{name}.yaml"): self._yaml(), Path(f"{name}.py"): self._host()}
        for suffix in SUFFIXES:
            texts[Path(name + suffix)] = self._chooser(suffix)
            for number, variant in enumerate(self._variants):
                texts[self._variant_path(number, suffix)] = self._variant(number, variant, suffix)
        texts[Path(f"{name}.features.csv")] = self._features()
        return texts

    # ---------------------------------------------------------------- sources

    def _variant_path(self, number: int, suffix: str) -> Path:
        return Path("variants") / f"{self._definition.name}_{number}{suffix}"

    def _chooser(self, suffix: str) -> str:
        names = ", ".join(self._launch_names())
        lines = [f"/* {self._title}: the variant VARIANT,"]
        lines += [f" * launched with {names}. */"]
        lines += [f"#ifndef LOCAL_{d}\n#define LOCAL_{d} 1\n#endif" for d in "XYZ"]
        for number in range(len(self._variants)):
            lines += [f"#{'elif' if number else 'if'} VARIANT == {number}"]
            lines += [f'#include "{self._variant_path(number, suffix).as_posix()}"']
        return "\n".join([*lines, "#endif", ""])

    def _variant(self, number: int, variant: Variant, suffix: str) -> str:
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

    def _yaml(self) -> str:
        rows = [self._launch_values(t) for v in self._variants for t in v.kernels]
        columns = zip(self._launch_names(), zip(*rows, strict=True), strict=True)
        return template("harness.stencil", "space.yaml").render(
            name=self._definition.name,
            function=self._definition.function_name,
            title=self._title,
            command=self._command,
            size=self._size,
            points=len(rows),
            variants=len(self._variants),
            parameters=[(name, sorted(set(column)), column[0]) for name, column in columns],
            constraints=self._constraints(),
        )

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

    def _host(self) -> str:
        local = ", ".join(
            f'config["LOCAL_{d}"]' if axis in self._axes else "1" for axis, d in enumerate("XYZ")
        )
        return template("harness.stencil", "host.py").render(
            definition=self._definition.text.rstrip(),
            command=self._command,
            inputs=self._inputs,
            result=self._result,
            local=local,
            function=self._definition.function_name,
            features=f"{self._definition.name}.features.csv",
            tuned=("VARIANT", *self._launch_names()),
        )

    def _features(self) -> str:
        table = io.StringIO()
        writer = csv.writer(table, lineterminator="\n")
        groups = ("groups_x", "groups_y", "groups_z")
        writer.writerow(["VARIANT", *self._launch_names(), *groups, *FEATURES, "design"])
        for number, variant in enumerate(self._variants):
            for threads, kernel in variant.kernels.items():
                point = [number, *self._launch_values(threads), *kernel.ndrange.groups]
                numbers = [f"{value:.10g}" for value in features(kernel, self._warp).values()]
                writer.writerow([*point, *numbers, design(variant.expression, threads)])
        return table.getvalue()
