"""Find how nvcc's flags change machine code, alone and in pairs: evidence for the catalogue.

It compiles every value of every kernel flag of harness/space_file/flags/nvcc.yaml alone, then every
pair of values of related flags (GROUPS), and some pairs of other flags with one value each. The
kernels are the one below, with code for each flag to act on, and KERNEL ... (without the pairs of
other flags). The machine code is hashed (harness.measure.backends.cubin), and nvcc's messages are
read (harness.measure.compiler_warnings). It needs no GPU. A compilation takes half a second, a
kernel some minutes.

    python -m benchmarks.nvcc_flags [--arch sm_90] [--record FILE] [KERNEL ...]

The record has a row for each kernel and setting: the outcome (ok, warned or refused), the first
digits of the machine code's hash, and nvcc's message. `--findings FILE` prints the findings of an
existing record without compiling. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from benchmarks.arguments import make_parser
from harness.commands.run import run_command
from harness.core.errors import UsageError
from harness.core.records import Value
from harness.measure.backends.cubin import machine_code_sha256
from harness.measure.backends.cuda_binary import parse_resources, worst_of
from harness.measure.backends.nvcc import find_nvcc
from harness.measure.compiler_warnings import conflicts
from harness.space_file.flags.catalogue import catalogue_of
from harness.space_file.flags.model import Flag

RECORD = Path(__file__).with_suffix(".csv")
CATALOGUE = catalogue_of("nvcc")
PROBE = "probe"

# Related flags: all pairs of their values are compiled.
GROUPS = (
    ("use_fast_math", "ftz", "prec_div", "prec_sqrt", "fmad", "ptxas_fmad"),
    ("def_load_cache", "force_load_cache"),
    ("def_store_cache", "force_store_cache"),
    ("opt_level", "ofast_compile", "register_usage_level", "allow_expensive_optimizations"),
    ("maxrregcount", "ptxas_maxrregcount", "maxntid", "minnctapersm", "override_directive_values"),
)
_MOST_VALUES = 4  # of a range: its ends, and values in between

# It has divisions, roots and transcendental functions, products and sums that only ptxas can fuse,
# a switch, a call, an indexed local array, atomics, doubles, many registers, and loads and stores
# with and without their own cache modifiers.
SOURCE = r"""
__device__ __noinline__ float called(const float *x, int n) {
    float kept[16];
    for (int i = 0; i < 16; i++) kept[i] = x[i] * n;
    float sum = 0.0f;
    for (int i = 0; i < n; i++) sum += kept[(i * n) & 15];
    return sum;
}

