"""Try the configurations of a shortlist on the first calls with an input; keep the fastest."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_ROUNDS = 3  # the least of these times counts: the first call often takes longer
_MOST_INPUTS = 4096  # on others it takes what is predicted


def first_calls(
    dispatcher: Any, try_top: int, remember: str | Path | None, device: str
) -> FirstCalls | None:
    """Return what tries the shortlist; None where `try_top` is 0. Raises ValueError."""
    if type(try_top) is not int or try_top < 0:
        raise ValueError(f"try_top must be a whole number from 0, got {try_top!r}")
    if try_top:
        return FirstCalls(dispatcher, try_top, remember, device)
    if remember is not None:
        raise ValueError("remember keeps what trying finds: add try_top=3, or leave it out")
    return None


class FirstCalls:
    """The inputs that are decided, and what to try next on the others: each call of the kernel runs
    one configuration of the input's shortlist, interleaved. With a `path`, decisions are read from
    that file, which is replaced after each. `device` is all that the times depend on."""

    def __init__(self, dispatcher: Any, most: int, path: str | Path | None, device: str) -> None:
        if dispatcher.DATA["choice"]["worth_a_try"] is None:
            raise ValueError(
                f"{dispatcher.NAME} predicts no times, so there is no shortlist to try; write it "
                "with harness.dispatch --choice ensemble"
            )
        if dispatcher.DATA["launch"] is None:
            raise ValueError(
                f"the launches of {dispatcher.NAME} are its host module's, so load() cannot try "
                "its shortlist; time what select_top(...) returns, and keep the fastest"
            )
        self._dispatcher, self._most = dispatcher, most
        learnt = {**dispatcher.PROVENANCE, "name": dispatcher.NAME, "try_top": most}
        self._facts = json.loads(json.dumps({**learnt, "runs_on": device}))
        self._decided: dict[Any, int] = {}
        self._times: dict[Any, dict[int, list[float]]] = {}  # of what is tried, likeliest first
        self._path = None if path is None else Path(path)
        if self._path is not None:
            self._read(self._path)

    def decided(self, features: Mapping[str, Any]) -> int | None:
        """Return the index of the fastest configuration on an input; None if it is not decided."""
        return self._decided.get(_key(features))

    def next(self, features: Mapping[str, Any], first: int) -> int | None:
        """Return the index of the configuration to try; None where there is nothing to try. `first`
        would run if nothing were tried; it heads the shortlist."""
        key = _key(features)
        if key in self._decided:
            return None
        if key not in self._times:
            if len(self._decided) + len(self._times) >= _MOST_INPUTS:
                return None
            listed = self._dispatcher.select_top(self._most, **features)
            order = list(dict.fromkeys((first, *listed)))[: self._most]
            if len(order) == 1:
                self._decided[key] = first
                return None
            self._times[key] = {index: [] for index in order}
        times = self._times[key]
        # Forwards and backwards, so that a drift favours nobody.
        turn, place = divmod(sum(map(len, times.values())), len(times))
        return list(times)[-1 - place if turn % 2 else place]

    def took(self, features: Mapping[str, Any], index: int, time_s: float) -> None:
        """Note the seconds of the configuration that `next` returned; the last decides."""
        key = _key(features)
        times = self._times.get(key)
        if times is None:  # another thread's call has decided
            return
        times[index].append(time_s)
        if sum(map(len, times.values())) < _ROUNDS * len(times):
            return
        del self._times[key]
        self._decided[key] = min(times, key=lambda one: min(times[one], default=float("inf")))
        if self._path is not None:
            self._write(self._path)

    def _read(self, path: Path) -> None:
        """Take the decisions of a file; raises ValueError for one of something else."""
        if not path.parent.is_dir() or (path.exists() and not path.is_file()):
            raise ValueError(f"remember: {path} is no file, and none can be made there")
        try:
            found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
            is_ours = found and found["learnt"] == self._facts
            for features, index in found["choices"] if is_ours else ():
                if self._dispatcher.applies(index, **features):
                    self._decided.setdefault(_key(features), index)
        except (OSError, ValueError, LookupError, TypeError) as error:
            advice = "name another file, or delete this one"
            raise ValueError(f"remember: {path} has no choices; {advice} ({error})") from None

    def _write(self, path: Path) -> None:
        partial = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            self._read(path)  # other processes write it as well
            choices = [[dict(key), index] for key, index in list(self._decided.items())]
            content = {"learnt": self._facts, "choices": choices}
            partial.write_text(json.dumps(content, indent=1), encoding="utf-8")
            partial.replace(path)
        except (OSError, ValueError) as error:
            partial.unlink(missing_ok=True)
            warnings.warn(f"{error}; this process alone remembers its choices", stacklevel=4)
            self._path = None


def _key(features: Mapping[str, Any]) -> Any:
    """Return an input with Python's numbers in place of NumPy's."""
    plain = {name: v.item() if hasattr(v, "item") else v for name, v in features.items()}
    return tuple(sorted(plain.items()))
