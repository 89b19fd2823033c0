"""The launcher of a dispatched program: it finds the features of an input, and runs the program
that was chosen, as G-ADAPT selects among versions of whole programs (Liu et al., IPDPS 2009).

    NAME/_command.py    the launcher (harness.dispatch.loaders.command)
    NAME/__main__.py    starts it: `python NAME ARGUMENTS`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.core.errors import UsageError
from harness.space_file import ProgramPlan
from harness.space_file.program import CommandLine, command_line

_MAIN = '''\
"""Run {name} on an input: `python {name} ARGUMENTS`."""

import importlib.util
import sys
from pathlib import Path

# Under another name: a space may be called like a module of Python's, which the loader imports.
_folder = Path(__file__).resolve().parent
_spec = importlib.util.spec_from_file_location("dispatched", _folder / "__init__.py")
_module = importlib.util.module_from_spec(_spec)
_module.__path__ = [str(_folder)]
sys.modules["dispatched"] = _module
_spec.loader.exec_module(_module)
_module.load().execute(sys.argv[1:])
'''


@dataclass(frozen=True)
class Launcher:
    """How a program is launched: its command line, the command that names the device (None: the
    processor is it), and of the space's own commands that print features the names in the written
    folder, by those in the space, and the contents."""

    line: CommandLine
    device: Sequence[str] | None
    own: Mapping[str, str]
    contents: Mapping[str, bytes] = field(repr=False)

    @classmethod
    def of(cls, plan: ProgramPlan, features: Sequence[str]) -> Launcher:
        """Make the launcher of a program; reads the space's own commands.

        Raises NoLauncher where there can be none, and UsageError where such a command is gone.
        """
        line = command_line(plan, features)
        own: dict[str, str] = {}
        contents: dict[str, bytes] = {}
        for source in line.sources.values():
            first = source.command[0] if source.command else ""
            if "/" in first and first not in own:
                name = Path(first).name
                own[first] = f"{len(own)}-{name}" if name in own.values() else name
                try:
                    contents[own[first]] = (plan.folder / first).read_bytes()
                except OSError as error:
                    raise UsageError(f"{plan.folder / first}: {error.strerror}") from None
        return cls(line, plan.model.device, own, contents)

    def files(self, name: str) -> dict[str, bytes]:
        """Return its start and own commands, by their paths in the folder."""
        return {
            f"{name}/__main__.py": _MAIN.format(name=name).encode(),
            **{f"{name}/features/{own}": content for own, content in self.contents.items()},
        }
