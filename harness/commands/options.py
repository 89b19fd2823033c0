"""The options of the commands that write files, merge databases or measure for others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from harness.api.options import (
    PAGE,
    databases_argument,
    json_flag,
    space_option,
    version_option,
)
from harness.core.errors import UsageError
from harness.core.files import check_output, check_writable
from harness.core.options import (
    PATH,
    SEED,
    TEXT,
    Options,
    argument,
    flag,
    option,
    whole,
)

ENDINGS = {"t4": ".t4.json", "csv": ".csv"}


# --------------------------------------------------------------------------------- discover


@dataclass(frozen=True)
class DiscoverOptions(Options):
    """Write a space from a kernel's pragmas, constants, loops and signature.
    FILL IN and CONFIRM mark what you must add or check."""

    epilog: ClassVar = """\
A pragma declares a parameter, above a #define or above a loop:

  #pragma erange 64,512,2
  #define BLOCK 256

  #pragma unroll_range 1,8
  for (int k = 0; k < 16; k++) ...

docs/reference/pragmas.md explains all pragmas. Without them, harness suggests values of #defines.
Exit code: 0 on success, 2 for an error in a pragma or in the command.
"""

    source: Path = argument(PATH, "SOURCE", "a CUDA or OpenCL file")
    function: str | None = option(TEXT, "NAME", "the kernel, if the file has several")
    output: Path | None = option(
        PATH, "FILE", "a new file for the space (default: standard output)"
    )
    host: Path | None = option(PATH, "FILE", "a new file for the skeleton of the host module")

    def check(self) -> None:
        """Refuse to overwrite a file, and host modules that Python cannot import."""
        output, host = self.output, self.host
        if output and host and output.resolve() == host.resolve():
            raise UsageError(f"{output} cannot be both the space and the host module")
        for new in filter(None, (output, host)):
            if new.exists() or new.is_symlink():
                raise UsageError(f"{new} already exists; name a new file")
            check_writable(new, "name a file in another folder")
        if host and host.suffix != ".py":
            raise UsageError(f"{host} is not a Python file; its name must end in .py")


# ----------------------------------------------------------------------------------- export


@dataclass(frozen=True)
class ExportOptions(Options):
    """Write every sample and failure of a database's last campaign, as T4 results or as CSV with
    its mapping."""

    database: str = argument(TEXT, "DATABASE", "SQLite file or postgresql:// URL")
    format: str = option(TEXT, None, "format (default t4)", default="t4", choices=tuple(ENDINGS))
    space: str | None = space_option()
    output: Path | None = option(
        PATH, "FILE", "file to write (default: the space's name, next to the database)"
    )
    kernel_version: str = version_option()

    def check(self) -> None:
        """Refuse an output that cannot be written."""
        if self.output is not None:
            check_output(self.output)


# ------------------------------------------------------------------------------------ merge


@dataclass(frozen=True)
class MergeOptions(Options):
    """Add the measurements of results databases to OUT; those that OUT has already are not added
    again. The inputs do not change; OpenTuner may have made them without harness. OUT has
    OpenTuner's tables too, so a merged search can be continued there."""

    out: str = argument(
        TEXT, "OUT", "database to add to (SQLite file or postgresql:// URL); may be new"
    )
    inputs: Sequence[str] = argument(
        TEXT, "IN", "database to add (SQLite file or postgresql:// URL)", nargs="+"
    )
    kernel_version: str = version_option("all")


# ------------------------------------------------------------------------ devices and schema

WITH_JSON = ("analyse", "check", "compare", "dispatch", "report", "tune")
"""The commands that take --json."""


@dataclass(frozen=True)
class DevicesOptions(Options):
    """List this machine's devices, as --device names them."""


@dataclass(frozen=True)
class SchemaOptions(Options):
    """Print the JSON Schema of spaces, or of what a command prints with --json."""

    of: str | None = argument(
        TEXT, None, "a command; without one, spaces", nargs="?", choices=WITH_JSON
    )


# ----------------------------------------------------------------------------------- report


@dataclass(frozen=True)
class ReportOptions(Options):
    """Write the results of databases as one HTML page, which needs no network."""

    database: Sequence[str] = databases_argument()
    output: Path = option(PAGE, "FILE", "the page (.html)", "-o", "--output", required=True)
    space: str | None = space_option()
    weights: Path | None = option(
        PATH,
        "FILE",
        "a workload: judge the choice by how often inputs come, and show how many calls the tuned "
        "range covers",
    )
    kernel_version: str = version_option()
    json: bool = json_flag()

    def check(self) -> None:
        """Refuse an output that cannot be written."""
        check_output(self.output)


# ---------------------------------------------------------------------------------- stencil


@dataclass(frozen=True)
class StencilOptions(Options):
    """Write the space of a stencil: variants of its kernel, each with several
    thread configurations."""

    epilog: ClassVar = """\
A stencil is a Python file that defines an expression and a reference
(kernels/stencils/README.md).
Exit code: 0 if the space is written, 2 for an error in the stencil or in the command.
"""

    command: str = argument(TEXT, None, "", choices=("explore",))
    stencil: Path = argument(PATH, "STENCIL.py", "a Python file; kernels/stencils has eight")
    size: int = option(
        whole(1), "N", "length of a side, the argument of expression()", required=True
    )
    count: int = option(whole(1), "K", "points in the space (default 1000)", default=1000)
    threads: int = option(
        whole(1), "K", "most thread configurations of a variant (default 10)", default=10
    )
    output: Path | None = option(
        PATH, "FOLDER", "a new folder (default NAME_SIZE)", "-o", "--output"
    )
    seed: int = option(SEED, None, "seed of the random draws (default 0)", default=0)
    designs: str = option(
        TEXT,
        None,
        "draw other points than for other stencils (own, the default), or the same tiles, mappings "
        "and threads for all (shared)",
        default="own",
        choices=("own", "shared"),
    )


# ----------------------------------------------------------------------------------- worker


@dataclass(frozen=True)
class WorkerOptions(Options):
    """Build and measure on this machine for `harness.tune --cluster ADDRESS`, until the scheduler
    ends. Whoever reaches the scheduler runs kernels here as you."""

    address: str = argument(TEXT, "ADDRESS", "the Dask scheduler's, tls://HOST:PORT")
    device: Sequence[str] = option(
        TEXT,
        "NAME",
        "offer this device, as `harness.tune --device` names it; may be repeated (default: all "
        "equal ones)",
        several=True,
    )
    builders: int | None = option(
        whole(1), "N", "builds at once (default: as many as there are spare cores)"
    )
    insecure: bool = flag("allow an address without encryption")
    quiet: bool = flag("print errors alone")
