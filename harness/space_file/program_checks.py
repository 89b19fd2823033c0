"""Check the program of a space: its placeholders are known and used, and its files exist."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.constraints.expression import Expression
from harness.core.records import LIMIT_NAMES, Input
from harness.core.text import suggestion
from harness.source.kernel_source import Source, read_source
from harness.space_file.document import Document, Location, located
from harness.space_file.expressions import Expressions
from harness.space_file.files import check_functions, defined_in, read_python, reason
from harness.space_file.program import LISTS, OUTPUT, RESERVED, SEED, ProgramPlan, digest_of
from harness.space_file.program_model import AgainstFile, AgainstHost, ProgramSpaceFile, Word
from harness.space_file.templates import Template

CHECK = "check"
"""The function of a host module that decides whether a run is right."""

Placed = tuple[Location, Template]


@dataclass(frozen=True)
class _Commands:
    """Every template of a program with its location in the file."""

    build: tuple[Placed, ...]
    run: tuple[Placed, ...]
    environment: tuple[Placed, ...]
    files: tuple[Placed, ...]


def check_program(
    document: Document, model: ProgramSpaceFile, inputs: Sequence[Input]
) -> ProgramPlan | None:
    """Return the plan of the program; note its faults and return None where it has any."""
    before, folder = len(document.faults), document.folder_of("program")
    model = _with_verify_from(model, document.folder_of("verify"), folder)
    commands = _Commands(
        tuple(_command(document, model, "build")),
        tuple(_command(document, model, "run")),
        tuple(_environment(document, model)),
        tuple(_files(document, model)),
    )
    if len(document.faults) == before:
        _check_placeholders(document, model, commands)
    _check_features(document, model, folder)
    sources = tuple(_sources(document, model, folder))
    digests = list(_host(document, model, folder))
    if len(document.faults) > before:
        return None
    plan = _plan(model, commands, sources, folder)
    digests += _content(document, plan, inputs)
    if len(document.faults) > before:
        return None
    return _plan(model, commands, sources, folder, tuple(digests))


def _with_verify_from(model: ProgramSpaceFile, folder: Path, program: Path) -> ProgramSpaceFile:
    """Return the model with the path under `verify` relative to the program's folder."""
    against = model.verify.against
    if folder == program or isinstance(against, str):
        return model
    ((key, name),) = against.model_dump().items()
    moved = against.model_copy(update={key: os.path.relpath(folder / name, program)})
    return model.model_copy(update={"verify": model.verify.model_copy(update={"against": moved})})


def _plan(
    model: ProgramSpaceFile,
    commands: _Commands,
    sources: tuple[Source, ...],
    folder: Path,
    digests: tuple[str, ...] = (),
) -> ProgramPlan:
    program = model.program
    build, run, files = (
        tuple(template for _, template in placed)
        for placed in (commands.build, commands.run, commands.files)
    )
    variables = zip(program.environment, commands.environment, strict=True)
    return ProgramPlan(
        build=build,
        run=run,
        shell=program.shell,
        environment=tuple((name, template) for name, (_, template) in variables),
        sources=sources,
        folder=folder,
        files=files,
        time=None if program.time == "wall" else program.time,
        verify=model.verify,
        limits=program.limits,
        version=_plain_words(program.version),
        device=_plain_words(program.device),
        features=tuple(program.features.items()),
        digests=digests,
    )


def _plain_words(words: Sequence[Word] | None) -> tuple[str, ...] | None:
    return None if words is None else tuple(map(str, words))


# ------------------------------------------------------------------------------ placeholders


def _command(document: Document, model: ProgramSpaceFile, key: str) -> Iterator[Placed]:
    """Yield the words of a command, or its text."""
    command: str | Sequence[Word] | None = getattr(model.program, key)
    location: Location = ("program", key)
    if isinstance(command, str):
        if not model.program.shell:
            text = "is one text, which only a shell splits; write a list of words, or `shell: true`"
            document.fault_at(location, text)
        yield from _template(document, location, command)
    elif command is not None:
        if model.program.shell:
            text = "is a list of words, but `shell: true` takes one text; write one text"
            document.fault_at(location, text)
        for index, word in enumerate(command):
            yield from _template(document, (*location, index), word)


