"""The features of a dispatcher as code takes them, whole numbers, real numbers, or words, and names
and numbers as C and C++ read them."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from harness.constraints.expression import Expression
from harness.core.errors import UsageError
from harness.core.records import Value
from harness.dispatch.choice import DispatchProgram
from harness.models.columns import ColumnKind
from harness.source.preprocessor import C_WORDS

INT64_MAX = 2**63 - 1

_NAMES_OF_HEADERS = """
    char16_t char32_t typeof int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t
    size_t NULL EOF errno linux unix I
"""
# Names that generated functions use besides features; a test keeps this complete.
_OWN_WORDS = """
    DBL_MAX INT64_C costs count depth grid group i index least more most next nodes numbers offsets
    order size sizes sqrt top tree
"""
_RESERVED_IN_C = frozenset([*C_WORDS.split(), *_NAMES_OF_HEADERS.split()])
_RESERVED = _RESERVED_IN_C | {*_OWN_WORDS.split()}


def variable(name: str) -> str:
    """Make a feature's name a variable of C and C++; different names stay different."""
    return _apart(name, _RESERVED)


def member(name: str) -> str:
    """Make a parameter's name a member of a C struct; different names stay different."""
    return _apart(name, _RESERVED_IN_C)


def _apart(name: str, reserved: Collection[str]) -> str:
    # Names that begin with an underscore are the generated code's own.
    return f"{name}_" if name.rstrip("_") in reserved or name.startswith("_") else name


def c_real(number: float) -> str:
    """Make a literal of exactly this double: compilers round to nearest, as Python's repr
    expects."""
    text = repr(float(number))
    if not math.isfinite(number):
        raise ValueError(f"{text} has no literal")
    return f"({text})" if text.startswith("-") else text


class Type(Enum):
    """The type of a feature or an expression; features have it in C."""

    WHOLE = "int64_t"
    REAL = "double"
    TRUTH = "int"
    WORD = "enum"


@dataclass(frozen=True)
class Feature:
    """A feature as code takes it: a whole number, a real number, or one of `words`."""

    name: str
    type: Type
    words: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        """Its name in code."""
        return variable(self.name)

    def c_word(self, dispatcher: str, word: str) -> str:
        """Return the C constant of a word, in the header of the dispatcher of this name."""
        spelled = [_spelled(other) for other in self.words]
        own = _spelled(word)
        # Words that are spelled alike, such as `a-b` and `a+b`, get their index.
        index = f"_{self.words.index(word)}" if spelled.count(own) > 1 or not own else ""
        return f"{dispatcher.upper()}_{self.name.upper()}_IS_{own}{index}"


def _spelled(word: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in word.upper())


def features_of(
    program: DispatchProgram, names: Sequence[str], inputs: Sequence[Mapping[str, Value]]
) -> tuple[Feature, ...]:
    """Find the type of each feature from the inputs' values; raises UsageError for one that is
    sometimes a number and sometimes a word."""
    return tuple(_feature(program, name, [one[name] for one in inputs]) for name in names)


def _feature(program: DispatchProgram, name: str, values: Sequence[Value]) -> Feature:
    texts = [isinstance(value, str) for value in values]
    if any(texts):
        if not all(texts):
            raise UsageError(
                f"the feature {name} is a number for some inputs and a word for others; "
                "give all of its values one kind"
            )
        return Feature(name, Type.WORD, tuple(_words(program, name)))
    is_whole = all(isinstance(value, int) for value in values)
    return Feature(name, Type.WHOLE if is_whole else Type.REAL)


def _words(program: DispatchProgram, name: str) -> list[str]:
    """List all words that code compares a feature with, once each, the tuned ones first."""
    tuned = [word for t in program.tuned if t.feature == name for word in t.words]
    split = [
        c.word for c in program.columns if c.kind is ColumnKind.EQUALS and c.features[0] == name
    ]
    guards = [text for guards in program.guards for text in guards]
    trees = [node for text in guards for node in ast.walk(Expression(text).tree)]
    guarded = [node.value for node in trees if isinstance(node, ast.Constant)]
    chosen = [value for config in program.portfolio for value in config.values() if trees]
    names = itertools.chain(tuned, split, guarded, chosen)
    return list(dict.fromkeys(word for word in names if isinstance(word, str)))
