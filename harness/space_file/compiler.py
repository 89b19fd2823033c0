"""What kernels are compiled with besides the tuned flags: options, include folders, a deadline."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Annotated, Final, Literal

from pydantic import Field, StrictBool, StrictFloat, StrictInt

from harness.space_file.document import Document, Location
from harness.space_file.messages import StrictModel
from harness.space_file.tuned import Line

COMPILERS = {"cuda": "nvcc", "opencl": "opencl"}
"""The key of each language's options; NVRTC takes those of nvcc."""

AUTO: Final = "auto"

_REFUSED = (
    (r"(-std|--std|-cl-std)(=.*)?", "gives the standard: write `std` beside `options`"),
    (
        r"-I.*|(--include-path|-isystem|--system-include)(=.*)?",
        "names a folder of included files: write it under `include` beside `options`, so that "
        "changed files are noticed",
    ),
    (
        r"(-arch|--gpu-architecture|-code|--gpu-code|-gencode|--generate-code|-march)(=.*)?",
        "names an architecture, but harness compiles for the device; for one with a suffix, "
        "such as sm_90a, write `arch_specific: true`",
    ),
    (
        r"-o|--output-file(=.*)?|-c|-E|-x|--x=.*|(-rdc|--relocatable-device-code)=true"
        r"|-{1,2}(cubin|ptx|fatbin|compile|link|lib|run|preprocess|dc|dw|dlink)",
        "decides what the compiler writes, which harness does; remove it",
    ),
)
"""Options that harness or another key gives, and what to do instead."""

_DEFINE = re.compile(r"(?:-D|--define-macro=)([A-Za-z_]\w*)(?:=.*)?")


class _CompilerModel(StrictModel):
    """How one compiler builds the kernels, whatever the configuration."""

    options: list[Line] = Field(default_factory=list, max_length=200)
    """options of every build, in order"""
    include: list[Line] = Field(default_factory=list, max_length=50)
    """folders of included files, relative to the space file"""
    std: Line | None = None
    """the standard, such as c++17 or CL2.0"""
    build_timeout_s: Annotated[StrictInt | StrictFloat, Field(gt=0, le=86_400)] | None = None
    """seconds that one build may take"""


class NvccModel(_CompilerModel):
    """How nvcc builds the kernels."""

    arch_specific: StrictBool = False
    """compile for sm_90a, sm_100a, ... on a device that has it"""


class CompilersModel(StrictModel):
    """How kernels are compiled, by compiler."""

    cuda: Literal["auto", "nvcc", "nvrtc"] = AUTO
    """what compiles CUDA kernels; auto decides by what is installed"""
    nvcc: NvccModel = Field(default_factory=NvccModel)
    """used by the cuda backend"""
    opencl: _CompilerModel = Field(default_factory=_CompilerModel)
    """used by the opencl backend"""

    def of(self, language: str) -> _CompilerModel:
        """Return the settings of a language."""
        return self.nvcc if language == "cuda" else self.opencl

    def options(self, language: str) -> tuple[str, ...]:
        """Return the options of every build, which begin with the standard."""
        model, std = self.of(language), "-std" if language == "cuda" else "-cl-std"
        return (*([] if model.std is None else [f"{std}={model.std}"]), *model.options)

    def sha256_parts(self, language: str) -> list[str]:
        """Return what decides the builds; the content of included files is part of the source."""
        options = self.options(language)
        fixed = [json.dumps(["options", *options])] if options else []
        is_specific = language == "cuda" and self.nvcc.arch_specific
        return [*fixed, *["arch_specific"] * is_specific]


def check_compiler_options(
    document: Document, model: CompilersModel, parameters: Collection[str]
) -> None:
    """Check that no fixed option says what harness or another key says."""
    for language, compiler in COMPILERS.items():
        for index, option in enumerate(model.of(language).options):
            location: Location = ("compiler", compiler, "options", index)
            for pattern, reason in _REFUSED:
                if re.fullmatch(pattern, option):
                    document.fault(location, f"`{option}` {reason}")
            defined = _DEFINE.fullmatch(option)
            if defined and defined[1] in parameters:
                text = f"`{option}` defines {defined[1]}, which is a parameter; remove one of them"
                document.fault(location, text)
