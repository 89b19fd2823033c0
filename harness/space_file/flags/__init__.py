"""The flags of a space: those that it declares, and those that it selects from catalogues.

A selection is a set's name, or a list of names of sets and flags; `-NAME` takes a flag out again,
and `{NAME: {values: [..]}}` or `{NAME: {min: .., max: .., step: ..}}` leaves it fewer values.
An item with an `option` is a flag of the space's own, and one with `files` has these as values.

What a space has does not depend on the machine: `harness.measure.flags` asks the compiler later
which flags it knows.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from harness.constraints.expression import Expression
from harness.constraints.parts import truth_table
from harness.core.errors import SpecError, UsageError
from harness.core.program import FlagFile
from harness.core.records import Value, shown
from harness.core.text import counted, escaped, suggestion
from harness.source.kernel_source import read_bytes
from harness.space_file.document import Document, Location
from harness.space_file.flags.catalogue import Catalogue, catalogue_of
from harness.space_file.flags.catalogue import chosen as flags_chosen
from harness.space_file.kernel_checks import reason
from harness.space_file.model import FlagGroup
from harness.space_file.parameters import Parameter, Placed, declared_flag
from harness.space_file.program_model import ProgramSpaceFile, SpaceModel
from harness.space_file.tuned import MAX_FLAG_VALUES, Flag, FlagPatterns, Narrowing, Selection

MAX_FILE_BYTES = 64 << 20
_DIGITS = 12

NO_FLAG = "the selection leaves no flag to tune"


@dataclass(frozen=True)
class Notice:
    """A note for the user about the flags of a compiler.

    One that is `lasting` holds whatever the compiler that is here knows.
    """

    compiler: str
    text: str
    lasting: bool = False

    def __str__(self) -> str:
        return f"flags of {self.compiler}: {self.text}"


@dataclass(frozen=True)
class SelectedFlags:
    """The flags that a space selects from a compiler's catalogue, with their values.

    `constraints` are those between them. `notices` says what was left out, and why.
    `changes_values` is False where every configuration must compute the very same bits; of a
    space's own flags nothing is known.
    """

    values: Mapping[str, Sequence[Value]]
    constraints: tuple[Expression, ...]
    notices: tuple[str, ...]
    changes_values: bool


@dataclass
class _SpaceFlags:
    """The flags of a space with their places, the constraints between them, the selections from
    catalogues by compiler, and notices."""

    placed: list[Placed] = field(default_factory=list)
    constraints: list[tuple[Location, Expression]] = field(default_factory=list)
    selected: dict[str, SelectedFlags] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)


def flags_of(document: Document, model: SpaceModel) -> _SpaceFlags:
    """Return the flags of a space.

    Raises SpecError for a selection or files that cannot be resolved; other faults cannot be found
    then, since the flags have no names or values.
    """
    flags = _SpaceFlags()
    for compiler, group in model.flag_groups.items():
        if not isinstance(group, dict):
            _select(document, compiler, group, isinstance(model, ProgramSpaceFile), flags)
        for location, name, flag in _declared(compiler, group):
            flags.placed.append((location, _flag(document, location, name, flag)))
    if document.faults:
        raise SpecError(document.faults)
    return flags


def _select(
    document: Document, compiler: str, selection: Selection, linked: bool, flags: _SpaceFlags
) -> None:
    location: Location = ("flags", compiler)
    try:
        catalogue = catalogue_of(compiler)
        chosen_flags = resolve(catalogue, selection, linked=linked)
    except UsageError as error:
        document.fault(location, str(error))
        return
    for name, values in chosen_flags.values.items():
        parameter = catalogue.flags[name].parameter(name, compiler, values)
        flags.placed.append((location, parameter))
    flags.constraints += ((location, constraint) for constraint in chosen_flags.constraints)
    flags.selected[compiler] = chosen_flags
    flags.notices += (Notice(compiler, text, lasting=True) for text in chosen_flags.notices)
    flags.notices.append(Notice(compiler, "no compiler was asked which of these flags it knows"))


def _declared(compiler: str, group: FlagGroup) -> Iterator[tuple[Location, str, Flag]]:
    """Yield the flags that a space declares itself, with their places."""
    if isinstance(group, dict):
        yield from ((("flags", compiler, name), name, flag) for name, flag in group.items())
        return
    for index, item in enumerate(group):
        for name, flag in _own_flags([item]).items():
            yield ("flags", compiler, index, name), name, flag


def _flag(document: Document, location: Location, name: str, flag: Flag) -> Parameter:
    compiler = str(location[1])
    if not isinstance(flag, FlagPatterns):
        return declared_flag(name, flag, compiler)
    if compiler == "opencl":
        text = "OpenCL's compiler reads no files; `files` is for nvcc, and the flags of programs"
        document.fault(location, text)
    files = _files_of(document, (*location, "files"), flag.files)
    return declared_flag(name, flag, compiler, files, _catalogued(compiler, name))


def _catalogued(compiler: str, name: str) -> str | None:
    """Return how a compiler's catalogue spells a flag of files; None where it has none."""
    with suppress(UsageError):
        flag = catalogue_of(compiler).flags.get(name.replace("-", "_"))
        return flag.option if flag is not None and flag.type == "files" else None
    return None


# --------------------------------------------------------------------------------- selections


def _own_flags(selection: Selection) -> dict[str, Flag]:
    """Return the flags that a selection declares instead of naming them."""
    return {
        name: flag
        for item in selection
        if not isinstance(item, str)
        for name, flag in item.items()
        if not isinstance(flag, Narrowing)
    }


