"""The plan of a program: how to build, run, time and verify it; and a launcher's command line."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.core.records import Value
from harness.source.kernel_source import Source
from harness.space_file.program_model import (
    FeatureSource,
    ProgramModel,
    ProgramVerify,
    Template,
    is_argument,
)

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

SOURCE = "source"
"""The placeholder of the only source."""

RESERVED = (*LISTS, OUTPUT, SOURCE, SEED)
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
    digests: tuple[tuple[Path, str], ...] = field(default=(), repr=False)

    @property
    def build(self) -> tuple[Template, ...]:
        """The build's words; empty where nothing is built."""
        return tuple(self.model.build or ())

    @property
    def run(self) -> tuple[Template, ...]:
        """The run's words."""
        return tuple(self.model.run)

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

    def why_not_built_once(self, features: Sequence[str]) -> str:
        """Say why a configuration is not one program for all inputs; empty where it is."""
        named = sorted(names_of(self.build) & set(features))
        if named:
            return f"`build` names `{{{named[0]}}}`, so that each input has a program of its own"
        return ""

    def command_texts(self) -> list[str]:
        """Return the commands, and where the time is found, as texts."""
        model = self.model
        parts = [template.text for template in (*self.build, *self.run, *model.files)]
        parts += [f"{name}={template.text}" for name, template in model.environment.items()]
        parts.append(model.time.model_dump_json() if model.time else "wall")
        return [*parts, *(source.path.name for source in self.sources)]

    def _words(
        self, templates: Sequence[Template], values: Mapping[str, Value], flags: Sequence[str]
    ) -> tuple[str, ...]:
        sources = [str(source.path.resolve()) for source in self.sources]
        texts = texts_of(values) | {"source": sources[0] if sources else ""}
        texts |= {OUTPUT: OUTPUT_MARK, SEED: SEED_MARK}
        lists = {"flags": list(flags), "sources": sources}
        words = (lists[t.whole] if t.whole in lists else [t.filled(texts)] for t in templates)
        return tuple(itertools.chain.from_iterable(words))


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


# ------------------------------------------------------- the command line of a launcher
#
# A launcher is started with the words of `run` behind the program, without those that a parameter
# sets: the launcher inserts these for the configuration that it chooses.


class NoLauncher(Exception):
    """There can be no launcher for a program; the message says why, and what to do."""


@dataclass(frozen=True)
class CommandLine:
    """What a launcher runs, and where it finds the features of the input.

    `before` are the words of `run` up to the program. Of those behind it, `typed` are the user's,
    and `inserted` those that parameters set, each with the number of the user's words before it.
    `set_variables` name parameters and are always set; `fixed_variables` name none, and are set
    unless the user has set them; `feature_variables` are set to a feature. `device` is the command
    that names the device; None: the processor is it.
    """

    before: tuple[Template, ...]
    typed: tuple[Template, ...]
    inserted: tuple[tuple[int, Template], ...]
    set_variables: tuple[tuple[str, Template], ...]
    fixed_variables: tuple[tuple[str, Template], ...]
    feature_variables: tuple[tuple[str, str], ...]
    sources: Mapping[str, FeatureSource]
    device: Sequence[str] | None

    @property
    def usage(self) -> str:
        """The user's words for a message, features in capitals: `N --steps=STEPS`."""
        shown = {name: name.upper() for template in self.typed for name in template.names}
        return " ".join(template.filled(shown) for template in self.typed)