def _environment(document: Document, model: ProgramSpaceFile) -> Iterator[Placed]:
    for name, value in model.program.environment.items():
        yield from _template(document, ("program", "environment", name), value)


def _files(document: Document, model: ProgramSpaceFile) -> Iterator[Placed]:
    for index, name in enumerate(model.program.files):
        yield from _template(document, ("program", "files", index), name)


def _template(document: Document, location: Location, text: Word) -> Iterator[Placed]:
    try:
        yield location, Template(str(text))
    except ValueError as error:
        document.fault_at(location, str(error))


def _check_placeholders(document: Document, model: ProgramSpaceFile, commands: _Commands) -> None:
    """Check that every placeholder is known where it is used, and that the needed ones are used."""
    features, flags = list(model.inputs.features), any(model.flags.values())
    tuned = [*model.parameters, *features]
    output = [OUTPUT] if commands.build else []
    source = ["source"] if len(model.program.sources) == 1 else []
    sources = ["sources"] if model.program.sources else []
    built = [*tuned, *source, *sources, "flags", OUTPUT]
    _check_known(document, commands.build, built, model.program.shell)
    known = [*tuned, *source, *sources, *output, SEED]
    _check_known(document, commands.run, known, model.program.shell)
    _check_known(document, commands.environment, [*tuned, SEED], True)
    _check_seed(document, model, [*commands.run, *commands.environment])
    _check_known(document, commands.files, features, True)
    if isinstance(model.verify.against, AgainstFile):
        named = _template(document, ("verify", "against", "file"), model.verify.against.file)
        _check_known(document, list(named), features, True)
    _check_there(document, commands, flags)


def _check_known(
    document: Document, placed: Sequence[Placed], known: Sequence[str], as_text: bool
) -> None:
    for location, template in placed:
        for name in sorted(template.names.difference(known)):
            text = f"`{{{name}}}` in `{template.text}` is not known here; {_hint(name, known)}"
            document.fault_at(location, text)
        lists = template.names & set(LISTS)
        if lists and not as_text and template.whole is None:
            name = sorted(lists)[0]
            text = f"`{{{name}}}` stands for several words; write it as a separate word"
            document.fault_at(location, text)


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
            document.fault_at(location, text)


def _hint(name: str, known: Sequence[str]) -> str:
    if name == "source" and "sources" in known:
        return "there are several sources: write `{sources}`"
    if name in ("source", "sources"):
        return "name the files in `program.sources`"
    return suggestion(name, known) if known else "there are no placeholders"


def _check_there(document: Document, commands: _Commands, flags: bool) -> None:
    """Check for `{output}` where something is built, and for `{flags}` where flags are tuned."""
    for key, placed in (("build", commands.build), ("run", commands.run)):
        names = frozenset[str]().union(*(template.names for _, template in placed))
        location: Location = ("program", key)
        if commands.build and OUTPUT not in names:
            what = "where the built program goes" if key == "build" else "the built program"
            document.fault_at(location, f"needs `{{output}}`, {what}")
        if flags and key == "build" and "flags" not in names:
            there = "needs `{flags}`" if placed else "is not there, but it needs `{flags}`"
            text = f"{there}, where the compiler's flags go, since flags are tuned"
            document.fault_at(location, text)


