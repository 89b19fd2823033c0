"""Show a configuration by its differences from the default."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from harness.core.records import Config, Value, shown

DEFAULT = "default"
"""The name of the configuration without differences."""

_MOST_ALIKE = 3  # absent or false parameters of a default that are listed; of more, the number


def differing(config: Config, default: Mapping[str, Value]) -> Config:
    """Return the parameters that are not at their default or that have none."""
    return Config(
        {
            name: value
            for name, value in config.items()
            if name not in default or not _is_same(value, default[name])
        }
    )


def preference(
    config: Config, default: Mapping[str, Value]
) -> tuple[int, list[tuple[int, float, str]]]:
    """Return a key that sorts configurations that are equally fast: the default first, then the
    one with the fewest changes from it, then the smaller values, parameter by parameter."""
    ordered = [_order(config[name]) for name in [*default, *config] if name in config]
    return len(differing(config, default)), ordered


def _order(value: Value) -> tuple[int, float, str]:
    """Return a key that sorts an absent flag before numbers, and numbers before words."""
    if value is None:
        return 0, 0.0, ""
    return (2, 0.0, value) if isinstance(value, str) else (1, float(value), "")


def _is_same(value: Value, other: Value) -> bool:
    """Whether two values are equal for configurations: 1, 1.0 and True are different values."""
    return type(value) is type(other) and repr(value) == repr(other)


def difference(config: Config, default: Mapping[str, Value]) -> str:
    """Return the differences as text: `level=3, no-ivopts`, or DEFAULT."""
    return settings_text(differing(config, default)) or DEFAULT


def settings_text(config: Config) -> str:
    """Return settings as text; a value that contains the flag's name, such as `no-ivopts` of
    `ivopts`, stands alone."""
    return ", ".join(_setting(name, shown(value)) for name, value in config.items())


def _setting(name: str, word: str) -> str:
    is_own_name = word.replace("-", "_").removeprefix("no_") == name
    return word if is_own_name else f"{name}={word}"


def default_text(default: Config) -> str:
    """Return the default as text; of many absent or false flags, only their number."""
    unset = {name: shown(v) for name, v in default.items() if v is None or v is False}
    counts = Counter(unset.values())
    named = Config({n: v for n, v in default.items() if counts[unset.get(n, "")] <= _MOST_ALIKE})
    many = (f"{count} parameters {word}" for word, count in counts.items() if count > _MOST_ALIKE)
    return ", ".join([*([str(named)] if named else []), *many])
