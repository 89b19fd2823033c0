"""harness stencil explore STENCIL: write the space of a stencil's variants."""

from __future__ import annotations

import shlex
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.files import check_writable, write_folder
from harness.core.text import command_line, counted
from harness.options.others import StencilOptions
from harness.space_file.document import MAX_BYTES
from harness.stencil.explore import Variant, explore
from harness.stencil.space_files import Definition, SpaceFolder


def run(options: StencilOptions) -> int:
    """Write the space; return the exit code."""
    definition = Definition.load(options.stencil)
    folder = options.output or Path(f"{definition.name}_{options.size}")
    if folder.exists() or folder.is_symlink():
        raise UsageError(f"{folder} already exists; name a new folder with -o")
    check_writable(folder, "name another folder with -o", parents=True)
    variants = _variants(definition, options)
    points = sum(len(variant.kernels) for variant in variants)
    space = Path(f"{definition.name}.yaml")
    texts = SpaceFolder(definition, options.size, variants, _again(options), options.warp).texts()
    if len(texts[space]) > MAX_BYTES:
        raise UsageError(f"{points} points are too many for one space; ask for fewer with --count")
    contents = {path.as_posix(): text.encode() for path, text in texts.items()}
    write_folder(folder, contents, replace=False)
    fewer = "" if points == options.count else f"; found no more of the {options.count}"
    print(f"{counted(points, 'point')} of {counted(len(variants), 'variant')}{fewer}")
    others = ", ".join(sorted(str(path) for path in texts if path != space))
    print(f"{folder}: {space}, {others}")
    print(f"tune it: {command_line('tune', str(folder / space))}")
    return 0


def _again(options: StencilOptions) -> str:
    """Return the command that repeats the exploration."""
    words = ["python", "-m", "harness", "stencil", "explore", str(options.stencil)]
    words += ["--size", str(options.size), "--seed", str(options.seed)]
    words += ["--count", str(options.count), "--threads", str(options.threads)]
    words += ["--designs", options.designs, "--warp", str(options.warp)]
    return shlex.join(words)


def _variants(definition: Definition, options: StencilOptions) -> list[Variant]:
    expression = definition.expression(options.size)
    # With points of its own for each stencil, a predictor is judged on those that it does not know.
    seed = f"{options.seed} {options.size}"
    seed += f" {definition.name}" if options.designs == "own" else ""
    name = definition.function_name
    variants = explore(name, expression, options.count, seed, options.threads)
    if not variants:
        raise UsageError(
            f"{definition.path}: no variant has 32 threads or more in a group; --size "
            f"{options.size} is too small, or no map computes its result"
        )
    return variants
