"""Check the program of a space: its placeholders are known and used, and its files exist."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.core.errors import SpecError
from harness.core.records import LIMIT_NAMES, Input
from harness.core.text import suggestion
from harness.source.code import python_code
from harness.source.kernel_source import Source, read_source
from harness.space_file.document import Document, Location
from harness.space_file.kernel_checks import read_module, reason
from harness.space_file.legality import PlacedExpression
from harness.space_file.program import (
    LISTS,
    OUTPUT,
    RESERVED,
    SEED,
    ProgramPlan,
    digest_of,
    names_of,
)
from harness.space_file.program_model import AgainstFile, AgainstHost, ProgramSpaceFile, Template

CHECK = "check"
"""The function of a host module that decides whether a run is right."""

Placed = tuple[Location, Template]


def program_parts(
    document: Document,
    model: ProgramSpaceFile,
    inputs: Sequence[Input],
    expressions: Iterable[PlacedExpression],
) -> dict[str, Any]:
    """Check what spaces of programs have; return their fields of a spec. Raises SpecError."""
    _check_flags(document, model)
    folder, verify_folder = document.folder_of("program"), document.folder_of("verify")
    build, run = _command("build", model.program.build), _command("run", model.program.run)
    _check_placeholders(document, model, build, run)
    _check_features(document, model)
    sources = tuple(_sources(document, model, folder))
    digests = list(_host(document, model, verify_folder))
    if document.faults:
        raise SpecError(document.faults)
    plan = ProgramPlan(model.program, model.verify, folder, verify_folder, sources)
    digests += _content(document, plan, inputs)
    _check_use(document, model, plan)
    _check_limits(document, expressions)
    return {"program": dataclasses.replace(plan, digests=tuple(digests))}


# ------------------------------------------------------------------------------ placeholders


def _command(key: str, words: Sequence[Template] | None) -> list[Placed]:
    """Return the words of a command with their places."""
    return [(("program", key, index), word) for index, word in enumerate(words or ())]


def _check_placeholders(
    document: Document, model: ProgramSpaceFile, build: Sequence[Placed], run: Sequence[Placed]
) -> None:
    """Check that every placeholder is known where it is used, and that the needed ones are used."""
    program, features = model.program, list(model.inputs.features)
    environment: list[Placed] = [
        (("program", "environment", name), template)
        for name, template in program.environment.items()
    ]
    files: list[Placed] = [
        (("program", "files", index), template) for index, template in enumerate(program.files)
    ]
    if isinstance(model.verify.against, AgainstFile):
        files.append((("verify", "against", "file"), Template(model.verify.against.file)))
    tuned = [*model.parameters, *features]
    source = ["source"] if len(program.sources) == 1 else []
    sources = [*source, "sources"] if program.sources else []
    _check_known(document, build, [*tuned, *sources, "flags", OUTPUT])
    output = [OUTPUT] if build else []
    _check_known(document, run, [*tuned, *sources, *output, SEED])
    _check_known(document, environment, [*tuned, SEED])
    _check_known(document, files, features)
    _check_seed(document, model, [*run, *environment])
    _check_there(document, build, run, any(model.flags.values()))


def _check_known(document: Document, placed: Sequence[Placed], known: Sequence[str]) -> None:
    for location, template in placed:
        for name in sorted(template.names.difference(known)):
            text = f"`{{{name}}}` in `{template.text}` is not known here; {_hint(name, known)}"
            document.fault(location, text)
        lists = template.names & set(LISTS) & set(known)
        if lists and template.whole is None:
            name = sorted(lists)[0]
            text = f"`{{{name}}}` stands for several words; write it as a separate word"
            document.fault(location, text)


def _check_seed(document: Document, model: ProgramSpaceFile, placed: Sequence[Placed]) -> None:
    """Check that the output of a run with a seed is compared with no other run's."""
    against = model.verify.against
    if against != "baseline" and not isinstance(against, AgainstFile):
        return
    for location, template in placed:
        if SEED in template.names:
            text = (
                "each run gets another `{seed}`, so its output equals no other one; verify it with "
                "check(run): `verify: {against: {host: check.py}}`"
            )
            document.fault(location, text)


def _hint(name: str, known: Sequence[str]) -> str:
    if name == "source" and "sources" in known:
        return "there are several sources: write `{sources}`"
    if name in ("source", "sources"):
        return "name the files in `program.sources`"
    return suggestion(name, known) if known else "there are no placeholders"


