"""The validated, frozen description of a space, and the choice of its inputs by a condition."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from harness.constraints.expression import Expression
from harness.core.errors import ExpressionError, UsageError
from harness.core.modules import shown_path
from harness.core.program import FlagFile
from harness.core.records import Config, Input, Statistic, Value, shown
from harness.core.text import escaped, first_few, suggestion
from harness.source.code import code_of, python_code
from harness.source.kernel_source import Source
from harness.space_file import messages
from harness.space_file.baselines import Baseline
from harness.space_file.compiler import CompilersModel
from harness.space_file.document import located
from harness.space_file.flags import Notice, SelectedFlags
from harness.space_file.input_ranges import FeatureRange
from harness.space_file.model import LaunchPlan, Measure, Search, Verify, Work
from harness.space_file.parameters import Parameter
from harness.space_file.program import ProgramPlan

_LISTED = 8  # words of a feature


@dataclass(frozen=True)
class Constraint:
    """A relation that legal configurations satisfy, and its line in its file."""

    expression: Expression
    line: int
    path: Path


@dataclass(frozen=True)
class Spec:
    """A validated space, which tunes kernels, a Python callable or a program.

    Where `framework` is set, the module at `host` builds a callable, whose arrays are this
    framework's. Where `program` is set, there are no functions, sources and launch, and `host` is
    the path of the space itself. The `path` of a space that was given in Python is its name in
    messages; there is no such file.
    """

    path: Path
    name: str
    title: str
    functions: tuple[str, ...]  # several only where the host module gives the launches
    host: Path
    parameters: tuple[Parameter, ...]
    features: tuple[str, ...]
    inputs: tuple[Input, ...]
    sources: Mapping[str, Source] = field(default_factory=dict)  # by language: cuda, opencl, python
    constraints: tuple[Constraint, ...] = ()
    launch: LaunchPlan | None = None  # None: launches() of the host module gives the launches
    verify: Verify = field(default_factory=Verify)
    measure: Measure = field(default_factory=Measure)
    search: Search = field(default_factory=Search)
    work: Work | None = None
    host_text: str = field(default="", repr=False)
    host_imports: Mapping[Path, str] = field(default_factory=dict, repr=False)  # with their texts
    framework: str | None = None
    program: ProgramPlan | None = None
    compilers: CompilersModel = field(default_factory=CompilersModel)
    baselines: tuple[Baseline, ...] = ()
    selected_flags: Mapping[str, SelectedFlags] = field(default_factory=dict)  # by compiler
    notices: tuple[Notice, ...] = ()  # about the flags, for the user
    ranges: Mapping[str, FeatureRange] = field(default_factory=dict)  # of features, where given
    where: Expression | None = None  # the condition that inputs from them meet

    @cached_property
    def default(self) -> Config:
        """The default values of all parameters."""
        return Config({p.name: p.default for p in self.parameters})

    def files_of(self, config: Mapping[str, Value]) -> tuple[FlagFile, ...]:
        """Return the files that the flags of a configuration pass to the compiler.

        Raises UsageError where one has changed.
        """
        files = tuple(
            file
            for flag in self.parameters
            if flag.files and (file := flag.files.get(str(config.get(flag.name)))) is not None
        )
        for file in files:
            file.read()
        return files

    @property
    def flag_files(self) -> tuple[FlagFile, ...]:
        """The files that flags may pass to the compiler."""
        return tuple(file for flag in self.parameters for file in flag.files.values())

    def baselines_for(self, compiler: str | None) -> dict[str, Config]:
        """Return the named baselines of a backend, without those that set flags of other compilers.

        They are not canonical, and may be illegal on an input.
        """
        tuned = self.tuned_for(compiler)
        configs = {baseline.name: baseline.config(tuned) for baseline in self.baselines}
        return {name: config for name, config in configs.items() if config is not None}

    @property
    def is_cooperative(self) -> bool:
        """Whether the space says that its launches are cooperative."""
        return self.launch is not None and self.launch.cooperative

    @property
    def is_in_python(self) -> bool:
        """Whether the space was built in Python; its path then ends in its name, in brackets."""
        return self.path.name.startswith("<")

    @property
    def program_compiler(self) -> str | None:
        """The compiler whose flags a program tunes; None where it tunes none."""
        return next((p.compiler for p in self.parameters if p.compiler is not None), None)

    def is_bit_exact(self, compiler: str | None) -> bool:
        """Whether a kernel's output must be bit for bit the output without this compiler's flags:
        the space says so, or it names flags of a catalogue that change no values."""
        if self.must_be_bit_exact:
            return True
        if self.program is not None or self._against == "reference":
            return False
        selected = self.selected_flags.get(compiler or "")
        return selected is not None and not selected.changes_values

    @property
    def must_be_bit_exact(self) -> bool:
        """Whether the space itself demands bit-exact results."""
        return self.program is None and (self._against == "baseline" or self.needs_default_bits)

    @property
    def needs_default_bits(self) -> bool:
        """Whether a kernel's output must be the default's bit for bit."""
        return getattr(self.verify, "bits", None) == "default"

    @property
    def _against(self) -> object:
        return getattr(self.verify, "against", None)

    def tuned_for(self, compiler: str | None) -> tuple[Parameter, ...]:
        """Return the parameters of a backend, without the flags of other compilers and without
        those that its own compiler does not know (harness.measure.flags)."""
        return tuple(
            p
            for p in self.parameters
            if p.compiler is None or (p.compiler == compiler and len(p.values) > 1)
        )

    def with_inputs_where(self, condition: str) -> Spec:
        """Keep the inputs for which a condition over their features holds.

        Raises UsageError for a condition that cannot be computed or holds for no input.
        """
        try:
            expression = Expression(condition)
            for name in sorted(expression.names - set(self.features)):
                hint = suggestion(name, self.features)
                raise UsageError(f"--inputs: `{name}` is not a feature of {self.path}; {hint}")
            if expression.is_number or expression.text in self.features:
                raise UsageError(
                    f"--inputs: `{expression.text}` is a value, not a condition; compare it, such "
                    f"as `{expression.text} <= 4096`"
                )
            chosen = tuple(problem for problem in self.inputs if expression.holds(problem))
        except ExpressionError as error:
            raise UsageError(f"--inputs: {error}") from None
        if not chosen:
            raise UsageError(
                f"--inputs: `{expression.text}` holds for none of the {len(self.inputs)} inputs; "
                f"there {', '.join(self.feature_ranges)}"
            )
        return dataclasses.replace(self, inputs=chosen)

    @property
    def feature_ranges(self) -> Iterator[str]:
        """The range of each feature, such as `m goes from 16 to 65536`, or its words, such as
        `shape is skewed or uniform`."""
        for name in self.features:
            numbers = [v for problem in self.inputs if isinstance(v := problem[name], (int, float))]
            if len(numbers) < len(self.inputs):
                words = sorted({shown(problem[name]) for problem in self.inputs})
                yield f"{name} is {first_few(words, ' or ', _LISTED)}"
                continue
            least, most = shown(min(numbers)), shown(max(numbers))
            yield f"{name} is {least}" if least == most else f"{name} goes from {least} to {most}"

    def with_measure(self, changes: Mapping[str, object]) -> Spec:
        """Return the spec with other measurement options; raises UsageError for a bad value."""
        options = self.measure.model_dump(exclude_unset=True) | dict(changes)
        try:
            measure = type(self.measure).model_validate(options)
        except ValidationError as error:
            faults = messages.describe_errors(error, options)
            texts = (located(("measure", *at), text) for at, _, text in faults)
            raise UsageError("; ".join(texts)) from None
        return dataclasses.replace(self, measure=measure)

    @property
    def program_sha256(self) -> str:
        """The digest of what is measured: sources, host module, launch and verification.

        Two spaces that agree here may share measurements, whatever their ranges are.
        """
        return _sha256(list(self.program_parts.values()))

    @cached_property
    def program_parts(self) -> Mapping[str, str]:
        """The digest of each part of what is measured, by its key in the space or by its file as
        seen from the space's folder. Of source files their code counts, see
        harness.source.code."""
        parts: dict[str, list[str]] = {"kernel.function": [*self.functions]}

        def add(name: str, *texts: str) -> None:
            parts.setdefault(name, []).extend(texts)

        if self.host_text:
            add(self._file(self.host), python_code(self.host_text))
        for path, text in self.host_imports.items():
            add(self._file(path), python_code(text))
        sources = list(self.program.sources) if self.program is not None else []
        for language, source in sorted(self.sources.items()):
            add("compiler", language, *self.compilers.sha256_parts(language))
            sources.append(source)
        for source in sources:
            for path, text in {source.path: source.text, **source.includes}.items():
                add(self._file(path), code_of(source.path.suffix, text))
        if self.launch is not None:
            sizes = [[size.text for size in sizes] for sizes in self.launch.sizes]
            add("launch", json.dumps([sizes, self.launch.cooperative]))
        add("flags", *(p.option or "" for p in self.parameters))
        add("flags", *(file.mark for file in self.flag_files))
        if self.program is not None:
            add("program", *self.program.command_texts())
            for path, digest in self.program.digests:
                add(self._file(path), digest)
        add("verify", self.verify.model_dump_json(exclude_none=True))
        if self.needs_default_bits:
            add("defaults", *(json.dumps([p.name, p.default]) for p in self.parameters))
        if any(map(self.is_bit_exact, self.selected_flags)):
            add("verify", "bit for bit")
        return {name: _sha256(texts) for name, texts in parts.items() if texts}

    def _file(self, path: Path) -> str:
        """Return the name of a file for messages: its path from the space's folder."""
        shown = shown_path(path)
        return shown if shown != str(path) else escaped(os.path.relpath(path, self.path.parent))

    @cached_property
    def space_sha256(self) -> str:
        """The digest of what is searched: program, parameters with their values, constraints,
        and what makes one time of samples."""
        parts = [self.program_sha256]
        for p in self.parameters:
            v = p.values
            values = [v.start, v.stop, v.step] if isinstance(v, range) else list(v)
            parts.append(json.dumps([p.name, p.kind, p.role, p.default, values]))
        parts += [c.expression.text for c in self.constraints]
        parts += [f"{p.name} when {p.when.text}" for p in self.parameters if p.when]
        if self.measure.statistic is not Statistic.MEDIAN:
            parts.append(self.measure.statistic.value)
        return _sha256(parts)


def _sha256(parts: Sequence[str]) -> str:
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()
