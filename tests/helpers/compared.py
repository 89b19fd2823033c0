"""Databases to compare, of a device with seeded noise, and the command that compares them."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import random
import uuid
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

from harness.api.documents import document_schema
from harness.core.records import (
    Config,
    Environment,
    Input,
    Measurement,
    Outcome,
    StopReason,
    Timing,
)
from harness.results import CHOICE, COMPLETE, FINAL, INTERRUPTED
from tests.helpers.commands import compare as main
from tests.helpers.replays import make_spec, small_space
from tests.helpers.results_examples import begin_search, make_plan, opened

SPACE = small_space("BLOCK: {values: [16, 64], default: 64}", 8, 16, 32, 64)
ENVIRONMENT = Environment("replay", "a device", "a platform", "1.0", "a compiler")


class Device:
    """Times with noise of 0.1 % between occasions and between samples.

    `slower` has the factor of each slower input; an infinite one breaks the input.
    """

    def __init__(self, seed: int, slower: Mapping[int, float]) -> None:
        self._rng, self._slower = random.Random(seed), slower

    def measure(self, given: Input, block: int) -> Measurement:
        """One occasion of ten samples; 16 is the best block, and 64 the default."""
        config, ratio = Config({"BLOCK": block}), self._slower.get(int(str(given["n"])), 1.0)
        if ratio == float("inf"):
            return Measurement(config, given, Outcome.BUILD_FAILED, message="\x1b[31mno: 100%")
        time_s = ratio * {16: 1e-3, 32: 4e-3, 64: 2e-3, 128: 3e-3}[block] * self._noise()
        samples_s = tuple(time_s * self._noise() for _ in range(10))
        timing = Timing(samples_s, StopReason.INTERLEAVED)
        return Measurement(config, given, Outcome.OK, timing)

    def _noise(self) -> float:
        return 1 + 1e-3 * self._rng.gauss(0, 1)


def tuned(
    folder: Path,
    name: str,
    seed: int,
    slower: Mapping[int, float] | None = None,
    environment: Environment = ENVIRONMENT,
    function: str = "kernel",
    space: str = SPACE,
    searched: Sequence[int] = (16, 64),
    finals: Sequence[int] = (16, 64),
    chosen: Sequence[int] = (),
    left_out: Mapping[int, str] | None = None,
) -> str:
    """Write a database with a search, finals, and the command that asked for all inputs.

    Another function makes another program.
    """
    spec = make_spec(folder, space)
    if spec.program is None:
        spec = dataclasses.replace(spec, functions=(function,))
    device, left = Device(seed, slower or {}), left_out or {}
    reasons = {g: left[int(str(g["n"]))] for g in spec.inputs if int(str(g["n"])) in left}
    with opened(folder / name) as store:
        command = store.begin_command(spec, environment, 1)
        for given in spec.inputs:
            search = begin_search(store, make_plan(given, spec=spec, environment=environment))
            if given in reasons:
                store.end_run(search.run_id, INTERRUPTED)
                continue
            for block in searched:
                search.test(device.measure(given, block))
            last = [m for block in finals if (m := device.measure(given, block)).timing]
            choice = [device.measure(given, block) for block in chosen]
            store.add_measurements(
                search.run_id, search.plan, CHOICE, choice, group=uuid.uuid4().hex
            )
            store.add_measurements(search.run_id, search.plan, FINAL, last, group=uuid.uuid4().hex)
            store.end_run(search.run_id, COMPLETE)
        store.end_command(command, reasons, {})
    return str(folder / name)


def run(*words: str) -> tuple[int, Any]:
    """Run the command with --json; return the exit status and the document, which fits its schema.

    The text goes to standard error.
    """
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        status = main([*words, "--json"])
    document = json.loads(printed.getvalue())
    _validator().validate(document)
    return status, document


@cache
def _validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(document_schema("compare"))
