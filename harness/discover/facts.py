"""Kernel file -> the facts about one of its kernels that a space can be made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.constraints.expression import Expression
from harness.core.errors import Fault, SpecError, UsageError
from harness.core.records import LIMIT_NAMES
from harness.core.text import escaped, nearest, suggestion
from harness.discover.parameters import Declared, Suggestion, is_number_type, read_pragmas, suggest
from harness.discover.scope import scope_of
from harness.discover.syntax import Argument, KernelSignature, NumpyType, find_kernels
from harness.source.kernel_source import read_source
from harness.source.pragmas import Pragma
from harness.source.preprocessor import macros_of
from harness.source.syntax_tree import CUDA, OPENCL, prepare

_SHOWN_NAMES = 12
GUESSED_TYPE = "float"
"""The guess for a type that a template leaves open."""


@dataclass(frozen=True)
class Facts:
    """The facts in a source about one of its kernels."""

    path: Path
    dialect: str
    kernel: KernelSignature
    declared: Declared
    suggested: tuple[Suggestion, ...]
    others: frozenset[str]  # arguments and parameters that only other kernels of the file have
    aliases: Mapping[str, str]
    has_this_grid: bool  # of CUDA's cooperative groups, by which groups wait for each other

    def type_of(self, argument: Argument) -> NumpyType | None:
        """Return the numpy type of an argument's elements; None for the kernel's own types."""
        return NumpyType.of(argument.type_name, self.aliases, self.dialect)

    @property
    def function(self) -> str | None:
        """Return the kernel's name with its template's arguments: numbers are parameters, and
        types are guessed. None where one of them is neither."""
        template = self.kernel.template
        kinds = {p.type_name for p in template if p.type_name not in ("", "bool")}
        if not all(map(is_number_type, kinds)):
            return None
        arguments = (p.name if p.type_name else p.default or GUESSED_TYPE for p in template)
        name = self.kernel.namespace + self.kernel.name
        return f"{name}<{', '.join(arguments)}>" if template else name

    @property
    def passed(self) -> tuple[Argument, ...]:
        """Return the arguments that the host module passes: all but local memory."""
        return tuple(a for a in self.kernel.arguments if not a.is_local)

    @property
    def local(self) -> tuple[Argument, ...]:
        """Return the arguments that are local memory."""
        return tuple(a for a in self.kernel.arguments if a.is_local)

    @property
    def counts(self) -> tuple[Argument, ...]:
        """Return the integer arguments, which describe inputs."""
        taken = {t.name for t in self.declared.tuned}
        single = (a for a in self.kernel.arguments if not a.is_pointer and a.name not in taken)
        kinds = ((a, self.type_of(a)) for a in single)
        return tuple(a for a, kind in kinds if kind and kind.is_integer and kind.width == 1)

    @property
    def known_names(self) -> list[str]:
        """List the names that a constraint may use."""
        tuned = [t.name for t in self.declared.tuned]
        return [*tuned, *(s.name for s in self.suggested), *(a.name for a in self.counts),
                *LIMIT_NAMES]  # fmt: skip

    @property
    def constraints(self) -> tuple[Pragma, ...]:
        """Return the constraints, without those on arguments of other kernels."""
        elsewhere = self.others.difference(self.known_names)
        return tuple(
            c for c in self.declared.constraints
            if elsewhere.isdisjoint(Expression(c.operands).names)
        )  # fmt: skip

    @property
    def languages(self) -> tuple[str, ...]:
        """Return the languages that the source is written in."""
        return (self.dialect,) if self.dialect in (CUDA, OPENCL) else (CUDA, OPENCL)


def discover(path: Path, function: str | None) -> Facts:
    """Read a source; raise UsageError or SpecError if no space can be made of it."""
    try:
        source = read_source(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path} {error}") from None
    prepared = prepare(source.text, path.suffix)
    kernels = find_kernels(prepared)
    if not kernels:
        raise UsageError(
            f"{path} defines no kernel. A kernel is a function marked __global__ in CUDA, "
            "__kernel in a file that ends in .cl, or KERNEL with portable.h; --triton reads Python"
        )
    kernel = kernels[choose(path, [(k.name, k.line) for k in kernels], function)]
    included = {p.name: prepare(text, p.suffix) for p, text in source.includes.items()}
    scope = scope_of(kernel, kernels, prepared, included)
    declared = read_pragmas(source, prepared.scan, scope)
    taken = {t.name for t in (*declared.tuned, *declared.left_out)}
    taken |= {v for t in declared.tuned for v in t.pragma.values if isinstance(v, str)}
    elsewhere = (a.name for other in kernels if other is not kernel for a in other.arguments)
    facts = Facts(
        path,
        prepared.dialect,
        kernel,
        declared,
        tuple(suggest(prepared, kernel, scope, taken)),
        scope.foreign.union(elsewhere, (t.name for t in declared.left_out)),
        {name: texts[-1] for name, texts in macros_of(prepared.scan.directives).items()},
        any(t.text == "this_grid" and scope.holds(t.start) for t in prepared.scan.code),
    )
    _check_constraints(facts)
    return facts


def choose(path: Path, names: Sequence[tuple[str, int]], function: str | None) -> int:
    """Return the index of a kernel among names and lines; raise UsageError unless it is one."""
    there = ", ".join(escaped(f"{name} (line {line})") for name, line in names[:_SHOWN_NAMES])
    if function is None:
        if len({name for name, _ in names}) > 1:
            raise UsageError(f"{path} has {len(names)} kernels: {there}; choose with --function")
        return 0
    every = [name for name, _ in names]
    if function not in every:
        near = nearest(function, every)
        hint = f"did you mean `{near}`? " if near else ""
        raise UsageError(f"`{function}` is no kernel of {path}; {hint}there is {there}")
    return every.index(function)


def _check_constraints(facts: Facts) -> None:
    """Check that constraints name only parameters, integer arguments and device limits."""
    faults = []
    for pragma in facts.constraints:
        for name in sorted(Expression(pragma.operands).names.difference(facts.known_names)):
            text = (
                f"`{name}` in `{pragma}` is not a parameter, an integer argument of "
                f"{facts.kernel.name} or a device limit; {suggestion(name, facts.known_names)}"
            )
            faults.append(Fault(str(facts.path), pragma.line, text))
    if faults:
        raise SpecError(faults)
