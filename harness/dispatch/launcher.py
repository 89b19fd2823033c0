"""The launcher of a dispatched program: it finds the features of an input, and runs the program
that was chosen, as G-ADAPT selects among versions of whole programs (Liu et al., IPDPS 2009).

    NAME/_command.py    the launcher (harness.dispatch.loaders.command)
    NAME/__main__.py    starts it: `python NAME ARGUMENTS`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.core.config_diff import difference
from harness.core.errors import UsageError
from harness.dispatch.dispatcher import Dispatcher
from harness.dispatch.features import Feature
from harness.space_file import ProgramPlan
from harness.space_file.command_line import SOURCE, CommandLine, command_line
from harness.space_file.program import OUTPUT, texts_of

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


def make_launcher(plan: ProgramPlan, features: Sequence[str]) -> Launcher:
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
    return Launcher(line, plan.model.device, own, contents)


def launcher_files(name: str, launcher: Launcher) -> dict[str, bytes]:
    """Return the launcher's start and own commands, by their paths in the folder."""
    return {
        f"{name}/__main__.py": _MAIN.format(name=name).encode(),
        **{f"{name}/features/{own}": content for own, content in launcher.contents.items()},
    }


def launcher_data(dispatcher: Dispatcher, launcher: Launcher) -> dict[str, Any]:
    """Return what `loaders/command.py` reads, as JSON."""
    line = launcher.line
    return {
        "features": [_feature(feature, launcher) for feature in dispatcher.features],
        "configurations": [
            {
                "before": [
                    None if template.whole in (OUTPUT, SOURCE) else template.filled(texts)
                    for template in line.before
                ],
                "inserted": [(count, template.filled(texts)) for count, template in line.inserted],
                "variables": {
                    name: template.filled(texts) for name, template in line.set_variables
                },
                "shown": difference(config, dispatcher.constants),
            }
            for config in dispatcher.program.portfolio
            for texts in [texts_of(config)]
        ],
        "fixed_variables": {name: text.filled({}) for name, text in line.fixed_variables},
        "feature_variables": dict(line.feature_variables),
        "device_command": launcher.device,
    }


def _feature(feature: Feature, launcher: Launcher) -> dict[str, Any]:
    source = launcher.line.sources[feature.name]
    first, *others = source.command or [""]
    command = [
        {"file": f"features/{launcher.own[first]}"} if first in launcher.own else _word(first)
    ]
    return {
        **source.model_dump(),
        "name": feature.name,
        "type": feature.type.name.lower(),
        "command": [*command, *map(_word, others)] if source.command else None,
        "source": str(source),
    }


def _word(word: str) -> str | dict[str, int | str]:
    """Return a word of a command: a text or, for `{1}` and `{--size}`, an argument."""
    if word.startswith("{") and word.endswith("}") and not word.startswith("{{"):
        name = word[1:-1]
        return {"argument": int(name) if name.isdigit() else name}
    return word.replace("{{", "{").replace("}}", "}")