extern "C" __global__ void probe(float *out, const float *x, const float *y, double *wide, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float many[24];
#pragma unroll
    for (int k = 0; k < 24; k++) many[k] = x[i + k * n] + y[k];
#pragma unroll
    for (int k = 0; k < 24; k++)
#pragma unroll
        for (int j = 0; j < 24; j++) many[j] = many[j] * many[(j + k) % 24] + y[k];
    float value = 0.0f;
#pragma unroll
    for (int k = 0; k < 24; k++) value += many[k];
    switch (n) {
        case 1: value = x[i] / y[i]; break;
        case 2: value = sqrtf(x[i]) * y[i]; break;
        case 3: value = sinf(x[i]); break;
        case 5: value = expf(y[i]) + 1.0f / x[i]; break;
        case 6: value = called(x, n); break;
        case 9: value = rsqrtf(x[i] + value); break;
        case 12: value = powf(x[i], y[i]); break;
        case 14: atomicAdd(out + n, value); break;
    }
    float product, sum;
    asm("mul.f32 %0, %1, %2;" : "=f"(product) : "f"(x[i + 1]), "f"(y[i]));
    asm("add.f32 %0, %1, %2;" : "=f"(sum) : "f"(product), "f"(value));
    out[i] = sum + __ldcg(y + n);
    __stcg(out + n + i, value);
    wide[i] = wide[i] / n + 0.1;
    for (int k = 0; k < n; k++) out[i + k] += out[i + n - k];
}
"""


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


def _some(flag: Flag) -> Sequence[Value]:
    values = flag.values
    if not isinstance(values, range):
        return values
    every = max(1, -(-(len(values) - 1) // (_MOST_VALUES - 1)))
    return sorted({*values[::every], values[-1]})


class Kernels:
    """Compile kernels with settings in a folder, with one PTX for each front-end setting.

    Compiling the PTX with all options gives the same cubin as compiling the source, in a twentieth
    of the time.
    """

    def __init__(self, arch: str, folder: Path) -> None:
        self._nvcc = [str(find_nvcc()), f"-arch={arch}"]
        self._folder = folder
        self._ptx: dict[tuple[Path, tuple[str, ...]], tuple[Path | None, str]] = {}

    def compiled(self, kernel: str, source: Path, setting: Setting) -> FlagRow:
        """Compile a kernel with a setting."""
        label = " ".join(f"{name}={value}" for name, value in setting)
        flags = [(CATALOGUE.flags[name], value) for name, value in setting]
        words = [word for flag, value in flags for word in flag.words(value)]
        front = [w for flag, value in flags if _reaches_front(flag) for w in flag.words(value)]
        ptx, said = self._front(source, tuple(front))
        cubin = self._folder / "kernel.cubin"
        if ptx is not None:
            # nvcc repeats its messages about the options.
            status, said = self._run(
                [*words, "--resource-usage", "-cubin", str(ptx), "-o", str(cubin)]
            )
        if ptx is None or status != 0:
            fatal = [line for line in said.splitlines() if re.search(r"fatal|error", line)]
            return FlagRow(kernel, label, "refused", "", "", fatal[0] if fatal else said.strip())
        warned = conflicts("nvcc", said)
        code = machine_code_sha256(cubin.read_bytes())[:12]
        registers = str(worst_of(parse_resources(said).values()).registers)
        came = "warned" if warned else "ok"
        return FlagRow(kernel, label, came, code, registers, "; ".join(warned))

    def _front(self, source: Path, words: tuple[str, ...]) -> tuple[Path | None, str]:
        """Return the PTX, or None if nvcc refuses the options, and nvcc's messages."""
        if (source, words) not in self._ptx:
            ptx = self._folder / f"{len(self._ptx)}.ptx"
            include = f"-I{source.parent.resolve()}"
            status, said = self._run(
                [*words, include, "-ptx", "-x", "cu", str(source), "-o", str(ptx)]
            )
            self._ptx[source, words] = (ptx if status == 0 else None, said)
        return self._ptx[source, words]

    def _run(self, words: Sequence[str]) -> tuple[int, str]:
        done = subprocess.run(
            [*self._nvcc, *words], capture_output=True, text=True, timeout=600, check=False
        )
        return done.returncode, done.stdout + done.stderr


def _reaches_front(flag: Flag) -> bool:
    return not flag.option.startswith("-Xptxas")


def compile_all(arch: str, paths: Sequence[Path], others: int) -> Iterator[FlagRow]:
    """Compile every kernel with every setting."""
    with tempfile.TemporaryDirectory(prefix="harness-nvcc-flags-") as folder:
        probe = Path(folder) / f"{PROBE}.cu"
        probe.write_text(SOURCE, encoding="utf-8")
        kernels = Kernels(arch, Path(folder))
        for path in (probe, *paths):
            if not path.is_file():
                raise UsageError(f"{path} is not a file; name CUDA sources")
            for setting in settings(others if path is probe else 0):
                yield kernels.compiled(path.stem, path, setting)


# -------------------------------------------------------------------------- findings


