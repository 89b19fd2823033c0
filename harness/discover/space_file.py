"""Facts -> the text of a space file, and the skeleton of a host module.

`# FILL IN:` marks facts that only a person can know, `# CONFIRM:` marks guesses. The reference is
left to a person: a guessed one would verify nothing.
"""

from __future__ import annotations

import json
import keyword
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.constraints.expression import FUNCTIONS, WORDS, Expression
from harness.core.records import LIMIT_NAMES, Value, shown
from harness.core.text import escaped, template
from harness.discover.facts import Facts
from harness.discover.parameters import DeclaredParameter, Suggestion
from harness.discover.syntax import UNKNOWN_TYPE, Argument, NumpyType
from harness.source.syntax_tree import OPENCL

FILL_IN, CONFIRM = "# FILL IN: ", "# CONFIRM: "
_WORDS_OF_YAML = ("null", "true", "false", "yes", "no", "on", "off", "y", "n")
_START_SIZES = (1_048_576, 1024, 64)  # elements along each of 1, 2 or more dimensions of an input
_DEFAULT_GROUPS = (("64",), ("16", "16"), ("8", "8", "8"))
# Usual names of sizes along x, y and z; neighbouring threads walk along rows.
_ALONG = (("n", "width", "w", "cols", "columns", "nx", "wb"),
          ("m", "height", "h", "rows", "ny", "ha"), ("depth", "d", "nz"))  # fmt: skip


def space_text(facts: Facts, folder: Path, host: Path, has_host: bool = False) -> str:
    """Write the whole file, with paths relative to the folder; `has_host` says that the host module
    will be there."""
    active, offered = _suggested(facts)
    source = path_text(facts.path, folder)
    if len(facts.languages) == 1:
        source = f"{{{facts.languages[0]}: {source}}}"
    group, group_mark = _group(facts)
    names = list(_features(facts))
    along = zip(_along(names, len(group)), group, strict=True)
    left_out = (f"{t.name} (line {t.pragma.line})" for t in facts.declared.left_out)
    return template("harness.discover", "space.yaml").render(
        facts=facts,
        kernel=facts.kernel,
        fill_in=FILL_IN,
        confirm=CONFIRM,
        file=escaped(facts.path.name),
        signature=escaped(", ".join(map(_argument_text, facts.kernel.arguments))),
        types=", ".join(p.name for p in facts.kernel.template if not p.type_name),
        obstacles=_obstacles(facts),
        source=source,
        host=path_text(host, folder),
        has_host=has_host or host.exists(),
        tuned=[line for tuned in facts.declared.tuned for line in _tuned_lines(tuned)],
        active=[(s.line, escaped(s.origin), _entry(s), _mark(s)) for s in active],
        offered=list(map(_entry, offered)),
        left_out=", ".join(left_out),
        constraints=[f"{expression_text(c.operands)}  # line {c.line}" for c in facts.constraints],
        group=", ".join(group),
        group_mark=group_mark,
        grid=", ".join(json.dumps(f"ceil_div({name}, {size})") for name, size in along),
        shared=f"{_shared(facts, group)}  {_shared_mark(facts)}",
        features=names,
        size=start_size(names),
    )


