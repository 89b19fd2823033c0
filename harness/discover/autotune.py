"""Python file with @triton.autotune -> a space of the listed values, and its host module.

The file is not run. The host module gets a copy of the kernel and of what it uses: results then
belong to the kernel as it was measured, and a dispatcher takes it along.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path
from textwrap import dedent
from typing import Any

from harness.constraints import arithmetic
from harness.constraints.expression import Expression, operands_of
from harness.core.errors import ExpressionError, Fault, SpecError, UsageError
from harness.core.records import Value
from harness.core.text import escaped, printable, template
from harness.discover import space_file
from harness.discover.facts import choose
from harness.source.kernel_source import read_text

_AUTOTUNE = ("configs", "key", "prune_configs_by", "reset_to_zero", "restore_value")
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")  # of any kernel
_DEFAULTS = {"num_warps": 4, "num_stages": 3}

_TARGETS = {"is_cuda": True, "is_hip": False}
"""What Triton's examples ask before they list configurations."""

_CALLS: Mapping[str, Any] = {f.__name__: f for f in (dict, product, list, range, tuple, zip)}
_MOST_STEPS = 1_000_000  # a file may ask for any number of configurations

_Names = dict[str, Any]


def triton_texts(path: Path, function: str | None, folder: Path, host: Path | None) -> list[str]:
    """Return the texts of the space, with paths relative to the folder, and of the host module.

    Raises UsageError or SpecError if no space can be made of the file.
    """
    try:
        text = read_text(path)
        facts = _facts(path, text, ast.parse(text, path.name), function)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    named = host or path.with_name(f"{path.stem}_host.py")
    facts |= {"host": space_file.path_text(named, folder), "has_host": host or named.exists()}
    return [template("harness.discover", f"triton.{end}").render(facts) for end in ("yaml", "py")]


def _facts(path: Path, text: str, module: ast.Module, function: str | None) -> dict[str, Any]:
    """Return what the templates need about a kernel under @triton.autotune."""
    decorated = [
        (node, decorator)
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call) and _last_name(decorator.func) == "autotune"
    ]
    if not decorated:
        said = "@triton.autotune(configs=[triton.Config({...}, num_warps=4)], key=[...])"
        raise UsageError(f"{path} has no function under {said}; write it above @triton.jit")
    kernel, autotune = decorated[choose(path, [(k.name, k.lineno) for k, _ in decorated], function)]
    kernel.decorator_list.remove(autotune)
    kernel.decorator_list = [d for d in kernel.decorator_list if _last_name(d) != "staticmethod"]
    given = dict(zip(_AUTOTUNE, autotune.args, strict=False))
    given |= {keyword.arg or "": keyword.value for keyword in autotune.keywords}
    reader, empty = _ListReader(path, text, module), ast.List([])
    alone = _ListedConfig(autotune.lineno, _DEFAULTS, False)  # as Triton does
    configs = reader.listed(given.get("configs", empty), _ListedConfig) or [alone]
    for config in configs:
        is_named = all(str(name).isidentifier() for name in config.values)
        is_plain = {*map(type, config.values.values())} <= {bool, int, float, str}
        if not (is_named and is_plain) or config.values.keys() != configs[0].values.keys():
            said = "all configurations must set the same names, to numbers, texts, True or False"
            raise reader.fault(config.line, said)
    names = ("key", "reset_to_zero", "restore_value")
    key, zeroed, restored = (reader.listed(given.get(name, empty), str) for name in names)
    heuristics = "".join(d for d in map(ast.unparse, kernel.decorator_list) if "heuristics" in d)
    optional = kernel.args.args[len(kernel.args.args) - len(kernel.args.defaults) :]
    return {
        "file": escaped(path.name),
        "kernel": kernel,
        "configs": configs,
        "assumes_cuda": any(f"{name}(" in text for name in _TARGETS),
        "doubts": reader.doubts,
        "conditions": [(*at, _constraint(c, configs)) for at, c in reader.conditions.items()],
        "is_pruned": "prune_configs_by" in given,
        "parameters": {n: _entry([c.values[n] for c in configs]) for n in configs[0].values},
        "options": _OPTIONS,
        "text_of": space_file.value_text,
        "features": {name: space_file.feature_name(name, (kernel.name,)) for name in key},
        "size": space_file.start_size(key),
        "is_constant": {
            a.arg: "constexpr" in ast.unparse(a)
            for a in (*kernel.args.args, *kernel.args.kwonlyargs)
            if a.arg in key
            or not (a in optional or a.arg in configs[0].values or f"{a.arg!r}: " in heuristics)
        },
        "zeroed": zeroed,
        "restored": restored,
        "sources": _sources(text, module, kernel),
    }


def _entry(values: Sequence[Value]) -> str:
    """Return a parameter's values as YAML; the first one is the default."""
    listed = list(dict.fromkeys(values))
    if all(type(value) in (int, float) for value in listed):
        listed.sort()
    return f"{space_file.values_text(listed)}, default: {space_file.value_text(values[0])}"