def resolve(catalogue: Catalogue, selection: Selection, *, linked: bool = False) -> SelectedFlags:
    """Return the flags of a selection.

    `linked` says that what is built is a program, not a kernel that is loaded by itself. Raises
    UsageError for a name that the catalogue does not have, or a narrowing that does not fit.
    """
    own, flags = _own_flags(selection), catalogue.flags
    filed = [name for name, flag in own.items() if _is_filed(catalogue, name, flag)]
    chosen = flags_chosen(flags, catalogue.sets, selection)
    unlinked = [name for name in chosen if flags[name].needs == "linking" and not linked]
    notices = [f"`{n}` acts only on a program that is linked; it is left out" for n in unlinked]
    chosen = {name: values for name, values in chosen.items() if name not in unlinked}
    if not chosen and not own:
        notices.append(NO_FLAG)
    return SelectedFlags(
        {name: values for name, values in chosen.items() if name not in own},
        tuple(_among(catalogue, (*chosen, *filed))),
        tuple(notices),
        bool(own) or any(len(flags[n].exact(v)) < len(v) for n, v in chosen.items()),
    )


def _is_filed(catalogue: Catalogue, name: str, flag: Flag) -> bool:
    """Whether an item names the files of a flag of the catalogue."""
    if not isinstance(flag, FlagPatterns) or flag.option is not None:
        return False
    known = [n for n, flag in catalogue.flags.items() if flag.type == "files"]
    if name not in known:
        what = "takes no files" if name in catalogue.flags else "is no flag that takes files"
        hint = "declare it with an `option`"
        raise UsageError(f"`{name}` {what}; {suggestion(name, known, hint)}")
    return True


# -------------------------------------------------------------------------- as a space has them


def _among(catalogue: Catalogue, names: Sequence[str]) -> Iterator[Expression]:
    """Yield the constraints over these flags that can be false while every other one is absent."""
    for constraint in catalogue.constraints:
        absent = {n: catalogue.flags[n].absent for n in constraint.names.difference(names)}
        flags = {n: catalogue.flags[n] for n in constraint.names.difference(absent)}
        domains = {name: (flag.absent, *flag.values) for name, flag in flags.items()}
        if not absent:
            yield constraint
        elif not truth_table(constraint.holds, domains, absent).all():
            yield _with_values(constraint, absent)


def _with_values(written: Expression, values: Mapping[str, Value]) -> Expression:
    """Return a constraint with words such as `absent` in place of flags that are never there.

    So it needs no value for them wherever it is read again, as in a database. Messages show it as
    it was written.
    """
    found = Expression(re.sub(r"\w+", lambda w: shown(values.get(w[0], w[0])), written.text))
    found.written = written.text
    return found


# ---------------------------------------------------------------------- values that are files
#
# A value is the file's name. The contents count in the digest of the space, as those of its sources
# do; a file that changes in a run ends it.


def _files_of(
    document: Document, location: Location, patterns: str | Sequence[str]
) -> dict[str, FlagFile]:
    """Return the files that match the patterns of a flag by their names; note the faults."""
    files: dict[str, FlagFile] = {}
    for path in _matching(document, location, patterns):
        file = _read(document, location, path)
        if file is None:
            continue
        first = files.setdefault(path.name, file)
        if first.sha256 != file.sha256:
            text = f"{first.path} and {path} have one name and two contents; rename one"
            document.fault(location, text)
    return files


def _matching(
    document: Document, location: Location, patterns: str | Sequence[str]
) -> Iterator[Path]:
    """Yield the files that match, in the order of their names, each once."""
    paths: dict[str, Path] = {}
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        try:
            matching = _files(pattern, document.folder_of("flags"))
        except (OSError, ValueError) as error:
            document.fault(location, str(error))
            continue
        paths |= {os.path.realpath(path): path for path in matching}
    if len(paths) > MAX_FLAG_VALUES:
        text = f"matches {counted(len(paths), 'file')}, but a flag has at most {MAX_FLAG_VALUES:,}"
        return document.fault(location, f"{text} values; narrow the pattern")
    yield from sorted(paths.values(), key=lambda path: (path.name, str(path)))


def _files(pattern: str, folder: Path) -> list[Path]:
    """Return the files that a pattern matches, without folders; raises ValueError for none."""
    if not glob.has_magic(pattern):
        path = folder / pattern
        if path.is_dir():
            raise ValueError(f"{path} is a folder; name its files, such as `{Path(pattern) / '*'}`")
        return [path]
    paths = [folder / name for name in glob.glob(pattern, root_dir=folder, recursive=True)]
    files = [path for path in paths if not path.is_dir()]
    if not files:
        others = f", only {counted(len(paths), 'folder')}" if paths else ""
        where = "" if Path(pattern).is_absolute() else "; patterns are relative to the space file"
        raise ValueError(f"`{pattern}` matches no file{others}{where}")
    return files


def _read(document: Document, location: Location, path: Path) -> FlagFile | None:
    """Read a file; note the fault and return None where it cannot be read."""
    try:
        if not path.name.isprintable():
            raise ValueError("has a name that is not printable; rename it")
        content = read_bytes(path, MAX_FILE_BYTES)
    except (OSError, ValueError) as error:
        document.fault(location, f"{escaped(str(path))} {reason(error, path)}")
        return None
    sha256 = hashlib.sha256(content).hexdigest()
    return FlagFile(f"{path.name}@{sha256[:_DIGITS]}", path, sha256)
