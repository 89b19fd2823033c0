"""Choose a configuration for each call of a kernel. Where that is asked for, the first calls with
an input try those of its shortlist, and the fastest is remembered."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_ROUNDS = 3  # the least of these times counts: the first call often takes longer
_MOST_INPUTS = 4096  # on others it takes what is predicted


class TryingKernel:
    """What the kernels of all backends share. `select` returns the index that is predicted for an
    input. With `try_top`, each call with an input runs one configuration of its shortlist of up to
    so many, interleaved, until the fastest is known; each process tries anew. Backends add
    `launch`, `_timed` and `_functions`."""

    launch: Callable[..., Any]
    _timed: Callable[..., tuple[Any, float]]
    _functions: Callable[[bytes, Mapping[str, Any]], tuple[Any, ...]]

    def __init__(self, dispatcher: Any, select: Callable[..., int], try_top: int) -> None:
        if type(try_top) is not int or try_top < 0:
            raise ValueError(f"try_top must be a whole number from 0, got {try_top!r}")
        if try_top and dispatcher.DATA["choice"]["worth_a_try"] is None:
            raise ValueError(
                f"{dispatcher.NAME} predicts no times, so there is no shortlist to try; write it "
                "with harness dispatch --choice ensemble"
            )
        if try_top and dispatcher.DATA["launch"] is None:
            raise ValueError(
                f"the launches of {dispatcher.NAME} are its host module's, so load() cannot try "
                "its shortlist; time what select_top(...) returns, and keep the fastest"
            )
        self._dispatcher, self._select, self._most = dispatcher, select, try_top
        self._loaded: dict[int, tuple[Any, ...]] = {}
        self._decided: dict[Any, int] = {}  # by input, the fastest
        self._times: dict[Any, dict[int, list[float]]] = {}  # of what is tried, likeliest first

    def index(self, **features: Any) -> int:
        """Return the index of the configuration for an input; raises LookupError if none
        applies."""
        index = int(self._select(**features))  # in any case: it may count the calls
        return self._decided.get(_key(features), index) if self._most else index

    def kernels(self, index: int) -> tuple[Any, ...]:
        """Return the functions of a configuration, built or loaded at the first call."""
        if index not in self._loaded:
            config = self._dispatcher.DATA["configurations"][index]
            content = (Path(self._dispatcher.__file__).parent / config["file"]).read_bytes()
            self._loaded[index] = self._functions(content, config)
        return self._loaded[index]

    def __call__(
        self, queue: Any, /, *arguments: Any, wait_for: Any = None, **features: Any
    ) -> Any:
        """Launch the kernel on an input: with OpenCL in a queue, behind the events `wait_for`, and
        the event of its end is returned; with CUDA in a stream."""
        options = {} if wait_for is None else {"wait_for": wait_for}
        index = self.index(**features)
        trial = self._next(features, index)
        if trial is None:
            return self.launch(index, queue, arguments, features, **options)
        self.kernels(trial)  # to build or load it is no part of the time
        launch = functools.partial(self.launch, trial, queue, arguments, features, **options)
        launched, time_s = self._timed(queue, launch)
        self._note(features, trial, time_s)
        return launched

    def _next(self, features: Mapping[str, Any], first: int) -> int | None:
        """Return the index of the configuration to try; None where there is nothing to try. `first`
        would run if nothing were tried; it heads the shortlist."""
        if not self._most or (key := _key(features)) in self._decided:
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

    def _note(self, features: Mapping[str, Any], index: int, time_s: float) -> None:
        """Note the seconds of the configuration that `_next` returned; the last decides."""
        key = _key(features)
        times = self._times.get(key)
        if times is None:  # another thread's call has decided
            return
        times[index].append(time_s)
        if sum(map(len, times.values())) < _ROUNDS * len(times):
            return
        del self._times[key]
        self._decided[key] = min(times, key=lambda one: min(times[one], default=float("inf")))

    def _sizes(self, index: int, features: Mapping[str, Any]) -> Any:
        """Return the group and the grid of a launch."""
        if self._dispatcher.DATA["launch"] is None:
            raise TypeError(
                f"the launches of {self._dispatcher.NAME} are its host module's: take "
                "kernels(index(...)) and launch them as that does"
            )
        return self._dispatcher.launch_size(index, **features)


def warn_of_device(dispatcher: Any, device: str, used: str) -> None:
    """Warn the caller of `load` that this device was not tuned, and say which choice is used."""
    warnings.warn(
        f"{dispatcher.NAME} was tuned on {dispatcher.PROVENANCE['device']}, not on {device}: "
        f"{used} is used; tune it on this device",
        stacklevel=4,
    )


def _key(features: Mapping[str, Any]) -> Any:
    """Return an input with Python's numbers in place of NumPy's."""
    plain = {name: v.item() if hasattr(v, "item") else v for name, v in features.items()}
    return tuple(sorted(plain.items()))
