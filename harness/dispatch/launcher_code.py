"""Write the launcher of a program: in C, and as what its Python module reads."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.core.config_diff import difference
from harness.core.errors import BackendUnavailable, BuildFailed
from harness.core.records import Config
from harness.dispatch.dispatcher import Dispatcher
from harness.dispatch.features import Feature
from harness.dispatch.formulas import Type
from harness.dispatch.launcher import Launcher, Word
from harness.dispatch.rendering import comment_lines, rendered
from harness.dispatch.spelling import c_comment, c_string, wrapped

_COMPILERS = ("cc", "gcc", "clang")
_OPTIONS = ("-std=c99", "-O2")
_TIMEOUT_S = 120.0

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


def launcher_files(dispatcher: Dispatcher, launcher: Launcher) -> dict[str, bytes]:
    """Return the launcher's sources, data and own commands, by their paths in the folder."""
    name = dispatcher.name
    data = json.dumps(_data(dispatcher, launcher), indent=1) + "\n"
    return {
        f"{name}.c": _c_source(dispatcher, launcher).encode(),
        f"{name}/__main__.py": _MAIN.format(name=name).encode(),
        f"{name}/launch.json": data.encode(),
        **{f"{name}/features/{own}": content for own, content in launcher.contents.items()},
    }


def _data(dispatcher: Dispatcher, launcher: Launcher) -> dict[str, Any]:
    """Return what `loaders/command.py` reads."""
    features = [_feature(feature, launcher) for feature in dispatcher.features]
    configs = [
        {
            "before": launcher.before(config),
            "inserted": launcher.inserted(config),
            "variables": launcher.variables(config),
            "shown": _shown(dispatcher, config),
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


def _shown(dispatcher: Dispatcher, config: Config) -> str:
    """Describe a configuration by its changes from the default."""
    return difference(config, dispatcher.constants)


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


def _c_source(dispatcher: Dispatcher, launcher: Launcher) -> str:
    writer = _CLauncher(dispatcher, launcher)
    title = [f"Runs the program of {dispatcher.name} that was chosen for its arguments."]
    lines = [*title, *list(comment_lines(dispatcher))[1:]]
    return rendered(
        "launcher.c.j2",
        code=writer,
        name=dispatcher.name,
        upper=dispatcher.name.upper(),
        comment="\n * ".join(wrapped(map(c_comment, lines))).replace(" * \n", " *\n"),
        features=dispatcher.features,
        configs=[(config, _shown(dispatcher, config)) for config in dispatcher.program.portfolio],
        has_files=bool(dispatcher.kernels),
        arguments=", ".join(f"value_{k}" for k in range(len(dispatcher.features))),
    )


class _CLauncher:
    """Writes the tables of the launcher in C."""

    def __init__(self, dispatcher: Dispatcher, launcher: Launcher) -> None:
        self._dispatcher = dispatcher
        self._launcher = launcher

    @cached_property
    def commands(self) -> list[list[str]]:
        """The words of each command that prints features, as C; each command is there once."""
        found = [self._launcher.command(s) for s in self._launcher.line.sources.values()]
        listed = [[self._word(word) for word in words] for words in found if words]
        return [list(words) for words in dict.fromkeys(map(tuple, listed))]

    @property
    def has_whole(self) -> bool:
        """Whether some feature is a whole number."""
        return any(f.type is Type.WHOLE for f in self._dispatcher.features)

    @property
    def has_real(self) -> bool:
        """Whether some feature is a real number."""
        return any(f.type is Type.REAL for f in self._dispatcher.features)

    @property
    def device(self) -> list[str] | None:
        """The words of the command that names the device."""
        words = self._launcher.device
        return None if words is None else [self._word(word) for word in words]

    def sources(self) -> Iterator[str]:
        """Write where each feature is found."""
        for feature in self._dispatcher.features:
            source = self._launcher.line.sources[feature.name]
            kind, word, command = "ARGUMENT", "{END, NULL, 0}", 0
            if source.command is not None:
                kind = "COMMAND"
                words = [self._word(word) for word in self._launcher.command(source)]
                command = self.commands.index(words)
            elif source.environment is not None:
                kind, word = "VARIABLE", self._word(source.environment)
            elif source.file_size is not None:
                kind, word = "FILE_SIZE", self._word({"argument": source.file_size})
            elif source.argument is not None:
                word = self._word({"argument": source.argument})
            texts = c_string(feature.name), c_string(str(source))
            yield f"{{{texts[0]}, {texts[1]}, {kind}, {word}, {command}, {source.field}}}"

    def value(self, index: int) -> str:
        """Write the declaration of a feature's value, as the header's functions take it."""
        feature = self._dispatcher.features[index]
        if feature.type is not Type.WORD:
            kind = "whole" if feature.type is Type.WHOLE else "real"
            return f"const {feature.type.value} value_{index} = {kind}_of({index});"
        enum = f"enum {self._dispatcher.name}_{feature.name}"
        name = self._dispatcher.name
        other = f"{name.upper()}_{feature.name.upper()}_OTHER"
        tests = "".join(
            f"strcmp(text_of({index}), {c_string(word)}) == 0 ? {feature.c_word(name, word)} : "
            for word in feature.words
        )
        return f"const {enum} value_{index} = {tests}{other};"

    def before(self, config: Config) -> list[str]:
        """Write the words up to the program."""
        return [self._word(word) for word in self._launcher.before(config)]

    def inserted(self, config: Config) -> list[str]:
        """Write the words behind the program, with the numbers of the user's words before them."""
        return [f"{{{k}, {c_string(text)}}}" for k, text in self._launcher.inserted(config)]

    def variables(self, config: Config) -> list[str]:
        """Write the environment variables: name, text, and whether they replace the user's."""
        own, fixed = self._launcher.variables(config), self._launcher.fixed_variables
        listed = [(n, t, 1) for n, t in own.items()] + [(n, t, 0) for n, t in fixed.items()]
        return [f"{{{c_string(n)}, {c_string(t)}, {is_own}}}" for n, t, is_own in listed]

    def feature_variables(self) -> list[str]:
        """Write the calls that set environment variables to features."""
        index = {feature.name: k for k, feature in enumerate(self._dispatcher.features)}
        pairs = self._launcher.line.feature_variables
        return [f"setenv({c_string(n)}, text_of({index[f]}), 1);" for n, f in pairs]

    def _word(self, word: Word) -> str:
        if word is None:
            return "{PROGRAM, NULL, 0}"
        if isinstance(word, str):
            return f"{{TEXT, {c_string(word)}, 0}}"
        if "file" in word:
            path = f"{self._dispatcher.name}/{word['file']}"
            return f"{{FILE_HERE, {c_string(path)}, 0}}"
        argument = word["argument"]
        if isinstance(argument, int):
            return f"{{POSITION, NULL, {argument}}}"
        return f"{{OPTION, {c_string(argument)}, 0}}"


def launcher_compiler() -> str | None:
    """Return the path of a C compiler for the launcher; None without one."""
    return next(filter(None, map(shutil.which, _COMPILERS)), None)


def compile_launcher(name: str, header: bytes, source: bytes) -> bytes:
    """Compile the launcher; raises BackendUnavailable without a C compiler, and BuildFailed."""
    compiler = launcher_compiler()
    if compiler is None:
        raise BackendUnavailable(f"no C compiler found for {name}.c: {', '.join(_COMPILERS)}")
    with tempfile.TemporaryDirectory(prefix="harness-launcher-") as folder:
        Path(folder, f"{name}.h").write_bytes(header)
        Path(folder, f"{name}.c").write_bytes(source)
        command = [compiler, *_OPTIONS, "-o", "launcher", f"{name}.c", "-lm"]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise BuildFailed(
                f"{compiler} did not compile {name}.c within {_TIMEOUT_S:g} s"
            ) from None
        if done.returncode != 0:
            raise BuildFailed(f"{name}.c does not compile with {compiler}:\n{done.stderr.strip()}")
        return Path(folder, "launcher").read_bytes()