def check_use(
    document: Document, model: ProgramSpaceFile, plan: ProgramPlan, expressions: Expressions
) -> None:
    """Check that every parameter, and with several inputs some feature, is used in a command; else
    tuning or measuring them changes nothing."""
    used = plan.words_used
    for name in model.parameters:
        if name not in used:
            text = (
                f"nothing uses it: `{{{name}}}` stands neither in program.build nor in "
                "program.run nor in program.environment, so tuning it would change nothing"
            )
            document.fault_at(("parameters", name), text)
    used = used.union(*(template.names for template in plan.files))
    features = model.inputs.features
    count = model.inputs.count or len(model.inputs.values or ())
    if count > 1 and not used & set(features):
        named = " or ".join(f"`{{{name}}}`" for name in features)
        text = f"nothing uses them, so that all inputs are the same: put {named} into program.run"
        document.fault_at(("inputs", "features"), text)
    _check_limits(document, expressions)


def _check_limits(document: Document, expressions: Expressions) -> None:
    """Check that no expression uses the limits of GPU kernels."""
    placed: dict[Location, Expression] = {
        **{("constraints", index): e for index, e in expressions.constraints.items()},
        **{(*location, "when"): e for location, e in expressions.whens.items()},
    }
    for location, expression in placed.items():
        for name in sorted(expression.names & GPU_LIMITS):
            text = f"`{name}` is a limit of GPU kernels; of a program, there is compute_units"
            document.fault_at(location, text)


GPU_LIMITS = frozenset(LIMIT_NAMES) - {"compute_units"}


def check_flags(document: Document, model: ProgramSpaceFile) -> None:
    """Check that something is tuned, by one compiler, and that no placeholder has two meanings."""
    for compiler in list(model.flags)[1:]:
        text = f"one compiler builds the program: keep the flags of {' or of '.join(model.flags)}"
        document.fault(("flags", compiler), located(("flags",), text))
    if not model.parameters and not any(model.flags.values()):
        document.fault((), "there is nothing to tune: it needs `parameters`, `flags` or both")
    names: Mapping[str, Location] = {
        **{name: ("parameters", name) for name in model.parameters},
        **{name: ("inputs", "features", k) for k, name in enumerate(model.inputs.features)},
    }
    for name in names.keys() & set(RESERVED):
        text = f"`{name}` is a placeholder of commands already; choose another name"
        document.fault_at(names[name], text)


def _check_features(document: Document, model: ProgramSpaceFile, folder: Path) -> None:
    """Check that each source is one of a feature, and that the space's own commands exist."""
    for name, source in model.program.features.items():
        location: Location = ("program", "features", name)
        if name not in model.inputs.features:
            hint = suggestion(name, model.inputs.features)
            document.fault_at(location, f"`{name}` is not a feature of `inputs`; {hint}")
        first = source.command[0] if source.command else ""
        if "/" in first and not os.access(folder / first, os.X_OK):
            found = "is not there" if not (folder / first).exists() else "is not executable"
            document.fault_at((*location, "command", 0), f"{folder / first} {found}")


# ------------------------------------------------------------------------------------- files


def _sources(document: Document, model: ProgramSpaceFile, folder: Path) -> Iterator[Source]:
    for index, name in enumerate(model.program.sources):
        path = folder / name
        try:
            yield read_source(path)
        except (OSError, ValueError) as error:
            document.fault_at(("program", "sources", index), f"{path} {reason(error, path)}")


def _host(document: Document, model: ProgramSpaceFile, folder: Path) -> Iterator[str]:
    """Yield the text of the host module that checks runs, if there is one."""
    against = model.verify.against
    if not isinstance(against, AgainstHost):
        return
    location: Location = ("verify", "against", "host")
    path = folder / against.host
    found = read_python(document, location, path)
    if found is None:
        return
    text, module = found
    check_functions(document, location, path, (CHECK,), defined_in(module))
    yield text


def _content(document: Document, plan: ProgramPlan, inputs: Sequence[Input]) -> Iterator[str]:
    """Yield the digests of all files that runs get or are compared with."""
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
            yield digest_of(path)
        except (OSError, ValueError) as error:
            document.fault_at(location, f"{path} {reason(error, path)}")