def _constraint(text: str, configs: Sequence[_ListedConfig]) -> str:
    """Return a condition as YAML; empty if spaces cannot state it, or a configuration breaks it."""
    try:
        condition = Expression(text)
    except ExpressionError:
        return ""
    holds = all(condition.names <= c.values.keys() and condition.allows(c.values) for c in configs)
    return space_file.expression_text(condition.text) if holds else ""


# ---------------------------------------------------------------------- what the kernel uses


def _sources(text: str, module: ast.Module, kernel: ast.FunctionDef) -> list[str]:
    """Return the text of a kernel, and before it of what it uses from the top level of its file."""
    taken: list[ast.stmt] = [kernel]
    _, used = _names(kernel)
    while more := [n for n in module.body if n not in taken and _names(n)[0] & used]:
        taken += more
        used = used.union(*(_names(node)[1] for node in more))
    return [
        "".join(f"@{ast.unparse(decorator)}\n" for decorator in getattr(node, "decorator_list", ()))
        + dedent(ast.get_source_segment(text, node, padded=True) or "")
        + ("  # FILL IN: an absolute import" if getattr(node, "level", 0) else "")
        for node in sorted(taken, key=lambda node: (node is kernel, node.lineno))
    ]


def _names(statement: ast.stmt) -> tuple[set[str], set[str]]:
    """Return the names that a statement gives values, and the others that it uses."""
    nodes = list(ast.walk(statement))
    names = {n.id for n in nodes if isinstance(n, ast.Name)}
    own = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    own |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {statement.name}, names - own
    aliases = (n.asname or n.name for n in nodes if isinstance(n, ast.alias))
    return own.union(alias.partition(".")[0] for alias in aliases), names - own


