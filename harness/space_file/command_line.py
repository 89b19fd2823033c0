"""The command line that a launcher of a tuned program takes, and where its features stand in it.

A launcher is started with the words of `run` behind the program, without those that a parameter
sets: the launcher inserts these for the configuration that it chooses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.space_file.program import OUTPUT, SEED, ProgramPlan, names_of
from harness.space_file.program_model import FeatureSource, Template, is_argument

SOURCE = "source"
_LISTS = "sources"


class NoLauncher(Exception):
    """There can be no launcher for a program; the message says why, and what to do."""


@dataclass(frozen=True)
class CommandLine:
    """What a launcher runs, and where it finds the features of the input.

    `before` are the words of `run` up to the program. Of those behind it, `typed` are the user's,
    and `inserted` those that parameters set, each with the number of the user's words before it.
    `set_variables` name parameters and are always set; `fixed_variables` name none, and are set
    unless the user has set them; `feature_variables` are set to a feature.
    """

    before: tuple[Template, ...]
    typed: tuple[Template, ...]
    inserted: tuple[tuple[int, Template], ...]
    set_variables: tuple[tuple[str, Template], ...]
    fixed_variables: tuple[tuple[str, Template], ...]
    feature_variables: tuple[tuple[str, str], ...]
    sources: Mapping[str, FeatureSource]

    @property
    def usage(self) -> str:
        """The user's words for a message, features in capitals: `N --steps=STEPS`."""
        shown = {name: name.upper() for template in self.typed for name in template.names}
        return " ".join(template.filled(shown) for template in self.typed)


def command_line(plan: ProgramPlan, features: Sequence[str]) -> CommandLine:
    """Derive a launcher's command line from `run`, `environment` and `features`.

    Raises NoLauncher where that cannot be done.
    """
    why = why_not_built_once(plan, features)
    if why or plan.model.shell:
        raise NoLauncher(why or "a shell reads the arguments: write `run` as a list of words")
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
    )


def why_not_built_once(plan: ProgramPlan, features: Sequence[str]) -> str:
    """Say why a configuration is not one program for all inputs; empty where it is."""
    named = sorted(names_of(plan.build) & set(features))
    if named:
        return f"`build` names `{{{named[0]}}}`, so that each input has a program of its own"
    return ""


def _check(run: Sequence[Template], end: int, features: Sequence[str]) -> None:
    """Check the words up to the program, and that it stands in `run` once, as a word."""
    for template in run[:end]:
        for name in sorted(template.names & set(features)):
            raise NoLauncher(f"`{{{name}}}` stands before the program in `run`")
    programs = {OUTPUT, SOURCE, _LISTS}
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
    found: dict[str, FeatureSource] = {}
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
            found.setdefault(name, source)
        option = template if _is_option(template) else None
    return typed, inserted, found


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
