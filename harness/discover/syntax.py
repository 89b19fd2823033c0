"""Kernel source -> its kernels, and the numpy types of their arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.source.syntax_tree import (
    CONST_WORDS,
    CUDA,
    KERNEL_WORDS,
    LOCAL_WORDS,
    Blanked,
    Node,
    ParserText,
    ancestors,
    captured,
    line_of,
    text_of,
)

_HEADS = """
(function_declarator declarator: [(identifier) (field_identifier) (operator_name)
  (qualified_identifier) (template_function)]) @head
"""
"""The declarators of functions, in definitions and in prototypes alike."""

_DECLARATORS = ("pointer_declarator", "array_declarator", "reference_declarator",
                "parenthesized_declarator")  # fmt: skip

# Thread ids in CUDA, in OpenCL and in the words of portable.h.
_THREAD_IDS = re.compile(
    r"\b(?:(?:threadIdx|blockIdx)\s*\.\s*([xyz])\b"
    r"|get_(?:global|local|group)_id\s*\(\s*([012])\s*\)|(?:THREAD|BLOCK)_([XYZ])\b)"
)


@dataclass(frozen=True)
class Argument:
    """An argument of a kernel; `type_name` is the type of its elements, without qualifiers."""

    name: str
    type_name: str
    is_pointer: bool
    is_const: bool
    is_local: bool


@dataclass(frozen=True)
class _TemplateParameter:
    """A parameter of a kernel's template, with its default; `type_name` is empty for a type."""

    name: str
    line: int
    type_name: str
    default: str


@dataclass(frozen=True)
class KernelSignature:
    """A kernel's signature.

    `namespace` is its prefix, such as `lib::`. `span` holds the offsets where its definition begins
    and ends. `unreadable` holds the parameters that are not plain arguments. `sizes` are the
    group's, if the source fixes or bounds them. `dimensions` (1 to 3) is how many dimensions of
    thread ids it uses.
    """

    name: str
    namespace: str
    line: int
    span: tuple[int, int]
    arguments: tuple[Argument, ...]
    unreadable: tuple[str, ...]
    sizes: tuple[str, ...]
    dimensions: int
    template: tuple[_TemplateParameter, ...]


def find_kernels(prepared: ParserText) -> tuple[KernelSignature, ...]:
    """Find the kernels that the text defines, in order."""
    marked = _marked(prepared, prepared.parsed(), KERNEL_WORDS)
    return tuple(
        _kernel(prepared, mark, head, _span(prepared, mark, around))
        for mark, head, around in marked
        if text_of(head.child_by_field_name("declarator")).isidentifier()
    )


def find_host_functions(prepared: ParserText) -> tuple[tuple[int, int], ...]:
    """Find the spans of the functions that run on the host alone; none in OpenCL."""
    if prepared.dialect != CUDA:
        return ()
    root = prepared.parsed()
    marked = _marked(prepared, root, (*KERNEL_WORDS, "__device__"))
    device = {around.start_byte for *_, around in marked}
    functions = (node for _, node in captured("(function_definition) @function", root))
    return tuple((n.start_byte, n.end_byte) for n in functions if n.start_byte not in device)


# ------------------------------------------------------------------------------ kernels


def _marked(
    prepared: ParserText, root: Node, words: Sequence[str]
) -> Iterator[tuple[Blanked, Node, Node]]:
    """Yield each of the words that marks a function, with its declarator and its definition."""
    heads = [node for _, node in captured(_HEADS, root)]
    for mark in (b for b in prepared.blanked if b.word in words):
        head = next((h for h in heads if h.start_byte >= mark.end), None)
        around = head.parent if head else None
        while around is not None and around.type in _DECLARATORS:
            around = around.parent
        if head is None or around is None or around.type != "function_definition":
            continue
        # A word that marks a variable does not mark the function behind it.
        if not set(b";{}").intersection(prepared.text[mark.end : head.start_byte]):
            yield mark, head, around


def _span(prepared: ParserText, mark: Blanked, around: Node) -> tuple[int, int]:
    """Where a definition begins, with its template's head and the words before it, and ends."""
    is_template = around.parent is not None and around.parent.type == "template_declaration"
    outer = around.parent if is_template and around.parent else around
    start = min(mark.start, outer.start_byte)
    for item in reversed(prepared.blanked):
        if item.end <= start:
            if prepared.text[item.end : start].strip():
                break
            start = item.start
    return start, around.end_byte


def _kernel(
    prepared: ParserText, mark: Blanked, head: Node, span: tuple[int, int]
) -> KernelSignature:
    around = list(ancestors(head))
    before = (b for b in prepared.blanked if span[0] <= b.start < head.start_byte)
    sizes = [size for b in before if (size := b.group_sizes)]
    arguments, unreadable = _arguments(prepared, head)
    return KernelSignature(
        name=text_of(head.child_by_field_name("declarator")),
        namespace=_namespace(around),
        line=line_of(head),
        span=span,
        arguments=arguments,
        unreadable=unreadable,
        sizes=sizes[0] if sizes else (),
        dimensions=_dimensions(prepared.text[slice(*span)].decode()),
        template=tuple(_template(around)),
    )


