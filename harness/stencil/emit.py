"""Loop nest -> readable OpenCL C or CUDA C.

Group sizes are the macros LOCAL_X, LOCAL_Y and LOCAL_Z, so one text serves many launches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.stencil.arith import Index, Operation
from harness.stencil.ir import UserFun
from harness.stencil.lower import ID_NAMES
from harness.stencil.nest import (
    Assignment,
    Barrier,
    Buffer,
    Call,
    Declaration,
    IndexValue,
    Load,
    Loop,
    LoopNest,
    Number,
    Statement,
    Term,
    statements_of,
    terms_of,
)
from harness.stencil.types import StencilError, leaf

_INDENT = "    "
_USUAL_WIDTH = 100


@dataclass(frozen=True)
class Dialect:
    """The spellings of one language; {d} is x, y or z, {D} its capital and {n} its number."""

    name: str
    suffix: str
    function: str
    kernel: str
    pointer: str
    local: str
    ids: dict[str, str]
    counts: dict[str, str]
    barrier: str


OPENCL = Dialect(
    name="opencl",
    suffix=".cl",
    function="static {}",
    kernel="__kernel __attribute__((reqd_work_group_size(LOCAL_X, LOCAL_Y, LOCAL_Z)))\nvoid {}",
    pointer="__global {}*restrict ",
    local="__local ",
    ids={
        "global": "get_global_id({n})",
        "workgroup": "get_group_id({n})",
        "local": "get_local_id({n})",
    },
    counts={"global": "get_global_size({n})", "workgroup": "get_num_groups({n})"},
    barrier="barrier(CLK_LOCAL_MEM_FENCE);",
)
CUDA = Dialect(
    name="cuda",
    suffix=".cu",
    function="static __device__ {}",
    kernel='extern "C" __global__ void __launch_bounds__(LOCAL_X * LOCAL_Y * LOCAL_Z)\n{}',
    pointer="{}*__restrict__ ",
    local="__shared__ ",
    ids={
        "global": "blockIdx.{d} * LOCAL_{D} + threadIdx.{d}",
        "workgroup": "blockIdx.{d}",
        "local": "threadIdx.{d}",
    },
    counts={"global": "gridDim.{d} * LOCAL_{D}", "workgroup": "gridDim.{d}"},
    barrier="__syncthreads();",
)
DIALECTS = (OPENCL, CUDA)


def emit(kernel: LoopNest, dialect: Dialect) -> str:
    """Write the source of a kernel with the functions that it calls."""
    writer = _Emitter(kernel, dialect)
    return "\n\n".join([*writer.functions(), writer.kernel()]) + "\n"


class _Emitter:
    def __init__(self, kernel: LoopNest, dialect: Dialect) -> None:
        self._kernel = kernel
        self._dialect = dialect

    # -------------------------------------------------------------- functions

    def functions(self) -> Iterator[str]:
        indices = [i for term in self._terms() if isinstance(term, Load) for i in term.indices]
        atoms = (atom for index in indices for atom in index.atoms())
        if any(isinstance(atom, Operation) and atom.kind == "mirror" for atom in atoms):
            head = self._dialect.function.format("int mirror(int i, int length) {")
            body = "return i < 0 ? -1 - i : i < length ? i : 2 * length - 1 - i;"
            yield f"{head}\n{_INDENT}{body}\n}}"
        found: dict[str, UserFun] = {}
        others = {self._kernel.name, *(buffer.name for buffer in self._kernel.inputs)}
        for term in self._terms():
            if isinstance(term, Call):
                known = found.setdefault(term.function.name, term.function)
                if known != term.function or known.name in others:
                    raise StencilError(f"the name {known.name} is used twice; rename one")
        yield from map(self._function, found.values())

    def _terms(self) -> Iterator[Term]:
        """Yield the terms of the values that are stored, in order."""
        stored = (s for s in statements_of(self._kernel.body) if isinstance(s, Assignment))
        return (part for statement in stored for part in terms_of(statement.value))

    def _function(self, function: UserFun) -> str:
        pairs = zip(function.types, function.parameters, strict=True)
        parameters = ", ".join(f"{kind} {name}" for kind, name in pairs)
        head = self._dialect.function.format(f"{function.result} {function.name}({parameters}) {{")
        return f"{_wrapped(head)}\n{_wrapped(f'{_INDENT}return {function.body};')}\n}}"

    # ----------------------------------------------------------------- kernel

    def kernel(self) -> str:
        kernel = self._kernel
        arguments = [*kernel.inputs, kernel.output]
        parameters = ", ".join(f"{self._pointer(b)}{b.name}" for b in arguments)
        head = self._dialect.kernel.format(f"{kernel.name}({parameters}) {{")
        lines = [_wrapped(head)]
        lines += [f"{_INDENT}{self._dialect.local}{_declared(b)};" for b in kernel.locals]
        lines += [f"{_INDENT}{line}" for line in self._ids()]
        lines += [line for s in kernel.body for line in self._statement(s, _INDENT)]
        return "\n".join([*lines, "}"])

    def _pointer(self, buffer: Buffer) -> str:
        const = "const " if buffer.is_read_only else ""
        return self._dialect.pointer.format(f"{const}{leaf(buffer.type)} ")

    def _ids(self) -> Iterator[str]:
        """Declare the thread and group ids that the kernel uses."""
        loops = (loop for loop in statements_of(self._kernel.body) if isinstance(loop, Loop))
        used = {(loop.kind, loop.dim) for loop in loops}
        for kind in ID_NAMES:
            for dim in (2, 1, 0):
                if (kind, dim) in used:
                    name = ID_NAMES[kind].format("xyz"[dim])
                    yield f"const int {name} = {_along(self._dialect.ids[kind], dim)};"

    # ------------------------------------------------------------- statements

    def _statement(self, statement: Statement, indent: str) -> Iterator[str]:
        if isinstance(statement, Loop):
            yield from self._loop(statement, indent)
        elif isinstance(statement, Barrier):
            yield f"{indent}{self._dialect.barrier}"
        elif isinstance(statement, Declaration):
            yield f"{indent}{_declared(statement.buffer)};"
        else:
            kind = f"{statement.target.type} " if statement.declares else ""
            text = f"{indent}{kind}{_load(statement.target)} = {_term(statement.value)};"
            yield from _wrapped(text).split("\n")

    def _loop(self, loop: Loop, indent: str) -> Iterator[str]:
        is_block = loop.form != "once"
        if loop.form == "for":
            name, first, step = loop.variable.name, "0", f"{loop.variable.name}++"
            if loop.kind != "seq":
                first = ID_NAMES[loop.kind].format("xyz"[loop.dim])
                step = f"{name} += {self._count(loop)}"
            yield f"{indent}for (int {name} = {first}; {name} < {loop.extent}; {step}) {{"
        elif is_block:
            yield f"{indent}if ({loop.variable.name} < {loop.extent}) {{"
        for statement in loop.body:
            yield from self._statement(statement, indent + _INDENT * is_block)
        if is_block:
            yield f"{indent}}}"

    def _count(self, loop: Loop) -> str:
        if loop.kind == "local":
            return f"LOCAL_{'XYZ'[loop.dim]}"
        return _along(self._dialect.counts[loop.kind], loop.dim)


def _along(template: str, dim: int) -> str:
    """Fill in a dialect's spelling for one dimension."""
    return template.format(d="xyz"[dim], D="XYZ"[dim], n=dim)