def findings(rows: Sequence[FlagRow]) -> dict[str, list[str]]:
    """Collect the findings over all kernels by kind.

    `changes` and `no change` list single settings; `same` lists single settings with equal code;
    `refused` and `warned` list nvcc's messages; `no effect` lists pairs without a warning in which
    one flag changes the code alone but not together with the other.
    """
    code = {(row.kernel, row.setting): row.code for row in rows}
    kernels = list(dict.fromkeys(row.kernel for row in rows))
    alone = list(dict.fromkeys(r.setting for r in rows if r.setting and " " not in r.setting))
    found: dict[str, list[str]] = {}

    def changes(setting: str, beside: str = "") -> list[str]:
        both = _joined(beside, setting)
        return [k for k in kernels if code.get((k, both), "") not in ("", code[k, beside])]

    found["changes"] = [f"{s}: {', '.join(changes(s))}" for s in alone if changes(s)]
    found["no change"] = [s for s in alone if not changes(s)]
    found["refused"] = _said(rows, "refused")
    found["warned"] = _said(rows, "warned")
    found["no effect"] = list(_without_effect(rows, code))
    found["same"] = list(_same(alone, kernels, code))
    return found


def _joined(one: str, other: str) -> str:
    return f"{one} {other}" if one else other


def _said(rows: Sequence[FlagRow], came: str) -> list[str]:
    return list(dict.fromkeys(f"{r.setting}: {r.said}" for r in rows if r.came == came))


def _without_effect(rows: Sequence[FlagRow], code: dict[tuple[str, str], str]) -> Iterator[str]:
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


def _same(
    alone: Sequence[str], kernels: Sequence[str], code: dict[tuple[str, str], str]
) -> Iterator[str]:
    """Yield the settings that have equal code on every kernel, other than the defaults' code."""
    by_code: dict[tuple[str, ...], list[str]] = {}
    for setting in alone:
        by_code.setdefault(tuple(code[k, setting] for k in kernels), []).append(setting)
    defaults = tuple(code[k, ""] for k in kernels)
    for codes, equal in by_code.items():
        if len(equal) > 1 and codes != defaults and any(codes):
            yield ", ".join(equal)


# -------------------------------------------------------------------------- the command


def read(path: Path) -> list[FlagRow]:
    """Read the rows of a record."""
    with path.open(newline="", encoding="utf-8") as file:
        return [FlagRow(**row) for row in csv.DictReader(file)]


def write(path: Path, rows: Iterable[FlagRow]) -> list[FlagRow]:
    """Write the rows as they come, and return them."""
    written = []
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(field.name for field in fields(FlagRow))
        for row in rows:
            writer.writerow(astuple(row))
            file.flush()
            written.append(row)
    return written


def run(args: argparse.Namespace) -> int:
    """Compile, or read a record, and print the findings."""
    if args.findings:
        rows = read(args.findings)
    else:
        rows = write(args.record, compile_all(args.arch, args.kernels, args.pairs))
    found = findings(rows)
    for kind, lines in found.items():
        print(f"\n{kind} ({len(lines)})", *lines, sep="\n  ")
    figures = {"settings": len({r.setting for r in rows}), "builds": len(rows)}
    print(json.dumps({**figures, **{kind: len(lines) for kind, lines in found.items()}}))
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = make_parser("nvcc_flags", __doc__)
    parser.add_argument(
        "kernels", nargs="*", type=Path, metavar="KERNEL", help="CUDA sources to compile too"
    )
    parser.add_argument("--arch", default="sm_90", help="the architecture to compile for (sm_90)")
    parser.add_argument(
        "--pairs", type=int, default=150, metavar="N", help="pairs of unrelated flags (150)"
    )
    parser.add_argument(
        "--record", type=Path, default=RECORD, metavar="FILE",
        help=f"the record to write (default {RECORD.name})",
    )  # fmt: skip
    parser.add_argument(
        "--findings",
        type=Path,
        metavar="FILE",
        help="only print the findings of this record",
    )
    return run_command(parser, arguments, run)


if __name__ == "__main__":
    sys.exit(main())
