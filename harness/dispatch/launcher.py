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
from harness.core.records import Config
from harness.dispatch.dispatcher import Dispatcher
from harness.dispatch.features import Feature
from harness.space_file import ProgramPlan
from harness.space_file.command_line import CommandLine, command_line
from harness.space_file.feature_model import FeatureSource
from harness.space_file.program import OUTPUT, texts_of

Word = str | dict[str, int | str] | None
"""A word of a command: a text, `{"argument": 1}`, `{"file": NAME}`, or None for the program."""

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
    processor is it), and the space's own commands that print features, by their names there."""

    line: CommandLine
    device: tuple[str, ...] | None
    own: Mapping[str, str] = field(default_factory=dict)
    contents: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def before(self, config: Config) -> list[Word]:
        """Return the words up to the program; None stands for its file."""
        texts = texts_of(config)
        programs = (OUTPUT, "source")
        return [None if t.whole in programs else t.filled(texts) for t in self.line.before]

    def inserted(self, config: Config) -> list[tuple[int, str]]:
        """Return the words of a configuration behind the program, each with the number of the
        user's words before it."""
        texts = texts_of(config)
        return [(count, template.filled(texts)) for count, template in self.line.inserted]

    def variables(self, config: Config) -> dict[str, str]:
        """Return the environment variables that a configuration sets."""
        texts = texts_of(config)
        return {name: template.filled(texts) for name, template in self.line.set_variables}

    @property
    def fixed_variables(self) -> dict[str, str]:
        """The variables that are set unless the user has set them."""
        return {name: template.filled({}) for name, template in self.line.fixed_variables}

    def command(self, source: FeatureSource) -> list[Word]:
        """Return the words of a command that prints a feature."""
        return [self._command_word(k, word) for k, word in enumerate(source.command or [])]

    def _command_word(self, index: int, word: str) -> Word:
        if index == 0 and word in self.own:
            return {"file": f"features/{self.own[word]}"}
        if word.startswith("{") and word.endswith("}") and not word.startswith("{{"):
            name = word[1:-1]
            return {"argument": int(name) if name.isdigit() else name}
        return word.replace("{{", "{").replace("}}", "}")


def make_launcher(plan: ProgramPlan, features: Sequence[str]) -> Launcher:
    """Make the launcher of a program; reads the space's own commands.

    Raises NoLauncher where there can be none, and UsageError where such a command is gone.
    """
    line = command_line(plan, features)
    firsts = [source.command[0] for source in line.sources.values() if source.command]
    own: dict[str, str] = {}
    for first in dict.fromkeys(first for first in firsts if "/" in first):
        name = Path(first).name
        own[first] = f"{len(own)}-{name}" if name in own.values() else name
    contents: dict[str, bytes] = {}
    for first, name in own.items():
        try:
            contents[name] = (plan.folder / first).read_bytes()
        except OSError as error:
            raise UsageError(f"{plan.folder / first}: {error.strerror}") from None
    return Launcher(line, plan.device, own, contents)


def launcher_files(name: str, launcher: Launcher) -> dict[str, bytes]:
    """Return the launcher's start and own commands, by their paths in the folder."""
    return {
        f"{name}/__main__.py": _MAIN.format(name=name).encode(),
        **{f"{name}/features/{own}": content for own, content in launcher.contents.items()},
    }


def launcher_data(dispatcher: Dispatcher, launcher: Launcher) -> dict[str, Any]:
    """Return what `loaders/command.py` reads, as JSON."""
    features = [_feature(feature, launcher) for feature in dispatcher.features]
    configs = [
        {
            "before": launcher.before(config),
            "inserted": launcher.inserted(config),
            "variables": launcher.variables(config),
            "shown": difference(config, dispatcher.constants),
        }
        for config in dispatcher.program.portfolio
    ]
    return {
        "features": features,
        "configurations": configs,
        "fixed_variables": launcher.fixed_variables,
        "feature_variables": dict(launcher.line.feature_variables),
        "device_command": launcher.device,
    }


def _feature(feature: Feature, launcher: Launcher) -> dict[str, Any]:
    source = launcher.line.sources[feature.name]
    return {
        "name": feature.name,
        "type": feature.type.name.lower(),
        "argument": source.argument,
        "file_size": source.file_size,
        "command": launcher.command(source) or None,
        "environment": source.environment,
        "field": source.field,
        "source": str(source),
    }
