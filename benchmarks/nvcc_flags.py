"""Find how nvcc's flags change machine code, alone and in pairs: evidence for the catalogue.

It compiles every value of every kernel flag of harness/space_file/flags/nvcc.yaml alone, then every
pair of values of related flags (GROUPS), and some pairs of other flags with one value each. The
kernels are nvcc_flags.cu, with code for each flag to act on, and KERNEL ... (without the pairs of
other flags). The machine code is hashed (harness.measure.cuda.cubin), and nvcc's messages are
read (harness.measure.builds.messages). It needs no GPU. A compilation takes half a second, a
kernel some minutes.

    python -m benchmarks.nvcc_flags [--arch sm_90] [--record FILE] [KERNEL ...]

The record has a row for each kernel and setting: the outcome (ok, warned or refused), the first
digits of the machine code's hash, and nvcc's message. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from benchmarks.frame import Figures, benchmark, option
from harness.core.errors import UsageError
from harness.core.records import Value
from harness.measure.builds.messages import conflicts
from harness.measure.cuda.binary import parse_resources
from harness.measure.cuda.cubin import machine_code_sha256
from harness.measure.cuda.nvcc import find_nvcc
from harness.space_file.flags.catalogue import CatalogueFlag, catalogue_of

RECORD = Path(__file__).with_suffix(".csv")
CATALOGUE = catalogue_of("nvcc")
PROBE = Path(__file__).with_suffix(".cu")

# Related flags: all pairs of their values are compiled.
GROUPS = (
    ("use_fast_math", "ftz", "prec_div", "prec_sqrt", "fmad", "ptxas_fmad"),
    ("def_load_cache", "force_load_cache"),
    ("def_store_cache", "force_store_cache"),
    ("opt_level", "ofast_compile", "register_usage_level", "allow_expensive_optimizations"),
    ("maxrregcount", "ptxas_maxrregcount", "maxntid", "minnctapersm", "override_directive_values"),
)
_MOST_VALUES = 4  # of a range: its ends, and values in between


@dataclass(frozen=True)
class FlagRow:
    """One kernel compiled with one setting, which is empty for nvcc's defaults."""

    kernel: str
    setting: str
    came: str  # ok, warned or refused
    code: str
    registers: str
    said: str


Setting = tuple[tuple[str, Value], ...]
"""Flags of the catalogue with their values."""


def settings(others: int) -> Iterator[Setting]:
    """Yield the settings: the defaults, each value alone, the pairs of GROUPS, and other pairs."""
    known = CATALOGUE.flags.items()
    flags = {name: flag for name, flag in known if flag.needs is None and flag.values}
    values = {name: _some(flag) for name, flag in flags.items()}
    yield ()
    yield from (((name, value),) for name in flags for value in values[name])
    apart = []
    for one, other in itertools.combinations(flags, 2):
        if any({one, other} <= set(group) for group in GROUPS):
            pairs = itertools.product(values[one], values[other])
            yield from (((one, a), (other, b)) for a, b in pairs)
        else:
            apart.append(((one, values[one][0]), (other, values[other][0])))
    yield from random.Random(0).sample(apart, min(others, len(apart)))


def _some(flag: CatalogueFlag) -> Sequence[Value]:
    values = flag.values
    if not isinstance(values, range):
        return values
    every = max(1, -(-(len(values) - 1) // (_MOST_VALUES - 1)))
    return sorted({*values[::every], values[-1]})


class Kernels:
    """Compile kernels with settings in a folder."""

    def __init__(self, arch: str, folder: Path) -> None:
        self._nvcc = [str(find_nvcc()), f"-arch={arch}", "--resource-usage", "-cubin", "-x", "cu"]
        self._cubin = folder / "kernel.cubin"

    def compiled(self, kernel: str, source: Path, setting: Setting) -> FlagRow:
        """Compile a kernel with a setting."""
        label = " ".join(f"{name}={value}" for name, value in setting)
        words = list[str]()
        for name, value in setting:
            words += CATALOGUE.flags[name].parameter(name, "nvcc", [value]).options(value)
        command = [*self._nvcc, *words, str(source), "-o", str(self._cubin)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        said = done.stdout + done.stderr
        if done.returncode:
            fatal = [line for line in said.splitlines() if re.search(r"fatal|error", line)]
            return FlagRow(kernel, label, "refused", "", "", fatal[0] if fatal else said.strip())
        warned = conflicts("nvcc", said)
        code = machine_code_sha256(self._cubin.read_bytes())[:12]
        registers = str(parse_resources(said).registers)
        came = "warned" if warned else "ok"
        return FlagRow(kernel, label, came, code, registers, "; ".join(warned))


def compile_all(arch: str, paths: Sequence[Path], others: int) -> Iterator[FlagRow]:
    """Compile every kernel with every setting."""
    with tempfile.TemporaryDirectory(prefix="harness-nvcc-flags-") as folder:
        kernels = Kernels(arch, Path(folder))
        for path in (PROBE, *paths):
            if not path.is_file():
                raise UsageError(f"{path} is not a file; name CUDA sources")
            for setting in settings(others if path is PROBE else 0):
                yield kernels.compiled("probe" if path is PROBE else path.stem, path, setting)


# -------------------------------------------------------------------------- findings


def findings(rows: Sequence[FlagRow]) -> dict[str, list[str]]:
    """Collect the findings over all kernels by kind.

    `refused` and `warned` list nvcc's messages; `no effect` lists pairs without a warning in which
    one flag changes the code alone but not together with the other.
    """
    return {
        "refused": _said(rows, "refused"),
        "warned": _said(rows, "warned"),
        "no effect": list(_without_effect(rows)),
    }


def _said(rows: Sequence[FlagRow], came: str) -> list[str]:
    return list(dict.fromkeys(f"{r.setting}: {r.said}" for r in rows if r.came == came))


def _without_effect(rows: Sequence[FlagRow]) -> Iterator[str]:
    code = {(row.kernel, row.setting): row.code for row in rows}
    silent: dict[str, set[bool]] = {}
    for row in rows:
        if " " not in row.setting or row.came != "ok":
            continue
        first, second = row.setting.split(" ")
        plain = code[row.kernel, ""]
        for one, other in ((first, second), (second, first)):
            if code[row.kernel, one] not in (plain, code[row.kernel, other]):
                effect = row.code != code[row.kernel, other]
                silent.setdefault(f"{one} beside {other}", set()).add(effect)
    yield from (pair for pair, effects in silent.items() if effects == {False})


# -------------------------------------------------------------------------- the command


@benchmark(
    option("kernels", nargs="*", type=Path, metavar="KERNEL", what="CUDA sources to compile too"),
    option("--arch", "sm_90", "the architecture to compile for"),
    option("--pairs", 150, "pairs of unrelated flags"),
    option("--record", RECORD, "the record to write"),
)
def main(args: argparse.Namespace) -> Figures:
    """Compile, and print the findings."""
    rows = list[FlagRow]()
    with args.record.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(field.name for field in fields(FlagRow))
        for row in compile_all(args.arch, args.kernels, args.pairs):
            writer.writerow(astuple(row))
            rows.append(row)
    found = findings(rows)
    for kind, lines in found.items():
        print(f"\n{kind} ({len(lines)})", *lines, sep="\n  ")
    counts = {kind: len(lines) for kind, lines in found.items()}
    return {"settings": len({row.setting for row in rows}), "builds": len(rows), **counts}


if __name__ == "__main__":
    sys.exit(main())
