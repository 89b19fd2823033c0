"""Try the configurations of a shortlist on the first calls with an input; remember the fastest."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_ROUNDS = 3  # the least of these times counts: the first call often takes longer
_MOST_INPUTS = 65536  # that one process tries; on others it takes what is predicted
_MOST_BYTES = 64 << 20  # of the file that are read


def first_calls(
    dispatcher: Any, try_top: int, remember: str | Path | None, device: str
) -> FirstCalls | None:
    """Return what tries the shortlist; None where `try_top` is 0. Raises ValueError."""
    if type(try_top) is not int or try_top < 0:
        raise ValueError(f"try_top must be a whole number from 0, got {try_top!r}")
    if try_top:
        return FirstCalls(dispatcher, try_top, remember, device)
    if remember is not None:
        raise ValueError(
            "remember keeps what trying finds: add try_top, such as try_top=3, or leave it out"
        )
    return None


class FirstCalls:
    """The inputs of one process: which are decided, and what to try next on the others.

    Each call of the kernel runs one configuration of the input's shortlist, interleaved, so nothing
    runs that would not have run anyway. With a `path`, decisions are read from that file and
    appended to it; several processes may share it. Decisions for another device, another kernel, or
    with a configuration that is no longer there, or does not apply to the input, are ignored. So is
    one for which not all of the present shortlist was tried: the dispatcher was learnt anew, or the
    list was shorter. `device` is all that the times depend on.
    """

    def __init__(self, dispatcher: Any, most: int, path: str | Path | None, device: str) -> None:
        if not hasattr(dispatcher, "select_top"):
            raise ValueError(
                f"{dispatcher.NAME} predicts no times, so there is no shortlist to try; write it "
                "with harness.dispatch --choice ensemble"
            )
        if not hasattr(dispatcher, "launch_size"):
            raise ValueError(
                f"the launches of {dispatcher.NAME} are its host module's, so load() cannot try "
                "its shortlist; time what select_top(...) returns, and keep the fastest"
            )
        self._dispatcher = dispatcher
        self._most = most
        self._device = device
        self._decided: dict[Any, int] = {}
        self._remembered: dict[Any, tuple[int, frozenset[int]]] = {}  # and what was tried for it
        self._times: dict[Any, dict[int, list[float]]] = {}  # of what is tried, likeliest first
        self._path = None if path is None else _checked(path)
        if self._path is not None:
            self._read(self._path)

    def decided(self, features: Mapping[str, Any], first: int) -> int | None:
        """Return the index of the fastest configuration on an input; None if it is not decided.

        `first` is the configuration that runs if nothing is tried; it heads the shortlist.
        """
        key = _key(features)
        found = self._remembered.get(key)
        if found is not None:
            index, tried = found
            # Anybody may have written the file, or the constraints may have changed since.
            is_complete = tried.issuperset(self._shortlist(features, first))
            if is_complete and self._dispatcher.applies(index, **features):
                self._decided[key] = index
            self._remembered.pop(key, None)  # another thread may be here as well
        return self._decided.get(key)

    def next(self, features: Mapping[str, Any], first: int) -> int | None:
        """Return the index of the configuration to try; None where there is nothing to try, after
        `decided` returned None. `first` is as there."""
        key = _key(features)
        if key in self._decided:
            return None
        if key not in self._times:
            if len(self._decided) + len(self._times) >= _MOST_INPUTS:
                return None
            order = self._shortlist(features, first)
            if len(order) == 1:
                self._decided[key] = first
                return None
            self._times[key] = {index: [] for index in order}
        times = self._times[key]
        return list(times)[_turn(sum(map(len, times.values())), len(times))]

    def _shortlist(self, features: Mapping[str, Any], first: int) -> list[int]:
        listed = self._dispatcher.select_top(self._most, **features)
        return list(dict.fromkeys((first, *listed)))[: self._most]

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
        least = {one: min(own, default=float("inf")) for one, own in times.items()}
        self._decided[key] = min(least, key=least.__getitem__)
        if self._path is not None:
            self._append(features, self._decided[key], least)

    # ------------------------------------------------------------------------------- the file

    def _facts(self) -> dict[str, str]:
        tuned = self._dispatcher.PROVENANCE
        return {
            "name": self._dispatcher.NAME,
            "kernel_sha256": tuned["kernel_sha256"],
            "device": self._device,
        }

    def _read(self, path: Path) -> None:
        with path.open("a+b") as file:
            size_bytes = file.seek(0, os.SEEK_END)
            file.seek(0)
            text = file.read(_MOST_BYTES).decode(errors="replace")
            if size_bytes > _MOST_BYTES:
                text = text.rpartition("\n")[0]
            lines = {k: line for k, line in enumerate(text.split("\n"), 1) if line}
            damaged = [number for number, line in lines.items() if not self._is_taken(line)]
            if damaged and len(damaged) == len(lines):
                raise ValueError(
                    f"remember: {path} has no remembered choice, but other content; name another "
                    "file, or delete this one"
                )
            if size_bytes:
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    file.write(b"\n")  # after a line that was not written to its end
        if size_bytes > _MOST_BYTES:
            warnings.warn(
                f"{path} has {size_bytes:,} bytes, of which {_MOST_BYTES:,} are read; name a new "
                "file",
                stacklevel=6,
            )
        if damaged:
            more = f", as are {len(damaged) - 1} more" if len(damaged) > 1 else ""
            warnings.warn(
                f"{path}, line {damaged[0]}: this is no remembered choice; it is ignored{more}",
                stacklevel=6,
            )

    def _is_taken(self, line: str) -> bool:
        """Take a decision if it is for here; return False for a damaged line."""
        try:
            read = json.loads(line)
            facts = {name: read[name] for name in self._facts()}
            config, key = dict(read["config"]), _key(dict(read["input"]))
            configs = [dict(one) for one, _ in read["tried"]]
            hash(key)
        except (ValueError, KeyError, TypeError, RecursionError):
            return False
        portfolio = list(self._dispatcher.PORTFOLIO)
        if facts == self._facts() and config in portfolio:
            tried = frozenset(portfolio.index(one) for one in configs if one in portfolio)
            self._remembered[key] = portfolio.index(config), tried
        return True

    def _append(self, features: Mapping[str, Any], index: int, times: Mapping[int, float]) -> None:
        assert self._path is not None
        line = {
            **self._facts(),
            "input": {name: _plain(value) for name, value in features.items()},
            "config": self._dispatcher.PORTFOLIO[index],
            "tried": [[self._dispatcher.PORTFOLIO[one], time_s] for one, time_s in times.items()],
        }
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                os.write(file, json.dumps(line).encode() + b"\n")  # at once: others append too
            finally:
                os.close(file)
        except OSError as error:
            warnings.warn(
                f"{self._path}: {error.strerror}; this process remembers its choices, but no other "
                "will",
                stacklevel=4,
            )
            self._path = None


def _checked(path: str | Path) -> Path:
    """Return the path of a file that can be read and appended to; make it if it is missing. Raises
    ValueError."""
    if not isinstance(path, str | os.PathLike):
        raise ValueError(
            f"remember must be the path of a file, such as 'choices.jsonl', got {path!r}"
        )
    path = Path(path)
    try:
        if path.exists() and not path.is_file():
            raise ValueError(f"remember: {path} is no file; name one that keeps the choices")
        path.open("a+b").close()
    except FileNotFoundError:
        raise ValueError(
            f"remember: {path} cannot be made, since there is no folder {path.parent}; make it, or "
            "name a file in another folder"
        ) from None
    except OSError as error:
        raise ValueError(
            f"remember: {path} cannot be written: {error.strerror}; name another file"
        ) from None
    return path


def _turn(call: int, count: int) -> int:
    """Return whose turn it is: forwards and backwards, so that a drift favours nobody."""
    turn, place = divmod(call, count)
    return count - 1 - place if turn % 2 else place


def _key(features: Mapping[str, Any]) -> Any:
    return tuple(sorted((name, _plain(value)) for name, value in features.items()))


def _plain(value: Any) -> Any:
    """Return a number of NumPy's as one of Python's."""
    return value.item() if hasattr(value, "item") else value
