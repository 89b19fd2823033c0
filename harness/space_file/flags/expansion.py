"""The flags of a space: those that it declares, and those that it selects from catalogues."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from harness.constraints.expression import Expression
from harness.core.errors import SpecError, UsageError
from harness.space_file.document import Document, Location
from harness.space_file.flag_files import files_of
from harness.space_file.flags.catalogue import catalogue_of
from harness.space_file.flags.selection import Notice, SelectedFlags, own_flags, resolve
from harness.space_file.model import FlagGroup, SpaceFile
from harness.space_file.parameters import Parameter, Placed, flag_name, flag_of
from harness.space_file.program import ProgramSpaceFile
from harness.space_file.tuned import Flag, FlagPatterns, Selection


@dataclass
class SpaceFlags:
    """The flags of a space with their places, the constraints between them, the selections from
    catalogues by compiler, and notices."""

    placed: list[Placed] = field(default_factory=list)
    constraints: list[tuple[Location, Expression]] = field(default_factory=list)
    selected: dict[str, SelectedFlags] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)


def flags_of(document: Document, model: SpaceFile | ProgramSpaceFile) -> SpaceFlags:
    """Return the flags of a space.

    Raises SpecError for a selection or files that cannot be resolved; other faults cannot be found
    then, since the flags have no names or values.
    """
    flags = SpaceFlags()
    for compiler, group in model.flag_groups.items():
        if not isinstance(group, dict):
            _select(document, compiler, group, isinstance(model, ProgramSpaceFile), flags)
        for location, name, flag in _declared(compiler, group):
            flags.placed.append((location, _flag(document, location, name, flag, flags)))
    if document.faults:
        raise SpecError(document.faults)
    return flags


def _select(
    document: Document, compiler: str, group: str | Selection, linked: bool, flags: SpaceFlags
) -> None:
    location: Location = ("flags", compiler)
    selection: Selection = [group] if isinstance(group, str) else group
    try:
        catalogue = catalogue_of(compiler)
        found = resolve(catalogue, selection, linked=linked)
    except UsageError as error:
        document.fault(location, str(error))
        return
    for name, values in found.values.items():
        flags.placed.append((location, catalogue.flags[name].parameter(name, compiler, values)))
    flags.constraints += ((location, constraint) for constraint in found.constraints)
    flags.selected[compiler] = found
    flags.notices += (Notice(compiler, text) for text in found.notices)


def _declared(compiler: str, group: FlagGroup) -> Iterator[tuple[Location, str, Flag]]:
    """Yield the flags that a space declares itself, with their places."""
    if isinstance(group, dict):
        yield from ((("flags", compiler, name), name, flag) for name, flag in group.items())
    elif not isinstance(group, str):
        for index, item in enumerate(group):
            for name, flag in own_flags([item]).items():
                yield ("flags", compiler, index, name), name, flag


def _flag(
    document: Document, location: Location, name: str, flag: Flag, flags: SpaceFlags
) -> Parameter:
    compiler = str(location[1])
    if not isinstance(flag, FlagPatterns):
        return flag_of(name, flag, compiler)
    if compiler == "opencl":
        text = "OpenCL's compiler reads no files; `files` is for nvcc, and the flags of programs"
        document.fault(location, text)
    files, notices = files_of(document, (*location, "files"), flag.files)
    flags.notices += (Notice(compiler, text, lasting=True) for text in notices)
    return flag_of(name, flag, compiler, files, _catalogued(compiler, name))


def _catalogued(compiler: str, name: str) -> str | None:
    """Return how a compiler's catalogue spells a flag of files; None where it has none."""
    with suppress(UsageError):
        flag = catalogue_of(compiler).flags.get(flag_name(name))
        return flag.option if flag is not None and flag.type == "files" else None
    return None
