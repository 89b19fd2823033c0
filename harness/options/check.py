"""The options of check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from harness.core.errors import UsageError
from harness.core.options import BACKENDS, SEED, TEXT, Kind, Options, argument, flag, option
from harness.options.shared import SPACE, WHERE, device_option, json_flag, wait_option

_DEFAULT_COMPILED = 8


@dataclass(frozen=True)
class CheckOptions(Options):
    """Validate spaces, count their configurations, and compile the default.
    The host module runs; the kernel runs only with --run. The default of a program is built
    and run; with --compile it is only built."""

    epilog: ClassVar = """\
For completion in an editor, write the schema to a file and name it in the first line of a
space:

  python -m harness schema > space.schema.json
  # yaml-language-server: $schema=../space.schema.json

Exit code: 0 on success; 1 if a default or a host module fails, or with --strict any
configuration; 2 for a fault in a space or in the command, or if a default could not be run.
"""
    interrupted: ClassVar = (
        "; the build cache has what was compiled, and the same command continues from there"
    )

    spaces: Sequence[Path] = argument(SPACE, "SPACE", nargs="*")
    """space file (YAML)"""
    backend: str | None = option(TEXT, None, WHERE, choices=BACKENDS)
    device: Sequence[str] = device_option()
    archs: Sequence[str] = option(TEXT, "SM", names=("--arch",), several=True)
    """compile for this NVIDIA architecture, such as sm_90, or for several, such as sm_80,sm_90;
    needs no GPU"""
    compile: int | None = option(
        Kind.whole(0),
        "N",
        "also compile N other legal configurations, drawn uniformly, and print a summary: machine "
        f"codes, resources and failures (default {_DEFAULT_COMPILED} with --backend, --device or "
        "--arch; else 0)",
    )
    strict: bool = flag(in_python=False)
    """with --compile: exit with 1 if any configuration fails"""
    seed: int = option(SEED, default=0)
    """seed of the draw (default 0)"""
    no_compile: bool = flag()
    """only validate and describe"""
    run: bool = flag()
    """run the default on each input and verify it"""
    unseen: int | None = option(Kind.whole(1), "N")
    """with --run: also run the default and 3 drawn configurations on N inputs that the space does
    not list, from the ranges of its features, of odd and prime sizes"""
    wait: float = wait_option("measures on the device, with --run")
    json: bool = json_flag()

    def check(self) -> None:
        """Refuse options that exclude each other."""
        if not self.spaces:
            raise UsageError("name a space, for example spaces/mvmul.yaml")
        compiles = self.names_target or self.compile is not None
        if self.no_compile and (compiles or self.run):
            options = "--backend, --device, --arch, --compile or --run"
            raise UsageError(f"--no-compile does not go with {options}")
        if self.strict and self.compile is None:
            raise UsageError("--strict judges what --compile N compiles; add --compile N")
        if self.unseen and not self.run:
            raise UsageError("--unseen runs configurations on other inputs; add --run")
        if self.archs and self.run:
            raise UsageError(
                "--arch compiles for a GPU that need not be here; --run runs on this one"
            )
        if self.archs and self.device:
            raise UsageError("--arch compiles for a GPU that need not be here; leave --device out")
        if self.archs and self.backend == "opencl":
            raise UsageError("--arch names an NVIDIA architecture; --backend opencl has none")

    @property
    def names_target(self) -> bool:
        """Whether a backend, a device or an architecture was named."""
        return bool(self.backend or self.device or self.archs)

    @property
    def others(self) -> int:
        """The number of configurations that are compiled besides the default."""
        default = _DEFAULT_COMPILED if self.names_target else 0
        return default if self.compile is None else self.compile
