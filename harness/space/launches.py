"""What a configuration is launched with: its program, its launch sizes, and the constraints of a
device on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.constraints.expression import Expression
from harness.core.errors import ExpressionError, UsageError
from harness.core.kernel_name import is_plain, reference_lines, words_of
from harness.core.program import ANY_CARVEOUT, Launch, Program
from harness.core.records import Config, DeviceLimits, Value
from harness.source.kernel_source import macro_lines
from harness.space.space import Space
from harness.space_file import LaunchPlan, Spec


def launch_constraints(
    plan: LaunchPlan | None, limits: DeviceLimits | None
) -> dict[Expression, str]:
    """Return the constraints that a device puts on every launch, each with the limit in words."""
    if plan is None or limits is None:
        return {}
    sizes = [_factor(expression) for expression in plan.group]
    grid = [_factor(expression) for expression in plan.grid]
    made = {
        f"{' * '.join(sizes)} <= {limits.max_group_size}": "launch.group has at most "
        f"{limits.max_group_size:,} work-items in all (max_group_size of the device)"
    }
    for key, factors, most in (
        ("group", sizes, limits.max_group_dims),
        ("grid", grid, limits.max_grid_dims),
    ):
        limit = f"launch.{key} is at most {_listed(most[: len(factors)])} on the device"
        made |= {f"{s} <= {m}": limit for s, m in zip(factors, most, strict=False)}
        made |= {f"{size} >= 1": f"launch.{key} begins at 1" for size in factors}
    if plan.shared is not None:
        shared, most_bytes = _factor(plan.shared), limits.max_shared_bytes
        made[f"{shared} <= {most_bytes}"] = (
            f"launch.shared is at most {most_bytes:,} bytes (max_shared_bytes of the device)"
        )
        made[f"{shared} >= 0"] = "launch.shared begins at 0"
    if plan.carveout is not None:
        percent = _factor(plan.carveout)
        limit = f"launch.carveout is a percentage, or {ANY_CARVEOUT}"
        made |= {f"{percent} >= {ANY_CARVEOUT}": limit, f"{percent} <= 100": limit}
    return {Expression(text): limit for text, limit in made.items()}


def _listed(extents: Sequence[int]) -> str:
    return " x ".join(f"{extent:,}" for extent in extents)


def _factor(expression: Expression) -> str:
    """Return an expression's text, in brackets unless it is a name or a whole number."""
    text = expression.text
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def launch_of(
    plan: LaunchPlan | None, values: Mapping[str, Value], function: str, arguments: Sequence[str]
) -> Launch:
    """Return the launch with these values; raises ExpressionError for a size that is not whole."""
    if plan is None:
        raise UsageError("this space has no launch sizes")
    group = tuple(_whole(expression, values) for expression in plan.group)
    grid = tuple(_whole(expression, values) for expression in plan.grid)
    shared_bytes = _whole(plan.shared, values, least=0) if plan.shared is not None else 0
    carveout = ANY_CARVEOUT
    if plan.carveout is not None:
        carveout = _whole(plan.carveout, values, least=ANY_CARVEOUT)
    passed = tuple(arguments)
    return Launch(function, group, grid, passed, shared_bytes, (), plan.cooperative, carveout)


def _whole(expression: Expression, values: Mapping[str, Value], least: int = 1) -> int:
    size = expression(values)
    if not isinstance(size, (int, float)) or size != size // 1 or size < least:
        raise ExpressionError(
            f"the launch size `{expression.text}` must be a whole number from {least}, "
            f"but is {size}"
        )
    return int(size)


def _text(spec: Spec, language: str, macros: Mapping[str, Value]) -> str:
    """Return the source with its macros, and behind it what a CUDA source needs so that its kernels
    can be found.

    A macro with the name of a template parameter would change the template's head: it is defined
    only behind the source, for the template's arguments.
    """
    source = spec.sources[language]
    named = [name for name in spec.functions if language == "cuda" and not is_plain(name)]
    if not named:
        return source.with_macros(macros)
    words = frozenset().union(*map(words_of, named)) & source.template_names
    late = {name: value for name, value in macros.items() if name in words}
    early = {name: value for name, value in macros.items() if name not in words}
    lines = [*macro_lines(late), *reference_lines(named), ""]
    return "\n".join([source.with_macros(early), *lines])


def make_program(spec: Spec, space: Space, config: Config, language: str) -> Program:
    """Return the program of a configuration in one of the spec's languages."""
    source = spec.sources[language]
    macros = {p.name: config[p.name] for p in space.parameters if p.role != "flag"}
    # Flags are sorted for the build cache; the words of one flag stay in order.
    flags = sorted(p.options(config[p.name]) for p in space.parameters if p.role == "flag")
    return Program(
        text=_text(spec, language, macros),
        options=(*spec.compilers.options(language), *(word for flag in flags for word in flag)),
        include_dirs=source.include_dirs,
        includes=tuple(source.includes.values()),
        timeout_s=spec.compilers.of(language).build_timeout_s,
        files=spec.files_of(config),
    )
