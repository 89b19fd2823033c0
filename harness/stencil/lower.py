"""Expression -> loop nest, in one pass.

`_value` returns a view of an expression's value, `_write` computes an expression into a view of
memory. A view is a Python function from an index to an element. Words that only rearrange, such as
slide, become functions on views and leave no code.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache

from harness.stencil import nest
from harness.stencil.arith import Index, Variable, constant
from harness.stencil.ir import CONSTANT, PARALLEL, REARRANGING, Node, UserFun
from harness.stencil.types import Array, Scalar, StencilError, Type, shape

Env = Mapping[Node, nest.View]

ID_NAMES = {"global": "global_{}", "workgroup": "group_{}", "local": "local_{}"}
_LOOP_NAMES = "ijklmnopqrstuvw"


def lower(name: str, expression: Node, ndrange: nest.NdRange) -> nest.LoopNest:
    """Lower an expression; raise StencilError if its mapping is impossible."""
    return _Lowering(expression, ndrange).kernel(name)


@lru_cache(maxsize=1)  # for all the thread configurations of one expression
def parallel_extents(expression: Node) -> dict[tuple[str, int], int]:
    """Return the largest extent of each kind and dimension that work is shared over."""
    extents: dict[tuple[str, int], int] = {}
    for node in expression.subexpressions():
        if node.op == "map" and node.data[0] in PARALLEL:
            kind: Array = node.type  # type: ignore[assignment]
            extents[node.data] = max(kind.length, extents.get(node.data, 0))
    return extents


class _Lowering:
    def __init__(self, expression: Node, ndrange: nest.NdRange) -> None:
        self._expression = expression
        self._ndrange = ndrange
        used = parallel_extents(expression)
        # Without a map over all of these, threads would repeat the same work and race to write it.
        self._shared = {key for key in used if key[0] != "workgroup"}
        self._active: list[tuple[str, int]] = []  # the loops around the current expression
        self._depth = 0
        self._block: list[nest.Statement] = []
        self._locals: list[nest.Buffer] = []
        self._taken = set(_own_names(expression))
        self._loop_names = [name for name in _LOOP_NAMES if name not in self._taken]

    def kernel(self, name: str) -> nest.LoopNest:
        inputs: dict[str, nest.Buffer] = {}
        for node in self._expression.subexpressions():
            if node.op == "input":
                own, kind = node.data
                buffer = nest.Buffer(own, "global", kind, is_read_only=True)
                if inputs.setdefault(own, buffer) != buffer:
                    raise StencilError(f"the input {own} has two types")
        output = nest.Buffer("result", "global", self._expression.type)
        self._write(self._expression, {}, output.view)
        body, *_ = nest.with_barriers(self._block)
        in_order = tuple(inputs[own] for own in sorted(inputs))
        return nest.LoopNest(name, in_order, output, tuple(self._locals), body, self._ndrange)

    # ----------------------------------------------------------------- values

    def _value(self, node: Node, env: Env) -> nest.View:
        """Return a view of the value; add what must be computed first to the block."""
        method: Callable[[Node, Env], nest.View] = getattr(self, f"_value_of_{node.op}")
        return method(node, env)

    def _value_of_input(self, node: Node, env: Env) -> nest.View:
        name, kind = node.data
        return nest.Buffer(name, "global", kind, is_read_only=True).view

    def _value_of_var(self, node: Node, env: Env) -> nest.View:
        return env[node]

    def _value_of_number(self, node: Node, env: Env) -> nest.View:
        return nest.Number(*node.data)

    def _value_of_call(self, node: Node, env: Env) -> nest.View:
        return nest.Call(node.data[0], tuple(self._term(x, env) for x in node.children))

    def _value_of_zip(self, node: Node, env: Env) -> nest.View:
        rows = [self._row(x, env) for x in node.children]
        return nest.ArrayView(rows[0].length, lambda i: tuple(row.at(i) for row in rows))

    def _value_of_get(self, node: Node, env: Env) -> nest.View:
        parts = self._value(node.children[0], env)
        assert isinstance(parts, tuple)
        part: int = node.data[0]
        return parts[part]

    def _value_of_at(self, node: Node, env: Env) -> nest.View:
        return self._row(node.children[0], env).at(constant(node.data[0]))

    def _value_of_split(self, node: Node, env: Env) -> nest.View:
        return self._row(node.children[0], env).windows(node.data[0], node.data[0])

    def _value_of_join(self, node: Node, env: Env) -> nest.View:
        return self._row(node.children[0], env).joined(_width(node.children[0]))

    def _value_of_transpose(self, node: Node, env: Env) -> nest.View:
        return self._row(node.children[0], env).transposed(_width(node.children[0]))

    def _value_of_slide(self, node: Node, env: Env) -> nest.View:
        return self._row(node.children[0], env).windows(*node.data)

    def _value_of_pad(self, node: Node, env: Env) -> nest.View:
        row, (left, right, mode, value) = self._row(node.children[0], env), node.data
        length = row.length

        def padded(i: Index) -> nest.View:
            index = i + -left
            if mode != CONSTANT:
                return row.at(index.padded(mode, length))
            if index.is_within(length):
                return row.at(index)
            return row.inside(index, nest.Number(value))

        return nest.ArrayView(length + left + right, padded)

    def _value_of_map(self, node: Node, env: Env) -> nest.View:
        fun, x = node.children
        if node.data[0] in PARALLEL:
            raise StencilError(
                f"{node}: its result is not in memory; put to_local or to_private "
                "around it, or make it the outermost map"
            )
        row = self._row(x, env)
        return nest.ArrayView(
            row.length, lambda i: self._value(fun.body, {**env, fun.data[0]: row.at(i)})
        )

    def _value_of_let(self, node: Node, env: Env) -> nest.View:
        return self._value(node.children[0].body, self._bound(node, env))

    def _value_of_reduce(self, node: Node, env: Env) -> nest.View:
        fun, start, x = node.children
        row, total = self._row(x, env), self._variable("sum", node.type, self._term(start, env))

        def step(i: Index) -> None:
            values = dict(zip(fun.data, (total, row.at(i)), strict=True))
            self._block.append(nest.Assignment(total, self._term(fun.body, {**env, **values})))

        if node.data[0] == "unroll":
            for index in range(row.length):
                step(constant(index))
        else:
            with self._loop("seq", 0, row.length) as i:
                step(i)
        return total

    def _value_of_memory(self, node: Node, env: Env) -> nest.View:
        (space,), (x,) = node.data, node.children
        if space == "private" and isinstance(node.type, Scalar):
            return self._variable("value", node.type, self._term(x, env))
        if space == "local" and any(kind in ("local", "global") for kind, _ in self._active):
            raise StencilError(
                f"{node}: local memory belongs to a group, but this is inside a thread's map"
            )
        buffer = nest.Buffer(self._name("tile" if space == "local" else "own"), space, node.type)
        if space == "local":
            self._locals.append(buffer)
        else:
            self._block.append(nest.Declaration(buffer))
        self._write(x, env, buffer.view)
        return buffer.view

    def _variable(self, name: str, kind: Type, value: nest.Term) -> nest.Load:
        variable = nest.Load(nest.Buffer(self._name(name), "private", kind), ())
        self._block.append(nest.Assignment(variable, value, declares=True))
        return variable

    def _name(self, wanted: str) -> str:
        """Choose a name that is new in the kernel."""
        numbered = (f"{wanted}_{number}" for number in itertools.count(1))
        name = next(n for n in itertools.chain([wanted], numbered) if n not in self._taken)
        self._taken.add(name)
        return name

    def _row(self, node: Node, env: Env) -> nest.ArrayView:
        view = self._value(node, env)
        assert isinstance(view, nest.ArrayView)
        return view

    def _term(self, node: Node, env: Env) -> nest.Term:
        view = self._value(node, env)
        assert not isinstance(view, (nest.ArrayView, tuple))
        return view

    def _bound(self, node: Node, env: Env) -> Env:
        fun, x = node.children
        return {**env, fun.data[0]: self._value(x, env)}

    # ----------------------------------------------------------------- writing

    def _write(self, node: Node, env: Env, out: nest.View) -> None:
        """Compute an expression into memory."""
        if isinstance(out, nest.Load):
            self._store(out, self._term(node, env))
        elif isinstance(out, tuple):
            raise StencilError(f"{node}: a result must consist of numbers, not tuples")
        elif node.op == "map" and not node.rearranges:
            self._write_map(node, env, out)
        elif node.op in REARRANGING:
            self._write(node.children[-1], env, _before(node, out))
        elif node.op == "let":
            self._write(node.children[0].body, self._bound(node, env), out)
        else:
            self._copy(self._value(node, env), out)

    def _write_map(self, node: Node, env: Env, out: nest.View) -> None:
        fun, x = node.children
        row, (kind, dim) = self._row(x, env), node.data
        assert isinstance(out, nest.ArrayView)
        if kind == "unroll":
            for index in map(constant, range(row.length)):
                self._write(fun.body, {**env, fun.data[0]: row.at(index)}, out.at(index))
            return
        self._check_nesting(node)
        with self._loop("seq" if kind == "any" else kind, dim, row.length) as i:
            self._write(fun.body, {**env, fun.data[0]: row.at(i)}, out.at(i))

    def _copy(self, view: nest.View, out: nest.View) -> None:
        if isinstance(out, nest.ArrayView):
            assert isinstance(view, nest.ArrayView)
            with self._loop("seq", 0, out.length) as i:
                self._copy(view.at(i), out.at(i))
        else:
            assert isinstance(out, nest.Load)
            assert not isinstance(view, (nest.ArrayView, tuple))
            self._store(out, view)

    def _store(self, target: nest.Load, value: nest.Term) -> None:
        alone = [key for key in self._shared if key not in self._active]
        if target.buffer.space != "private" and alone:
            missing = ", ".join(f"{kind} {dim}" for kind, dim in sorted(alone))
            raise StencilError(
                f"{self._expression}: threads along {missing} all do the same work; compute "
                "every result inside maps over all dimensions that are used"
            )
        self._block.append(nest.Assignment(target, value))

    def _check_nesting(self, node: Node) -> None:
        kind, dim = node.data
        if kind not in PARALLEL:
            return
        around = {k for k, _ in self._active}
        if (kind, dim) in self._active:
            raise StencilError(f"{node}: it is inside a {kind} map of the same dimension")
        wrong = {"global": {"workgroup", "local"}, "workgroup": {"global", "local"}}
        if around & wrong.get(kind, {"global"}) or (kind == "local" and "workgroup" not in around):
            where = "inside a workgroup map" if kind == "local" else "outside groups"
            raise StencilError(f"{node}: a {kind} map must be {where}")

    @contextmanager
    def _loop(self, kind: str, dim: int, extent: int) -> Iterator[Index]:
        """Collect the statements added within as the body of a loop."""
        workers = 1 if kind == "seq" else self._ndrange.workers(kind, dim)
        if extent == 1 and kind == "seq":
            yield constant(0)
            return
        is_own = kind != "seq" and extent <= workers
        name = ID_NAMES[kind].format("xyz"[dim]) if is_own else self._loop_name()
        variable = Variable(name, 0, extent - 1)
        outer, self._block = self._block, []
        self._active.append((kind, dim))
        self._depth += not is_own
        yield variable.index
        self._depth -= not is_own
        self._active.pop()
        outer.append(nest.Loop(kind, dim, variable, extent, workers, self._block))
        self._block = outer

    def _loop_name(self) -> str:
        more, index = divmod(self._depth, len(self._loop_names))
        return self._loop_names[index] + (str(more) if more else "")


def _own_names(expression: Node) -> Iterator[str]:
    """Yield the names of inputs and user functions."""
    for node in expression.subexpressions():
        if node.op == "input":
            yield node.data[0]
        yield from (part.name for part in node.data if isinstance(part, UserFun))


def _width(node: Node) -> int:
    """Return the inner length of an array of arrays."""
    return shape(node.type)[1]


# ---------------------------------------------------------- writing through words that rearrange


def _before(node: Node, out: nest.View) -> nest.View:
    """Return where to write the argument of a rearranging word, so that its result is in `out`."""
    assert isinstance(out, nest.ArrayView)
    x = node.children[-1]
    if node.op == "join":
        return out.windows(_width(x), _width(x))
    if node.op == "split":
        return out.joined(node.data[0])
    if node.op == "transpose":
        return out.transposed(shape(x.type)[0])
    return nest.ArrayView(out.length, lambda i: _before_all(node.children[0], out.at(i)))


def _before_all(fun: Node, out: nest.View) -> nest.View:
    node = fun.body
    while node is not fun.data[0]:
        out = _before(node, out)
        node = node.children[-1]
    return out
