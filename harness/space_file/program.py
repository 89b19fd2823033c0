"""The plan of a program: how to build, run, time and verify it."""

from __future__ import annotations

import hashlib
import itertools
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.core.records import Value
from harness.source.kernel_source import Source
from harness.space_file.program_model import ProgramModel, ProgramVerify, Template

OUTPUT = "output"
"""The placeholder of the built program's path."""

OUTPUT_MARK = "\0output\0"
"""The mark for that path in filled words, as the path is known only when they run; no parameter's
value can contain it."""

SEED = "seed"
"""The placeholder of a number that is another one in each run."""

SEED_MARK = "\0seed\0"
"""The mark for that number in filled words and variables."""

LISTS = ("flags", "sources")
"""The placeholders for several words."""

RESERVED = (*LISTS, OUTPUT, "source", SEED)
"""The placeholders that are neither parameters nor features."""


@dataclass(frozen=True)
class ProgramPlan:
    """How a program is built, run, timed and verified, with placeholders to be filled.

    It can be pickled, so that it can be sent to worker processes. Paths are relative to `folder`,
    and the one to verify with to `verify_folder`. `digests` are those of the named files when the
    space was read.
    """

    model: ProgramModel
    verify: ProgramVerify
    folder: Path
    verify_folder: Path
    sources: tuple[Source, ...]
    digests: tuple[str, ...] = field(default=(), repr=False)

    @property
    def build(self) -> tuple[Template, ...]:
        """The build's words, or its text for a shell; empty where nothing is built."""
        return _templates(self.model.build)

    @property
    def run(self) -> tuple[Template, ...]:
        """The run's words, or its text for a shell."""
        return _templates(self.model.run)

    def build_words(self, values: Mapping[str, Value], flags: Sequence[str]) -> tuple[str, ...]:
        """Return the build's words; the path of the output is OUTPUT_MARK."""
        return self._words(self.build, values, flags)

    def run_words(self, values: Mapping[str, Value]) -> tuple[str, ...]:
        """Return the run's words; the path of the output is OUTPUT_MARK, the seed SEED_MARK."""
        return self._words(self.run, values, ())

    def variables(self, values: Mapping[str, Value]) -> tuple[tuple[str, str], ...]:
        """Return the variables of the run's environment as pairs of name and text; the seed is
        SEED_MARK."""
        texts = texts_of({**values, SEED: SEED_MARK})
        return tuple(
            (name, template.filled(texts)) for name, template in self.model.environment.items()
        )

    def files_for(self, features: Mapping[str, Value]) -> tuple[Path, ...]:
        """Return the files that are copied into the folder of a run on this input."""
        texts = texts_of(features)
        return tuple(self.folder / template.filled(texts) for template in self.model.files)

    def expected_file(self, features: Mapping[str, Value]) -> Path | None:
        """Return the file that the output must equal on this input, if there is one."""
        named = getattr(self.verify.against, "file", None)
        if named is None:
            return None
        return self.verify_folder / Template(named).filled(texts_of(features))

    @property
    def host(self) -> Path | None:
        """The Python file whose check() decides whether a run is right, if there is one."""
        named = getattr(self.verify.against, "host", None)
        return None if named is None else self.verify_folder / named

    @property
    def words_used(self) -> frozenset[str]:
        """Every placeholder of the build, the run and its environment."""
        return names_of([*self.build, *self.run, *self.model.environment.values()])

    def sha256_parts(self) -> list[str]:
        """Return what is measured as texts, which are equal for equal programs."""
        model = self.model
        parts = [template.text for template in (*self.build, *self.run, *model.files)]
        parts += [f"{name}={template.text}" for name, template in model.environment.items()]
        for source in self.sources:
            parts += [source.path.name, source.text, *source.includes.values()]
        parts.append(model.time.model_dump_json() if model.time else "wall")
        return [*parts, str(model.shell), self.verify.model_dump_json(), *self.digests]

    def _words(
        self, templates: Sequence[Template], values: Mapping[str, Value], flags: Sequence[str]
    ) -> tuple[str, ...]:
        sources = [str(source.path.resolve()) for source in self.sources]
        texts = texts_of(values) | {"source": sources[0] if sources else ""}
        texts |= {OUTPUT: OUTPUT_MARK, SEED: SEED_MARK}
        lists = {"flags": list(flags), "sources": sources}
        if not self.model.shell:
            words = (lists[t.whole] if t.whole in lists else [t.filled(texts)] for t in templates)
            return tuple(itertools.chain.from_iterable(words))
        quoted = {name: shlex.quote(text) for name, text in texts.items() if name != OUTPUT}
        joined = {name: shlex.join(words) for name, words in lists.items()}
        return tuple(t.filled({OUTPUT: OUTPUT_MARK, **quoted, **joined}) for t in templates)


def _templates(command: Template | Sequence[Template] | None) -> tuple[Template, ...]:
    return () if command is None else (command,) if isinstance(command, Template) else (*command,)


def texts_of(values: Mapping[str, Value]) -> dict[str, str]:
    """Return values as text for a command: booleans are 0 and 1."""
    return {
        name: str(int(value)) if isinstance(value, bool) else str(value)
        for name, value in values.items()
    }


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file's content, hexadecimal; raises OSError."""
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def names_of(templates: Iterable[Template]) -> frozenset[str]:
    """Return the names of all placeholders."""
    return frozenset[str]().union(*(template.names for template in templates))