def to_do(text: str) -> list[str]:
    """List the marks that are left to a person, with their lines; equal marks are one item."""
    lines: dict[str, list[str]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        for mark in re.findall(f"(?:{FILL_IN}|{CONFIRM}).*", line):
            lines.setdefault(mark.lstrip("# "), []).append(str(number))
    ranges = {mark: "-".join(dict.fromkeys((at[0], at[-1]))) for mark, at in lines.items()}
    return [f"line {numbers}: {mark}" for mark, numbers in ranges.items()]


def start_size(features: Sequence[str]) -> int:
    """Return the size of a first input along each dimension."""
    return _START_SIZES[min(len(features), len(_START_SIZES)) - 1]


def feature_name(name: str, taken: Sequence[str]) -> str:
    """Name the feature of an argument; append `_` to words that expressions reserve."""
    reserved = (*LIMIT_NAMES, *FUNCTIONS, *WORDS, *keyword.kwlist, *taken)
    return f"{name}_" if name in reserved else name


def _features(facts: Facts) -> dict[str, str]:
    """Map each feature to its argument; without integer arguments, map `n` to nothing."""
    taken = (facts.kernel.name,)
    return {feature_name(a.name, taken): a.name for a in facts.counts} or {"n": ""}


# ---------------------------------------------------------------------- name and kernel


def path_text(path: Path, folder: Path) -> str:
    """Write a path as YAML of a file in the folder."""
    return _quoted(Path(os.path.relpath(path, folder)).as_posix())


def _argument_text(argument: Argument) -> str:
    const = "const " if argument.is_const else ""
    return f"{const}{argument.type_name} {'*' if argument.is_pointer else ''}{argument.name}"


def _obstacles(facts: Facts) -> Iterator[str]:
    """Describe what in the source prevents a run."""
    kernel = facts.kernel
    if facts.function is None:
        yield (
            f"{kernel.name} is a template: give its arguments, which may be parameters, as in "
            f"{kernel.name}<float, 16>"
        )
    names = ", ".join(a.name for a in facts.local)
    if facts.local and facts.dialect != OPENCL:
        yield f"{names}: CUDA passes no local memory as an argument; declare an array in the kernel"
    elif len(facts.local) > 1:
        yield (
            f"{names} are local pointers, but a launch gives one size of shared memory: join them "
            "into one, and compute the others from it"
        )
    for text in kernel.unreadable:
        yield f"`{escaped(text)}` is not a plain argument: pass a number or an array"


# --------------------------------------------------------------------------- parameters


def _mark(suggestion: Suggestion) -> str:
    if suggestion.is_open and suggestion.is_of_the_problem:
        return f"{FILL_IN}its value, which by its name decides the result"
    is_ours = suggestion.role == "launch" or suggestion.is_open
    return f"{CONFIRM}the guessed values and role" + (
        "" if is_ours else "; remove it if it changes the result"
    )


def _suggested(facts: Facts) -> tuple[list[Suggestion], list[Suggestion]]:
    """Divide the suggestions into parameters of the file and comments.

    What has no value in the source needs one. In a source without pragmas, an `#ifndef` marks
    macros that are set from outside, and sizes of blocks are the usual parameters.
    """
    named = {name for c in facts.constraints for name in Expression(c.operands).names}
    plain = not facts.declared.tuned
    active = [
        s
        for s in facts.suggested
        if s.is_open
        or s.name in named
        or (plain and (s.role == "launch" or (s.is_guarded and not s.is_of_the_problem)))
    ]
    return active, [s for s in facts.suggested if s not in active]


def _tuned_lines(tuned: DeclaredParameter) -> Iterator[str]:
    yield f"# line {tuned.pragma.line}: {escaped(str(tuned.pragma))}"
    role = "" if tuned.role == "source" else f", role: {tuned.role}"
    guess = f"  {CONFIRM}the role, guessed from the name" if tuned.role_is_guess and role else ""
    kind, default = values_text(tuned.pragma.values), value_text(tuned.default)
    yield f"{tuned.name}: {{{kind}{role}, default: {default}}}{guess}"


def _entry(suggestion: Suggestion) -> str:
    role = "" if suggestion.role == "source" else f", role: {suggestion.role}"
    return f"{suggestion.name}: {{{suggestion.kind}{role}, default: {suggestion.default}}}"


def values_text(values: Sequence[Value]) -> str:
    """Write a parameter's values as YAML."""
    if isinstance(values, range):
        step = f", step: {values.step}" if values.step > 1 else ""
        return f"type: integer, min: {values[0]}, max: {values[-1]}{step}"
    if _are_powers_of_two(values):
        return f"type: power_of_two, min: {values[0]}, max: {values[-1]}"
    return f"values: [{', '.join(map(value_text, values))}]"


def _are_powers_of_two(values: Sequence[Value]) -> bool:
    first = values[0]
    if type(first) is not int or first < 1 or first & (first - 1) or len(values) == 1:
        return False
    return list(values) == [first << e for e in range(len(values))]


def value_text(value: Value) -> str:
    """Write one value as YAML."""
    return _quoted(value) if isinstance(value, str) else shown(value)


def _quoted(text: str) -> str:
    """Write a text as YAML, without quotes only if every reader reads it as text."""
    plain = re.fullmatch(r"(?:\.\./)*[A-Za-z_][A-Za-z0-9_./-]*", text)
    return text if plain and text.lower() not in _WORDS_OF_YAML else json.dumps(text)


def expression_text(text: str) -> str:
    """Write an expression as YAML, without quotes if it has no YAML syntax."""
    plain = re.fullmatch(r"[A-Za-z_(][A-Za-z0-9_ +*/%().<>=-]*[ <>=][A-Za-z0-9_ )<>=]+", text)
    return text if plain else json.dumps(text)


# -------------------------------------------------------------- constraints and launch


def _group(facts: Facts) -> tuple[list[str], str]:
    """Return the group's size in 1 to 3 dimensions, and a comment on its origin."""
    launched = _launch_parameters(facts)
    sizes = facts.kernel.sizes[:3]
    declared = escaped(", ".join(sizes))
    if sizes and any(s in launched for s in sizes) and all(_is_size(s, launched) for s in sizes):
        while len(sizes) > 1 and sizes[-1] == "1":
            sizes = sizes[:-1]
        return list(sizes), f"# as the source declares it: ({declared})"
    mark = f"{FILL_IN}the size that the source declares as ({declared})" if sizes else ""
    by_dimension = {n[-1].lower(): n for n in launched if re.search(r"(?:^|_)[XYZxyz]$", n)}
    if "x" in by_dimension:
        named = [by_dimension[d] for d in "xyz" if d in by_dimension]
        return named, mark or f"{CONFIRM}the threads (work-items) of a group, guessed from names"
    dimensions = 1 if mark else facts.kernel.dimensions
    if launched:
        group = launched[:1] * dimensions
        return group, mark or f"{CONFIRM}the threads (work-items) of a group, guessed"
    return [
        *_DEFAULT_GROUPS[dimensions - 1]
    ], mark or f"{FILL_IN}the threads (work-items) of a group"


def _is_size(text: str, launched: Sequence[str]) -> bool:
    return text in launched or text.isdigit()


def _launch_parameters(facts: Facts) -> list[str]:
    active, _ = _suggested(facts)
    tuned = [t.name for t in facts.declared.tuned if t.role == "launch"]
    return tuned + [s.name for s in active if s.role == "launch"]


def _shared(facts: Facts, group: Sequence[str]) -> str:
    """Guess the bytes of the local pointers: an element for each thread."""
    kinds = [facts.type_of(a) or UNKNOWN_TYPE for a in facts.local]
    return " + ".join(" * ".join((*group, str(kind.size_bytes))) for kind in kinds)


def _shared_mark(facts: Facts) -> str:
    """Say what the size is of, and whether it is a guess or a gap."""
    names = ", ".join(a.name for a in facts.local)
    unknown = ", ".join(a.type_name for a in facts.local if facts.type_of(a) is None)
    if unknown:
        return f"{FILL_IN}the bytes of {names}, with the size of {escaped(unknown)}"
    return f"{CONFIRM}the bytes of {names}, guessed: one element for each thread (work-item)"


def _along(names: list[str], dimensions: int) -> Iterator[str]:
    """Choose the features that are the sizes along x, y and z: by name, else from the last on."""
    left = names[::-1]
    for usual in _ALONG[:dimensions]:
        name = next((n for n in left if n.lower() in usual), left[0])
        yield name
        if len(left) > 1:
            left.remove(name)


# ------------------------------------------------------------------------- host module


def host_text(facts: Facts) -> str:
    """Write the whole module."""
    written = [a.name for a in facts.passed if a.is_pointer and not a.is_const]
    by_argument = {argument: feature for feature, argument in _features(facts).items() if argument}
    local = {a: f"features[{json.dumps(f)}]" for a, f in by_argument.items()}
    return template("harness.discover", "host.py").render(
        kernel=facts.kernel,
        written=written,
        outputs=", ".join(written) or "all outputs",
        has_arrays=any(a.is_pointer for a in facts.passed),
        size=" * ".join(local.values()) or 'features["n"]',
        arguments=[(a.name, _argumentvalue_text(facts, a, local)) for a in facts.passed],
        unreadable=map(escaped, facts.kernel.unreadable),
    )


def _argumentvalue_text(facts: Facts, argument: Argument, local: dict[str, str]) -> str:
    """Write one argument's value, with a mark for its unknown parts."""
    known = facts.type_of(argument)
    kind = known or UNKNOWN_TYPE
    mark = "" if known else f"  # FILL IN: the dtype of {escaped(argument.type_name)}"
    if argument.is_pointer and argument.is_const and kind.is_integer:
        # Random numbers would run, but offsets and counts decide how much work there is.
        example = f"rng.integers(0, 100, {_shape(kind)}, np.{kind.name})"
        return f"None,  # FILL IN: offsets, counts or indices? Or numbers, as in {example}"
    if argument.is_pointer:
        return f"{_array(kind, argument.is_const)},{mark}"
    if argument.name in local and kind.width == 1:
        return f"np.{kind.name}({local[argument.name]}),{mark}"
    mark = mark or "  # FILL IN: its value"
    if kind.width > 1:
        return f"np.zeros(1, np.dtype((np.{kind.name}, {kind.width}))),{mark}"
    return f"np.{kind.name}(1),{mark}"


def _array(kind: NumpyType, is_read: bool) -> str:
    shape = _shape(kind)
    if not is_read:
        return f"np.zeros({shape}, np.{kind.name})"
    if kind.name in ("float32", "float64"):
        return f"rng.random({shape}, np.{kind.name})"
    if kind.name == "float16":
        return f"rng.random({shape}, np.float32).astype(np.float16)"
    return f"rng.integers(0, 2, {shape}).astype(np.bool_)"


def _shape(kind: NumpyType) -> str:
    return "size" if kind.width == 1 else f"(size, {kind.width})"
