"""The text of a host module for functions that live in a notebook or a script.

Kernels are measured in another process, which imports their host module from a file. So the source
of the functions is copied, with what they use: imports, constants, and other functions.
"""

from __future__ import annotations

import ast
import dis
import inspect
import sys
import textwrap
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, ModuleType

from harness.core.errors import UsageError

_ADVICE = "or write the functions to a file, and give its path as kernel.host"


def host_text(members: Mapping[str, object]) -> str:
    """Return the text of a module that defines these functions and constants by their names.

    Raises UsageError for what cannot be copied: a function without source, with a decorator or with
    variables of a function around it, and a value that is not plain data.
    """
    copier = _Copier({f.__module__ for f in members.values() if isinstance(f, FunctionType)})
    for name, member in members.items():
        copier.add(name, member, "kernel.host")
    return copier.text


class _Copier:
    """Collects the text of functions and of what they use."""

    def __init__(self, modules: set[str]) -> None:
        """`modules` are those whose functions are copied; others are imported."""
        self._modules = modules
        self._imports: list[str] = ["from __future__ import annotations\n"]
        self._constants: list[str] = []
        self._functions: list[str] = []
        self._added: dict[str, object] = {}

    @property
    def text(self) -> str:
        """The module's text."""
        parts = ("".join(self._imports), "".join(self._constants), *self._functions)
        return "\n\n".join(part for part in parts if part)

    def add(self, name: str, value: object, used_by: str) -> None:
        """Add a name and what its value needs, once."""
        if name in self._added:
            if self._added[name] is not value:
                raise UsageError(f"{used_by}: two files define `{name}`; rename one, {_ADVICE}")
            return
        self._added[name] = value
        if isinstance(value, ModuleType):
            self._imports.append(f"import {value.__name__} as {name}\n")
        elif isinstance(value, FunctionType) and value.__module__ in self._modules:
            self._add_function(name, value)
        elif _is_importable(value):
            origin, own = value.__module__, getattr(value, "__name__", "")
            self._imports.append(f"from {origin} import {own} as {name}\n")
        else:
            self._constants.append(f"{name} = {_literal(name, value, used_by)}\n")

    def _add_function(self, name: str, function: FunctionType) -> None:
        own = function.__name__
        if name != own:
            self.add(own, function, "kernel.host")
            self._functions.append(f"{name} = {own}\n")
            return
        text, tree = _source_of(function)
        for used in _names_in(function, tree):
            if used != own and used in function.__globals__:
                self.add(used, function.__globals__[used], f"{own}()")
        self._functions.append(text)


def _source_of(function: FunctionType) -> tuple[str, ast.FunctionDef]:
    """Return a function's source and its syntax tree."""
    name = function.__name__
    try:
        text = textwrap.dedent(inspect.getsource(function))
        tree = ast.parse(text).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        raise UsageError(f"kernel.host: the source of `{name}` is not known; {_HOW}") from None
    if not isinstance(tree, ast.FunctionDef) or tree.decorator_list:
        raise UsageError(f"kernel.host: `{name}` is not a plain function (`def`); {_HOW}")
    if function.__closure__:
        outer = ", ".join(function.__code__.co_freevars)
        raise UsageError(
            f"kernel.host: {name}() uses {outer} of the function around it; pass plain functions, "
            f"{_ADVICE}"
        )
    return text, tree


_HOW = f"define it with `def` in a notebook's cell or a script, {_ADVICE}"


def _names_in(function: FunctionType, tree: ast.FunctionDef) -> Iterator[str]:
    """Yield the global names that a function reads, also for its defaults; annotations stay text.

    The compiler knows which names are local: one of them may be that of a notebook's variable.
    """
    defaults = [node for node in (*tree.args.defaults, *tree.args.kw_defaults) if node]
    nodes = (node for default in defaults for node in ast.walk(default))
    found = [node.id for node in nodes if isinstance(node, ast.Name)]
    yield from dict.fromkeys([*found, *_globals_of(function.__code__)])


def _globals_of(code: CodeType) -> Iterator[str]:
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield step.argval
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _globals_of(inner)


def _is_importable(value: object) -> bool:
    """Say whether a function or class can be imported from its module by its name."""
    module, name = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__":
        return False
    return getattr(sys.modules.get(module), name, None) is value


def _literal(name: str, value: object, used_by: str) -> str:
    """Return the text of plain data."""
    text = repr(value)
    try:
        if ast.literal_eval(text) == value:
            return text
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        pass
    raise UsageError(
        f"{used_by} uses `{name}`, an object of the type {type(value).__name__}, which cannot be "
        f"copied to the process that measures; make it inside the function, {_ADVICE}"
    )
