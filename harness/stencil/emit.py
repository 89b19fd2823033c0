"""Loop nest -> readable OpenCL C or CUDA C.

Group sizes are the macros LOCAL_X, LOCAL_Y and LOCAL_Z, so one text serves many launches.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping

from harness.stencil import nest
from harness.stencil.arith import Index
from harness.stencil.ir import UserFun
from harness.stencil.lower import ID_NAMES
from harness.stencil.types import FLOAT, StencilError

_INDENT = "    "
OPENCL, CUDA = ".cl", ".cu"
SUFFIXES = (OPENCL, CUDA)
"""The languages, by the suffix of their files."""

# {d} is x, y or z, {D} its capital and {n} its number.
_SPELLINGS = {
    "function": ("static {}", "static __device__ {}"),
    "kernel": (
        "__kernel __attribute__((reqd_work_group_size(LOCAL_X, LOCAL_Y, LOCAL_Z)))\nvoid {}",
        'extern "C" __global__ void __launch_bounds__(LOCAL_X * LOCAL_Y * LOCAL_Z)\n{}',
    ),
    "pointer": ("__global {}*restrict ", "{}*__restrict__ "),
    "memory": ("__local ", "__shared__ "),
    "barrier": ("barrier(CLK_LOCAL_MEM_FENCE);", "__syncthreads();"),
    "global": ("get_global_id({n})", "blockIdx.{d} * LOCAL_{D} + threadIdx.{d}"),
    "workgroup": ("get_group_id({n})", "blockIdx.{d}"),
    "local": ("get_local_id({n})", "threadIdx.{d}"),
    "global count": ("get_global_size({n})", "gridDim.{d} * LOCAL_{D}"),
    "workgroup count": ("get_num_groups({n})", "gridDim.{d}"),
    "local count": ("LOCAL_{D}", "LOCAL_{D}"),
}


def emit(kernel: nest.LoopNest, suffix: str) -> str:
    """Write the source of a kernel with the functions that it calls."""
    column = SUFFIXES.index(suffix)
    writer = _Emitter(kernel, {name: both[column] for name, both in _SPELLINGS.items()})
    return "\n\n".join([*map(writer.function, _functions(kernel)), writer.kernel()]) + "\n"


def _functions(kernel: nest.LoopNest) -> Iterator[UserFun]:
    """Yield the functions that a kernel calls, in the order of their calls."""
    functions: dict[str, UserFun] = {}
    others = {kernel.name, *(buffer.name for buffer in kernel.inputs)}
    for statement in nest.statements_of(kernel.body):
        for term in (
            nest.terms_of(statement.value) if isinstance(statement, nest.Assignment) else ()
        ):
            if isinstance(term, nest.Call):
                function = term.function
                if functions.setdefault(function.name, function) != function or (
                    function.name in others
                ):
                    raise StencilError(f"the name {function.name} is used twice; rename one")
    yield from functions.values()


class _Emitter:
    def __init__(self, kernel: nest.LoopNest, spellings: Mapping[str, str]) -> None:
        self._kernel = kernel
        self._spellings = spellings

    def function(self, function: UserFun) -> str:
        parameters = ", ".join(f"{FLOAT} {name}" for name in function.parameters)
        head = f"{FLOAT} {function.name}({parameters}) {{"
        lines = [self._spellings["function"].format(head), f"{_INDENT}return {function.body};", "}"]
        return "\n".join(map(_wrapped, lines))

    def kernel(self) -> str:
        kernel = self._kernel
        parameters = ", ".join(map(self._parameter, (*kernel.inputs, kernel.output)))
        head = self._spellings["kernel"].format(f"{kernel.name}({parameters}) {{")
        lines = head.split("\n")
        lines += [f"{_INDENT}{self._spellings['memory']}{_declared(b)};" for b in kernel.locals]
        lines += [f"{_INDENT}{line}" for line in self._ids()]
        lines += [line for s in kernel.body for line in self._statement(s, _INDENT)]
        return "\n".join(map(_wrapped, [*lines, "}"]))

    def _parameter(self, buffer: nest.Buffer) -> str:
        const = "const " if buffer.is_read_only else ""
        return self._spellings["pointer"].format(f"{const}{FLOAT} ") + buffer.name

    def _ids(self) -> Iterator[str]:
        """Declare the thread and group ids that the kernel uses."""
        loops = (
            loop for loop in nest.statements_of(self._kernel.body) if isinstance(loop, nest.Loop)
        )
        used = {(loop.kind, loop.dim) for loop in loops}
        for kind in ID_NAMES:
            for dim in (2, 1, 0):
                if (kind, dim) in used:
                    yield f"const int {_id_name(kind, dim)} = {self._along(kind, dim)};"

    def _along(self, spelling: str, dim: int) -> str:
        """Fill in a spelling for one dimension."""
        return self._spellings[spelling].format(d="xyz"[dim], D="XYZ"[dim], n=dim)

    def _statement(self, statement: nest.Statement, indent: str) -> Iterator[str]:
        if isinstance(statement, nest.Loop):
            yield from self._loop(statement, indent)
        elif isinstance(statement, nest.Barrier):
            yield f"{indent}{self._spellings['barrier']}"
        elif isinstance(statement, nest.Declaration):
            yield f"{indent}{_declared(statement.buffer)};"
        else:
            kind = f"{FLOAT} " if statement.declares else ""
            yield f"{indent}{kind}{_term(statement.target)} = {_term(statement.value)};"

    def _loop(self, loop: nest.Loop, indent: str) -> Iterator[str]:
        is_block = loop.form != "once"
        name, first, step = loop.variable.name, "0", f"{loop.variable.name}++"
        if loop.form == "if":
            yield f"{indent}if ({name} < {loop.extent}) {{"
        elif is_block:
            if loop.kind != "seq":
                first = _id_name(loop.kind, loop.dim)
                step = f"{name} += {self._along(f'{loop.kind} count', loop.dim)}"
            yield f"{indent}for (int {name} = {first}; {name} < {loop.extent}; {step}) {{"
        for statement in loop.body:
            yield from self._statement(statement, indent + _INDENT * is_block)
        if is_block:
            yield f"{indent}}}"


def _id_name(kind: str, dim: int) -> str:
    return ID_NAMES[kind].format("xyz"[dim])


def _declared(buffer: nest.Buffer) -> str:
    return f"{FLOAT} {buffer.name}" + "".join(f"[{n}]" for n in buffer.shape)


def _term(term: nest.Term) -> str:
    if isinstance(term, nest.Load):
        is_global = term.buffer.space == "global"
        indices = (term.offset,) if is_global else term.indices
        return term.buffer.name + "".join(f"[{index.text}]" for index in indices)
    if isinstance(term, nest.Number):
        return term.text
    if isinstance(term, nest.Call):
        return f"{term.function.name}({', '.join(map(_term, term.arguments))})"
    tests = [test for index, length in term.bounds for test in _tests(index, length)]
    return f"({' && '.join(tests)} ? {_term(term.term)} : {term.otherwise.text})"


def _tests(index: Index, length: int) -> Iterator[str]:
    if index.low < 0:
        yield f"{index.text} >= 0"
    if index.high >= length:
        yield f"{index.text} < {length}"


def _wrapped(line: str) -> str:
    """Break a long line at spaces outside indices, and indent the continuations."""
    indent = line[: len(line) - len(line.lstrip())] + 2 * _INDENT
    whole = re.sub(r"\[[^]]*\]", lambda index: index[0].replace(" ", "\xa0"), line)
    text = textwrap.fill(
        whole, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return text.replace("\xa0", " ")