def _check_there(
    document: Document, build: Sequence[Placed], run: Sequence[Placed], flags: bool
) -> None:
    """Check for `{output}` where something is built, and for `{flags}` where flags are tuned."""
    for key, placed in (("build", build), ("run", run)):
        names = names_of(template for _, template in placed)
        location: Location = ("program", key)
        if build and OUTPUT not in names:
            what = "where the built program goes" if key == "build" else "the built program"
            document.fault(location, f"needs `{{output}}`, {what}")
        if flags and key == "build" and "flags" not in names:
            there = "needs `{flags}`" if placed else "is not there, but it needs `{flags}`"
            text = f"{there}, where the compiler's flags go, since flags are tuned"
            document.fault(location, text)


def _check_use(document: Document, model: ProgramSpaceFile, plan: ProgramPlan) -> None:
    """Check that every parameter, and with several inputs some feature, is used in a command; else
    tuning or measuring them changes nothing."""
    used = plan.words_used
    for name in model.parameters:
        if name not in used:
            text = (
                f"nothing uses it: `{{{name}}}` stands neither in program.build nor in "
                "program.run nor in program.environment, so tuning it would change nothing"
            )
            document.fault(("parameters", name), text)
    used |= names_of(plan.model.files)
    features = model.inputs.features
    count = model.inputs.count or len(model.inputs.values or ())
    if count > 1 and not used & set(features):
        named = " or ".join(f"`{{{name}}}`" for name in features)
        text = f"nothing uses them, so that all inputs are the same: put {named} into program.run"
        document.fault(("inputs", "features"), text)


def _check_limits(document: Document, expressions: Iterable[PlacedExpression]) -> None:
    """Check that no expression uses the limits of GPU kernels."""
    for location, expression in expressions:
        for name in sorted(expression.names & _GPU_LIMITS):
            text = f"`{name}` is a limit of GPU kernels; of a program, there is compute_units"
            document.fault(location, text)


_GPU_LIMITS = frozenset(LIMIT_NAMES) - {"compute_units"}


def _check_flags(document: Document, model: ProgramSpaceFile) -> None:
    """Check that something is tuned, by one compiler, and that no placeholder has two meanings."""
    for compiler in list(model.flags)[1:]:
        text = f"one compiler builds the program: keep the flags of {' or of '.join(model.flags)}"
        document.fault(("flags",), text, compiler)
    if not model.parameters and not any(model.flags.values()):
        document.fault((), "there is nothing to tune: it needs `parameters`, `flags` or both")
    names: Mapping[str, Location] = {
        **{name: ("parameters", name) for name in model.parameters},
        **{name: ("inputs", "features", k) for k, name in enumerate(model.inputs.features)},
    }
    for name in names.keys() & set(RESERVED):
        text = f"`{name}` is a placeholder of commands already; choose another name"
        document.fault(names[name], text)


def _check_features(document: Document, model: ProgramSpaceFile) -> None:
    """Check that each source is one of a feature."""
    for name in model.program.features:
        if name not in model.inputs.features:
            hint = suggestion(name, model.inputs.features)
            location: Location = ("program", "features", name)
            document.fault(location, f"`{name}` is not a feature of `inputs`; {hint}")


# ------------------------------------------------------------------------------------- files


def _sources(document: Document, model: ProgramSpaceFile, folder: Path) -> Iterator[Source]:
    for index, name in enumerate(model.program.sources):
        path = folder / name
        try:
            yield read_source(path)
        except (OSError, ValueError) as error:
            document.fault(("program", "sources", index), f"{path} {reason(error, path)}")


def _host(document: Document, model: ProgramSpaceFile, folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield the host module that checks runs, if there is one, with its code."""
    against = model.verify.against
    if not isinstance(against, AgainstHost):
        return
    location: Location = ("verify", "against", "host")
    path = folder / against.host
    module = read_module(document, location, path, (CHECK,))
    if module is not None:
        yield path, python_code(module[0])


def _content(
    document: Document, plan: ProgramPlan, inputs: Sequence[Input]
) -> Iterator[tuple[Path, str]]:
    """Yield all files that runs get or are compared with, with their digests."""
    wanted: dict[Path, Location] = {}
    for problem in inputs:
        for index, path in enumerate(plan.files_for(problem)):
            wanted.setdefault(path, ("program", "files", index))
        expected = plan.expected_file(problem)
        if expected is not None:
            wanted.setdefault(expected, ("verify", "against", "file"))
    for path, location in wanted.items():
        try:
            if path.exists() and not path.is_file():
                raise ValueError("is not a regular file")
            yield path, digest_of(path)
        except (OSError, ValueError) as error:
            document.fault(location, f"{path} {reason(error, path)}")