def command_line(plan: ProgramPlan, features: Sequence[str]) -> CommandLine:
    """Derive a launcher's command line from `run`, `environment` and `features`.

    Raises NoLauncher where that cannot be done.
    """
    if why := plan.why_not_built_once(features):
        raise NoLauncher(why)
    end = next((k for k, t in enumerate(plan.run) if t.names & {OUTPUT, SOURCE}), 0) + 1
    given = [*features, SEED]  # the user gives a seed as well
    _check(plan.run, end, given)
    typed, inserted, positions = _behind(plan.run[end:], given)
    names = set(given)
    environment = plan.model.environment
    mixed = [t.text for t in environment.values() if t.names & names and t.whole is None]
    if mixed:
        raise NoLauncher(f"`{mixed[0]}` in `environment` has a feature within a text")
    of_features = {n: t.whole for n, t in environment.items() if t.whole in names and t.whole}
    from_variables = {f: FeatureSource(environment=n) for n, f in of_features.items()}
    sources = {**from_variables, **positions, **plan.model.features}
    missing = [name for name in features if name not in sources]
    if missing:
        raise NoLauncher(
            f"no argument of `run` is the feature {missing[0]}; say where a run has it, for "
            f"example with `features: {{{missing[0]}: {{argument: 1}}}}` under `program`"
        )
    others = [(n, t) for n, t in environment.items() if n not in of_features]
    return CommandLine(
        before=plan.run[:end],
        typed=tuple(typed),
        inserted=tuple(inserted),
        set_variables=tuple((n, t) for n, t in others if t.names),
        fixed_variables=tuple((n, t) for n, t in others if not t.names),
        feature_variables=tuple(
            (n, f) for n, f in of_features.items() if f != SEED and sources[f].environment != n
        ),
        sources={name: sources[name] for name in features},
        device=plan.model.device,
    )


def _check(run: Sequence[Template], end: int, features: Sequence[str]) -> None:
    """Check the words up to the program, and that it stands in `run` once, as a word."""
    for template in run[:end]:
        for name in sorted(template.names & set(features)):
            raise NoLauncher(f"`{{{name}}}` stands before the program in `run`")
    programs = {OUTPUT, SOURCE, "sources"}
    last = run[end - 1]
    if (last.names & programs and last.whole is None) or names_of(run[end:]) & programs:
        raise NoLauncher("`run` names the program within a word, or twice")
    first = run[0]
    if first.whole is None and "/" in first.text and not first.text.startswith("/"):
        raise NoLauncher(
            f"`run` begins with `{first.text}`, which is in the space's folder; begin it with "
            "{output}, {source}, or a program of the PATH"
        )


def _behind(
    templates: Sequence[Template], features: Sequence[str]
) -> tuple[list[Template], list[tuple[int, Template]], dict[str, FeatureSource]]:
    """Return the user's words, those that parameters set, and where each feature stands in the
    user's."""
    typed: list[Template] = []
    inserted: list[tuple[int, Template]] = []
    sources: dict[str, FeatureSource] = {}
    option = None  # the word before, where it is one
    for template in templates:
        of_features = template.names & set(features)
        if of_features and of_features != template.names:
            raise NoLauncher(f"`{template.text}` in `run` has a feature and a parameter")
        if template.names and not of_features:
            if option is not None:  # it belongs to the value that the launcher inserts
                inserted.append((len(typed) - 1, typed.pop()))
            inserted.append((len(typed), template))
            option = None
            continue
        typed.append(template)
        for name, source in _source_in(template, len(typed), option):
            sources.setdefault(name, source)
        option = template if _is_option(template) else None
    return typed, inserted, sources


def _source_in(
    template: Template, position: int, option: Template | None
) -> Iterator[tuple[str, FeatureSource]]:
    """Yield the feature that a word of `run` consists of, alone or behind `PREFIX=`."""
    if template.whole is not None:
        yield (template.whole, FeatureSource(argument=position if option is None else option.text))
    elif len(template.names) == 1:
        (name,) = template.names
        prefix = template.text.removesuffix(f"{{{name}}}")
        if prefix.endswith("=") and is_argument(prefix):
            argument = prefix[:-1] if prefix.startswith("-") else prefix
            yield name, FeatureSource(argument=argument)


def _is_option(template: Template) -> bool:
    text = template.text
    return text.startswith("-") and not text.endswith("=") and is_argument(text)
