"""Compare the arguments of a launch with the parameters that the kernel has in its source.

What is not certain is not compared: types that the source defines, and parameters behind macros
or preprocessor lines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from harness.core.errors import LaunchFailed
from harness.core.kernel_name import plain_name
from harness.core.program import Launch
from harness.discover.syntax import Argument, KernelSignature, NumpyType, find_kernels
from harness.measure.kernels.data import KernelData
from harness.measure.opencl.module import KernelParameter, why_unfit
from harness.source.kernel_source import Source
from harness.source.preprocessor import macros_of
from harness.source.syntax_tree import CUDA, ParserText, prepare
from harness.space_file import Spec

_C_NAMES = {
    "bool_": "bool", "int8": "char", "uint8": "uchar", "int16": "short", "uint16": "ushort",
    "int32": "int", "uint32": "uint", "int64": "long", "uint64": "ulong",
    "float16": "half", "float32": "float", "float64": "double",
}  # fmt: skip
_OWN_TYPE = re.compile(r"\btypedef\b[^;]*?(\w+)\s*;|\b(?:using|struct|class|union|enum)\s+(\w+)")
_DEFINED_BY_OPTION = re.compile(r"-D\s*(\w+)")
_SUFFIXES = {"cuda": ".cu", "opencl": ".cl"}


class SourceArguments:
    """The parameters of a space's kernels, as its source in one language has them."""

    def __init__(self, spec: Spec, language: str) -> None:
        self._language = language
        source = spec.sources[language]
        texts = [prepare(t, _SUFFIXES[language]) for t in (source.text, *source.includes.values())]
        self._kernels = [
            kernel
            for text in texts
            for kernel in find_kernels(text)
            if not kernel.unreadable and not _has_directive(text, kernel)
        ]
        self._aliases = _aliases(spec, language, source, texts)

    def check(self, launch: Launch, data: KernelData, *, by_name: bool = False) -> None:
        """Raise LaunchFailed where the kernel takes other types, or with `by_name` the same names
        in another order.

        Where the source has several definitions, one must fit.
        """
        launch = launch.filling(data.constants) if self._language == CUDA else launch
        name, count = plain_name(launch.function), len(launch.arguments)
        names = [
            self._why_unfit(launch, taken, data, by_name)
            for kernel in self._kernels
            if kernel.name == name
            and len(taken := [a for a in kernel.arguments if not a.is_local]) == count
        ]
        if names and all(names):
            raise LaunchFailed(names[0])

    def _why_unfit(
        self, launch: Launch, taken: Sequence[Argument], data: KernelData, by_name: bool
    ) -> str | None:
        passed, names = list(map(str, launch.arguments)), [argument.name for argument in taken]
        pairs = zip(passed, names, strict=True)
        if by_name and any(one != other and one in names for one, other in pairs):
            return (
                f"{launch.function} takes its arguments in another order: it takes "
                f"{', '.join(names)}; the host module passes {', '.join(passed)}"
            )
        values = [v if isinstance(v, np.generic) else data.arguments[v] for v in launch.arguments]
        parameters = [self._parameter(*pair) for pair in zip(taken, values, strict=True)]
        return why_unfit(launch, parameters, values)

    def _parameter(self, argument: Argument, value: object) -> KernelParameter:
        if argument.is_pointer and self._language == CUDA and isinstance(value, np.generic):
            return KernelParameter()  # an address
        kind = NumpyType.of(argument.type_name, self._aliases, self._language)
        if kind is None or (kind.width > 1 and not argument.is_pointer):
            return KernelParameter()
        width = str(kind.width) if kind.width > 1 else ""
        star = "*" if argument.is_pointer else ""
        return KernelParameter(f"{_C_NAMES[kind.name]}{width}{star}", argument.is_pointer)


def _has_directive(text: ParserText, kernel: KernelSignature) -> bool:
    """Return whether a preprocessor line stands in the head of a kernel."""
    start, end = kernel.span
    end = start + text.text[start:end].find(b"{")
    return any(start <= directive.start < end for directive in text.scan.directives)


def _aliases(
    spec: Spec, language: str, source: Source, texts: Sequence[ParserText]
) -> Mapping[str, str]:
    """Return the words that stand for types, each with its type; empty where that is not known."""
    macros = macros_of(d for text in texts for d in text.scan.directives)
    aliases = {word: texts[0] if len({*texts}) == 1 else "" for word, texts in macros.items()}
    own = (match for text in texts for match in _OWN_TYPE.finditer(text.text.decode()))
    aliases |= dict.fromkeys((match[1] or match[2] for match in own), "")
    aliases |= {p.name: p.default for p in spec.parameters if isinstance(p.default, str)}
    options = _DEFINED_BY_OPTION.findall(" ".join(spec.compilers.options(language)))
    return aliases | dict.fromkeys((*options, *source.template_names), "")