def _dimensions(body: str) -> int:
    """Count the dimensions of thread ids that a kernel uses, from 1 to 3."""
    axes = (match[1] or match[2] or match[3] for match in _THREAD_IDS.finditer(body))
    return max((1 + "x0y1z2".index(letter.lower()) // 2 for letter in axes), default=1)


def _namespace(around: Sequence[Node]) -> str:
    names = (n.child_by_field_name("name") for n in around if n.type == "namespace_definition")
    return "".join(f"{text_of(name)}::" for name in reversed([n for n in names if n]))


def _template(around: Sequence[Node]) -> Iterator[_TemplateParameter]:
    for head in (n for n in around if n.type == "template_declaration"):
        listed = head.child_by_field_name("parameters")
        for node in listed.named_children if listed else ():
            yield _template_parameter(node)


def _template_parameter(node: Node) -> _TemplateParameter:
    """Read a parameter; a pack and a template have the type `...`, which no number has."""
    name: Node | None = node.named_children[0]
    kind, default = "", node.child_by_field_name("default_type")
    if node.type not in ("type_parameter_declaration", "optional_type_parameter_declaration"):
        name, default = (node.child_by_field_name(f) for f in ("declarator", "default_value"))
        is_number = name is not None and name.type == "identifier"
        kind = text_of(node.child_by_field_name("type")) if is_number else "..."
    return _TemplateParameter(text_of(name), line_of(node), kind, text_of(default))


def _arguments(prepared: ParserText, head: Node) -> tuple[tuple[Argument, ...], tuple[str, ...]]:
    listed = head.child_by_field_name("parameters")
    arguments: list[Argument] = []
    unreadable: list[str] = []
    begin = listed.start_byte if listed else head.end_byte
    for node in listed.named_children if listed else ():
        words = {b.word for b in prepared.blanked if begin <= b.start < node.end_byte}
        begin = node.end_byte
        argument = _argument(node, words)
        if argument:
            arguments.append(argument)
        elif text_of(node) != "void":
            unreadable.append(text_of(node))
    return tuple(arguments), tuple(unreadable)


def _argument(node: Node, words: set[str]) -> Argument | None:
    kind, inner = text_of(node.child_by_field_name("type")), node.child_by_field_name("declarator")
    depth = 0
    while inner is not None and inner.type in _DECLARATORS:
        depth += inner.type != "parenthesized_declarator"
        inner = inner.child_by_field_name("declarator") or next(
            (c for c in inner.named_children if c.type in (*_DECLARATORS, "identifier")), None
        )
    if node.has_error or not kind or inner is None or inner.type != "identifier" or depth > 1:
        return None
    qualifiers = {text_of(c) for c in node.children if c.type == "type_qualifier"} | words
    is_const = not qualifiers.isdisjoint(CONST_WORDS)
    return Argument(text_of(inner), kind, depth == 1, is_const, bool(words & LOCAL_WORDS))


# ------------------------------------------------------------------------------ types

_SCALARS = {
    "bool": "bool_", "_Bool": "bool_",
    "char": "int8", "signed char": "int8", "int8_t": "int8",
    "unsigned char": "uint8", "uchar": "uint8", "uint8_t": "uint8",
    "short": "int16", "short int": "int16", "int16_t": "int16",
    "unsigned short": "uint16", "unsigned short int": "uint16", "ushort": "uint16",
    "uint16_t": "uint16",
    "int": "int32", "signed": "int32", "signed int": "int32", "int32_t": "int32",
    "unsigned": "uint32", "unsigned int": "uint32", "uint": "uint32", "uint32_t": "uint32",
    "long": "int64", "long int": "int64", "long long": "int64", "long long int": "int64",
    "longlong": "int64", "int64_t": "int64", "ptrdiff_t": "int64",
    "unsigned long": "uint64", "unsigned long int": "uint64", "ulong": "uint64",
    "unsigned long long": "uint64", "unsigned long long int": "uint64", "ulonglong": "uint64",
    "uint64_t": "uint64", "size_t": "uint64",
    "half": "float16", "__half": "float16", "float": "float32", "double": "float64",
}  # fmt: skip
_VECTOR = re.compile(r"([a-z]+?)(2|3|4|8|16)")
_ALIASES = 20


@dataclass(frozen=True)
class NumpyType:
    """A numpy scalar type by name; `width` is 1, or the number of scalars in a vector."""

    name: str
    width: int = 1

    @property
    def is_integer(self) -> bool:
        """Return whether the scalar is an integer."""
        return self.name.startswith(("int", "uint"))

    @property
    def size_bytes(self) -> int:
        """Return the size of an element."""
        return np.dtype(self.name.rstrip("_")).itemsize * self.width

    @classmethod
    def of(cls, type_name: str, aliases: Mapping[str, str], dialect: str) -> NumpyType | None:
        """Return the type of a C type; None for the kernel's own types.

        `aliases` are macros that stand for type names, such as `#define REAL float`.
        """
        for _ in range(_ALIASES):
            if type_name not in aliases:
                break
            type_name = aliases[type_name]
        name = type_name.removeprefix("std::")
        if name in _SCALARS:
            return cls(_SCALARS[name])
        vector = _VECTOR.fullmatch(name)
        if vector is None or vector[1] not in _SCALARS:
            return None
        width = int(vector[2])
        # OpenCL's vectors of three are stored like vectors of four.
        return cls(_SCALARS[vector[1]], 4 if width == 3 and dialect != "cuda" else width)


UNKNOWN_TYPE = NumpyType("float32")
"""The guess for a kernel's own types."""