def _last_name(node: ast.expr) -> str:
    """Return the last part of a dotted name; empty for anything else."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


# ------------------------------------------------------------------------------ reading lists


@dataclass(frozen=True)
class _ListedConfig:
    """A `triton.Config` of a list: its line, and its values by parameter."""

    line: int
    values: Mapping[str, Any]
    has_hook: bool


class _ListReader:
    """Read the expressions of a file; raise SpecError for those that would have to run.

    What can be read: literals, arithmetic, comprehensions, names that the file sets at its top
    level, and its functions without parameters that only choose, append and return.
    `conditions` maps the line and text of what leaves configurations out to the same condition with
    parameters for its names. `doubts` maps names to the line that may change them.
    """

    def __init__(self, path: Path, text: str, module: ast.Module) -> None:
        self._path, self._text, self._steps_left = path, text, _MOST_STEPS
        self._defined: dict[str, ast.expr | ast.FunctionDef] = {}
        self._changed: dict[str, int] = {}
        self.conditions: dict[tuple[int, str], str] = {}
        self.doubts: dict[str, int] = {}
        self._define(module.body)

    def _define(self, body: Sequence[ast.stmt]) -> None:
        """Take the names that statements of the top level set."""
        for node in body:
            match node:
                case ast.FunctionDef():
                    self._defined[node.name] = node
                case ast.Assign():
                    self._defined[_last_name(node.targets[0])] = node.value
                case ast.If(test=ast.Call(func=ast.Name(id=name))) if name in _TARGETS:
                    self._define(node.body if _TARGETS[name] else node.orelse)
                case ast.If() | ast.For() | ast.AugAssign() | ast.Expr():
                    names = (n.id for n in ast.walk(node) if isinstance(n, ast.Name))
                    self._changed |= dict.fromkeys(names, node.lineno)

    def listed(self, node: ast.expr, kind: type) -> list[Any]:
        """Return a list of texts or configurations."""
        value = self._value(node, {})
        if not (isinstance(value, list) and all(isinstance(item, kind) for item in value)):
            raise self._unreadable(node)
        return value

    def fault(self, line: int, text: str) -> SpecError:
        """Return an error at a line."""
        return SpecError([Fault(str(self._path), line, text)])

    def _unreadable(self, node: ast.expr | ast.stmt) -> SpecError:
        source = (ast.get_source_segment(self._text, node) or "").partition("\n")[0]
        text = f"`{printable(source)}` cannot be read without running the file; print its value in"
        return self.fault(node.lineno, f"{text} a run, and write it in its place as a literal")

    def _value(self, node: ast.expr, names: _Names) -> Any:
        try:
            value = self._evaluated(node, names)
        except (ExpressionError, TypeError, ValueError, LookupError, ArithmeticError):
            raise self._unreadable(node) from None
        self._steps_left -= 1 + (len(value) if isinstance(value, list) else 0)
        if self._steps_left < 0:
            raise self.fault(node.lineno, "the configurations take too long to read; list fewer")
        return value

    def _evaluated(self, node: ast.expr, names: _Names) -> Any:
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None):
                return node.value
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.Name(id=name) if isinstance(assigned := self._defined.get(name), ast.expr):
                if name in self._changed:
                    self.doubts[name] = self._changed[name]
                return self._value(assigned, {})
            case ast.List() | ast.Tuple():
                return [self._value(element, names) for element in node.elts]
            case ast.Dict(keys=keys) if None not in keys:
                items = zip(filter(None, keys), node.values, strict=True)
                return {self._value(key, names): self._value(v, names) for key, v in items}
            case ast.ListComp() | ast.GeneratorExp():
                inner = self._bound(node.generators, names)
                made = [self._value(node.elt, bound) for bound in inner]
                if made and isinstance(made[0], (list, dict, _ListedConfig)):
                    self._note([test for loop in node.generators for test in loop.ifs], node.elt)
                return made
            case ast.IfExp():
                branch = node.body if self._value(node.test, names) else node.orelse
                return self._value(branch, names)
            case ast.BinOp() | ast.UnaryOp() | ast.BoolOp() | ast.Compare():
                operands = [self._value(operand, names) for operand in operands_of(node)]
                if isinstance(getattr(node, "op", None), ast.Add) and list in map(type, operands):
                    return [*operands[0], *operands[1]]
                return arithmetic.as_value(arithmetic.apply(node, operands))
            case ast.Call():
                return self._called(_last_name(node.func), node, names)
        raise self._unreadable(node)

    def _called(self, name: str, node: ast.Call, names: _Names) -> Any:
        named = {keyword.arg or "": keyword.value for keyword in node.keywords}
        if name == "Config":
            given = dict(zip(("kwargs", *_OPTIONS, "pre_hook"), node.args, strict=False)) | named
            values = {n: self._value(v, names) for n, v in given.items() if n != "pre_hook"}
            values = values.pop("kwargs", {}) | _DEFAULTS | values
            return _ListedConfig(node.lineno, values, "pre_hook" in given)
        defined = self._defined.get(name)
        if name in _TARGETS:
            return _TARGETS[name]
        if isinstance(defined, ast.FunctionDef) and not (node.args or named):
            return self._returned(defined.body, {})
        if name == "filter":
            self._note(node.args[:1], node)
            return self._value(node.args[1], names)
        positional = [self._value(argument, names) for argument in node.args]
        items = _CALLS[name](*positional, **{k: self._value(v, names) for k, v in named.items()})
        return items if name == "dict" else list(islice(items, self._steps_left))

    def _bound(self, loops: Sequence[ast.comprehension], names: _Names) -> Iterator[_Names]:
        """Yield the names inside the loops of a comprehension."""
        if not loops:
            yield names
            return
        for item in self._value(loops[0].iter, names):
            bound = names | _assigned(loops[0].target, item)
            # What leaves out configurations is noted; it may need a run.
            if isinstance(item, _ListedConfig) or all(self._value(t, bound) for t in loops[0].ifs):
                yield from self._bound(loops[1:], bound)

    def _note(self, tests: Iterable[ast.expr], made: ast.AST) -> None:
        """Note the conditions under which something is made, with parameters for their names."""
        settings = re.findall(r"(\w+)(?:': |=)([^\W\d]\w*)(?=[,})])", ast.unparse(made))
        parameters = {name: parameter for parameter, name in settings}
        for test in tests:
            source = printable(ast.unparse(test))
            condition = re.sub(r"\w+", lambda word: parameters.get(word[0], word[0]), source)
            self.conditions[test.lineno, source] = condition

    def _returned(self, body: Sequence[ast.stmt], names: _Names) -> Any:
        """Return what the statements of a function return; None where they return nothing."""
        for statement in body:
            returned = None
            match statement:
                case ast.Return(value=ast.expr() as value):
                    return self._value(value, names)
                case ast.If():
                    chosen = self._value(statement.test, names)
                    returned = self._returned(statement.body if chosen else statement.orelse, names)
                case ast.Assign(targets=[ast.Name(id=name)]):
                    names[name] = self._value(statement.value, names)
                case ast.For(orelse=[]):
                    inside = ast.walk(statement)
                    self._note([n.test for n in inside if isinstance(n, ast.If)], statement)
                    for item in self._value(statement.iter, names):
                        names.update(_assigned(statement.target, item))
                        returned = returned or self._returned(statement.body, names)
                case ast.Expr(ast.Call(ast.Attribute(ast.Name(id=name), "append"), args=[added])):
                    list.append(names[name], self._value(added, names))
                case ast.Expr(value=ast.Constant()):  # a docstring
                    pass
                case _:
                    raise self._unreadable(statement)
            if returned is not None:
                return returned
        return None


def _assigned(target: ast.expr, value: Any) -> _Names:
    """Return the names that a loop gives values."""
    if isinstance(target, ast.Name):
        return {target.id: value}
    pairs = zip(getattr(target, "elts", ()), value, strict=True)
    return {n: v for element, item in pairs for n, v in _assigned(element, item).items()}
