"""What of a configuration differs from the default: of dozens of flags all that is of interest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from harness.core.records import Config, Value, shown

DEFAULT = "default"
"""What a configuration is called in which nothing differs."""

_MOST_ALIKE = 3  # parameters that are absent, or false, in the default; of more, their number


def differing(config: Config, default: Mapping[str, Value]) -> Config:
    """The parameters that are not at their default, those without a default among them."""
    return Config(
        {
            name: value
            for name, value in config.items()
            if name not in default or not _is_same(value, default[name])
        }
    )


def _is_same(one: Value, other: Value) -> bool:
    """As configurations have it: 1, 1.0 and True are three values."""
    return type(one) is type(other) and repr(one) == repr(other)


def difference(config: Config, default: Mapping[str, Value]) -> str:
    """What differs, as people read it: `level=3, no-ivopts`, or DEFAULT."""
    return settings_told(differing(config, default)) or DEFAULT


def settings_told(config: Config) -> str:
    """The settings as people read them: of a flag that says its own name, as `no-ivopts` of
    `ivopts` does, the value alone."""
    return ", ".join(_told(name, shown(value)) for name, value in config.items())


def _told(name: str, word: str) -> str:
    is_own_name = word.replace("-", "_").removeprefix("no_") == name
    return word if is_own_name else f"{name}={word}"


def default_told(default: Config) -> str:
    """The default itself; of many flags that are absent, or false, how many there are."""
    unset = {name: shown(v) for name, v in default.items() if v is None or v is False}
    counts = Counter(unset.values())
    named = Config({n: v for n, v in default.items() if counts[unset.get(n, "")] <= _MOST_ALIKE})
    many = (f"{count} parameters {word}" for word, count in counts.items() if count > _MOST_ALIKE)
    return ", ".join([*([str(named)] if named else []), *many])