def _declared(buffer: Buffer) -> str:
    return f"{leaf(buffer.type)} {buffer.name}" + "".join(f"[{n}]" for n in buffer.shape)


def _load(load: Load) -> str:
    name, indices = load.buffer.name, load.indices
    if load.buffer.space == "global":
        return f"{name}[{_offset(load)}]"
    return name + "".join(f"[{index.text}]" for index in indices)


def _offset(load: Load) -> str:
    """Write row * width + column, and so on for more dimensions; combine constants."""
    indices, lengths = list(load.indices), list(load.buffer.shape)
    while len(indices) > 1 and not (indices[0].terms and indices[1].terms):
        indices[:2] = [indices[0] * lengths[1] + indices[1]]
        lengths[:2] = [lengths[0] * lengths[1]]
    if not indices:
        return "0"
    factor, text = indices[0].factor, indices[0].text
    for index, length in zip(indices[1:], lengths[1:], strict=True):
        text = f"{factor} * {length} + {index.text}"
        factor = f"({text})"
    return text


def _term(term: Term) -> str:
    if isinstance(term, Load):
        return _load(term)
    if isinstance(term, Number):
        return term.text
    if isinstance(term, IndexValue):
        return term.index.text
    if isinstance(term, Call):
        return f"{term.function.name}({', '.join(map(_term, term.arguments))})"
    tests = [test for index, length in term.bounds for test in _tests(index, length)]
    return f"({' && '.join(tests)} ? {_term(term.term)} : {term.otherwise.text})"


def _tests(index: Index, length: int) -> Iterator[str]:
    if index.low < 0:
        yield f"{index.text} >= 0"
    if index.high >= length:
        yield f"{index.text} < {length}"


def _wrapped(text: str) -> str:
    """Break long lines between arguments or summands, and indent the continuations."""
    indent = text[: len(text) - len(text.lstrip())] + 2 * _INDENT
    lines = []
    for line in text.split("\n"):
        while len(line) > _USUAL_WIDTH and (cut := _break(line, len(indent))):
            lines.append(line[:cut].rstrip())
            line = indent + line[cut:].lstrip()
        lines.append(line)
    return "\n".join(lines)


def _break(line: str, begin: int) -> int:
    """Choose a column to break at: outside indices, then in the fewest brackets, then the last.

    Returns 0 if there is none.
    """
    depth = square = found = 0
    least = (1, 0)
    for column, letter in enumerate(line[:_USUAL_WIDTH]):
        depth += (letter in "([") - (letter in ")]")
        square += (letter == "[") - (letter == "]")
        is_break = letter == "(" or line.startswith((", ", " + ", " && ", " ? "), column)
        cost = (square > 0, depth)
        if is_break and column > begin and (not found or cost <= least):
            least, found = cost, column + (letter in ",(")
    return found
