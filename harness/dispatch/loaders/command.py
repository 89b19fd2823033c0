"""Run a dispatched program: find the features of the input, choose the program, become it."""

from __future__ import annotations

import os
import platform
import re
import signal
import stat
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

_WHOLE = re.compile(r"[+-]?[0-9]+")
_REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_TIMEOUT_S = 60  # of the command that names the device
_FAILED, _NOT_EXECUTABLE, _NOT_FOUND = 125, 126, 127


class LaunchError(ValueError):
    """The program cannot be chosen: a feature is missing or malformed, or nothing applies."""


class _LaunchCommand(NamedTuple):
    """What to run: the words, the environment variables to set, and the configuration's number."""

    words: list[str]
    variables: dict[str, str]
    number: int


class LaunchedProgram:
    """A program of several builds; each run starts the one for its arguments.

        program = blur.load()
        program.run(["64", "8"])  # as subprocess.run: returns when it has ended
        program.execute(["64", "8"])  # becomes the program: does not return

    On a device other than the tuned one, the best single configuration runs on every input, and a
    warning says so.
    """

    def __init__(self, dispatcher: Any, context: None = None) -> None:
        self._dispatcher = dispatcher
        self._folder = Path(dispatcher.__file__).resolve().parent
        self._data = dispatcher.DATA["launcher"]

    def command(self, arguments: Sequence[str]) -> _LaunchCommand:
        """Return what to run on an input; raises LaunchError."""
        command, _, warning = self._chosen(arguments)
        if warning:
            warnings.warn(warning, stacklevel=2)
        return command

    def run(self, arguments: Sequence[str], **options: Any) -> subprocess.CompletedProcess[Any]:
        """Run the program on an input to its end, with the options of `subprocess.run`; raises
        LaunchError."""
        command = self.command(arguments)
        environment = {**(options.pop("env", None) or os.environ), **command.variables}
        return subprocess.run(command.words, env=environment, check=False, **options)

    def execute(self, arguments: Sequence[str]) -> NoReturn:
        """Become the program: its exit status, signals and streams are this process's. Ends with
        status 125 if it cannot be chosen, 126 or 127 if it cannot be started."""
        name = self._dispatcher.NAME
        try:
            command, features, warning = self._chosen(arguments)
        except LaunchError as error:
            print(f"{name}: {error}", file=sys.stderr)
            sys.exit(_FAILED)
        if warning:
            print(warning, file=sys.stderr)
        if "HARNESS_VERBOSE" in os.environ:
            shown = "".join(f" {feature}={text}" for feature, text in features.items())
            config = self._data["configurations"][command.number]["shown"]
            chosen = f"configuration {command.number} ({config})"
            print(f"{name}:{shown} -> {chosen}", file=sys.stderr)
        for ignored in ("SIGPIPE", "SIGXFSZ"):  # Python ignores them, and they would stay so
            signal.signal(getattr(signal, ignored), signal.SIG_DFL)
        self._dispatcher.flush_calls()
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            os.execvpe(command.words[0], command.words, {**os.environ, **command.variables})
        except OSError as error:
            print(f"{name}: {command.words[0]}: {error.strerror}", file=sys.stderr)
            missing = isinstance(error, FileNotFoundError)
            sys.exit(_NOT_FOUND if missing else _NOT_EXECUTABLE)

    # ------------------------------------------------------------------------------ the choice

    def _chosen(self, arguments: Sequence[str]) -> tuple[_LaunchCommand, dict[str, str], str]:
        """Return the command, the texts of the features that were read, and a warning."""
        reader = _FeatureReader(list(arguments))
        index, warning = self._index(reader)
        config = self._data["configurations"][index]
        file = self._dispatcher.DATA["configurations"][index]["file"]
        program = str(self._folder / file) if file else ""
        words = [program if word is None else word for word in config["before"]]
        for count in range(len(arguments) + 1):
            is_end = count == len(arguments)
            words += [w for at, w in config["inserted"] if at == count or (is_end and at > count)]
            words += arguments[count : count + 1]
        fixed = self._data["fixed_variables"].items()
        variables = {n: text for n, text in fixed if n not in os.environ} | config["variables"]
        by_name = {feature["name"]: feature for feature in self._data["features"]}
        for name, feature in self._data["feature_variables"].items():
            variables[name] = reader.text(by_name[feature])
        return _LaunchCommand(words, variables, index), reader.texts, warning

    def _index(self, reader: _FeatureReader) -> tuple[int, str]:
        """Return the index of the configuration, and a warning on another device."""
        wanted = os.environ.get("HARNESS_CHOICE", "")
        if wanted == "static":
            return int(self._dispatcher.STATIC), ""
        if wanted not in ("", "tuned"):
            most = len(self._data["configurations"]) - 1
            if not re.fullmatch("[0-9]{1,9}", wanted) or int(wanted) > most:
                raise LaunchError(
                    f"HARNESS_CHOICE is `{wanted}`, but must be static, tuned or 0 to {most}"
                )
            return int(wanted), ""
        values = [reader.value(feature) for feature in self._data["features"]]
        tuned = self._dispatcher.PROVENANCE["device"]
        device = tuned if wanted else self._device()
        select, warning = self._dispatcher.select_index, ""
        if device.rstrip() != tuned.rstrip():
            select = self._dispatcher.fallback_index
            warning = (
                f"{self._dispatcher.NAME}: tuned on {tuned}, not on {device}: the best "
                "configuration for all inputs runs; tune it on this device"
            )
        try:
            return int(select(*values)), warning
        except LookupError:
            raise LaunchError("no configuration applies to this input") from None

    def _device(self) -> str:
        words = self._data["device_command"]
        if words is None:
            return f"{_processor()}, {len(os.sched_getaffinity(0))} cores"
        try:
            done = subprocess.run(
                words,
                env={**os.environ, "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                timeout=_TIMEOUT_S,
                check=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            print(f"`{words[0]}`: {error}", file=sys.stderr)
            return "an unknown device"
        return os.fsdecode(done.stdout).strip().split("\n")[0]


class _FeatureReader:
    """Reads the features of an input from arguments, environment variables and files."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.texts: dict[str, str] = {}
        self._arguments = arguments

    def value(self, feature: Mapping[str, Any]) -> float | str:
        """Return a feature as the choice takes it."""
        text, kind = self.text(feature), feature["type"]
        about = f"the feature {feature['name']} is `{text}` ({feature['source']}), but must be"
        if kind == "whole":
            if not _WHOLE.fullmatch(text):
                raise LaunchError(f"{about} a whole number")
            # Python refuses to convert thousands of digits; the float rounds, but never past 2^63.
            if abs(float(text)) > 2**63 or not -(2**63) <= int(text) < 2**63:
                raise LaunchError(f"{about} a whole number of 64 bits")
            return int(text)
        if kind == "real":
            if not _REAL.fullmatch(text) or abs(float(text)) == float("inf"):
                raise LaunchError(f"{about} a number")
            return float(text)
        return text

    def text(self, feature: Mapping[str, Any]) -> str:
        """Return a feature as a text."""
        name, source = feature["name"], feature["source"]
        if name not in self.texts:
            text = self._found(feature)
            if text is None:
                raise LaunchError(
                    f"the feature {name} is missing: it is {source}. HARNESS_CHOICE=static runs "
                    "the best configuration for all inputs"
                )
            self.texts[name] = text
        return self.texts[name]

    def _found(self, feature: Mapping[str, Any]) -> str | None:
        if feature["environment"] is not None:
            return os.environ.get(feature["environment"])
        if feature["file_size"] is None:
            return self._argument(feature["argument"])
        path = self._argument(feature["file_size"])
        if path is None:
            return None
        about = f"the feature {feature['name']} is {feature['source']}, but `{path}`"
        try:
            facts = os.stat(path)
        except OSError as error:
            raise LaunchError(f"{about}: {error.strerror}") from None
        if not stat.S_ISREG(facts.st_mode):
            raise LaunchError(f"{about} is no file")
        return str(facts.st_size)

    def _argument(self, wanted: int | str) -> str | None:
        """Return an argument by its position from 1 or, of options, the last one."""
        if isinstance(wanted, int):
            return self._arguments[wanted - 1] if wanted <= len(self._arguments) else None
        last = None
        waiting = iter(self._arguments)
        for argument in waiting:
            if argument == "--":
                break
            if wanted.endswith("=") and argument.startswith(wanted):
                last = argument[len(wanted) :]
            elif argument.startswith(f"{wanted}="):
                last = argument[len(wanted) + 1 :]
            elif argument == wanted:
                last = next(waiting, None)
        return last


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
