"""Make a database with OpenTuner alone: its tutorial's matrix product and flags of g++.

    python -m tests.helpers.stock_opentuner stock.db
    python -m harness.analyse stock.db

The program is written after OpenTuner's own examples, tutorials/mmm_tuner.py and
gccflags/gccflags_minimal.py (https://github.com/jansel/opentuner): OpenTuner's interface,
manipulator, bandit and database as they are installed, and nothing of harness. It tunes one size
after another, each in a run of its own, into one database. The eight sizes take about a minute.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

SOURCE = Path(__file__).parents[1] / "data" / "mmm_block.cpp"
SIZES = (32, 64, 96, 128, 192, 256, 384, 512)
LIMIT_S, RUNS = 20.0, 3

warnings.simplefilter("ignore")  # OpenTuner predates SQLAlchemy 2: importing it warns

import opentuner  # noqa: E402
from opentuner.measurement.inputmanager import FixedInputManager  # noqa: E402
from opentuner.search.objective import MinimizeTime  # noqa: E402


class MatrixTuner(opentuner.MeasurementInterface):  # type: ignore[misc]
    """Tunes the block size and the flags for one size of the matrices."""

    def __init__(self, args: argparse.Namespace, size: int, source: Path) -> None:
        self._source, self._size = source, size
        super().__init__(
            args,
            project_name="examples",
            program_name="mmm_block",
            program_version="1",
            objective=MinimizeTime(),  # without it OpenTuner ignores the input manager
            input_manager=FixedInputManager("matrix", size=size),
        )

    def manipulator(self) -> Any:
        """Return the search space: numbers, and a flag that may also stay at its default."""
        manipulator = opentuner.ConfigurationManipulator()
        manipulator.add_parameter(opentuner.IntegerParameter("BLOCK_SIZE", 4, 64))
        manipulator.add_parameter(opentuner.IntegerParameter("opt_level", 0, 3))
        manipulator.add_parameter(opentuner.EnumParameter("unroll-loops", ["on", "off", "default"]))
        return manipulator

    def seed_configurations(self) -> list[dict[str, Any]]:
        """Return what each size begins with, the first one last: a choice by size can only be
        learnt between configurations that ran on every size."""
        seeds = [(64, 2), (32, 3), (32, 2), (16, 3), (8, 2), (10, 0)]
        return [
            {"BLOCK_SIZE": block, "opt_level": level, "unroll-loops": "default"}
            for block, level in seeds
        ]

    def run(self, desired_result: Any, input: Any, limit: float) -> Any:
        """Compile and run a configuration; the time is that of the whole program, of three runs the
        least."""
        config = desired_result.configuration.data
        command = f"g++ -O{config['opt_level']}{_switch('unroll-loops', config)}"
        command += f" -DN={self._size} -DBLOCK_SIZE={config['BLOCK_SIZE']} {self._source} -o tmp"
        if self.call_program(command, limit=LIMIT_S)["returncode"] != 0:
            return opentuner.Result(state="ERROR", time=float("inf"))
        ended = [self.call_program("./tmp", limit=LIMIT_S) for _ in range(RUNS)]
        if any(one["timeout"] for one in ended):
            return opentuner.Result(state="TIMEOUT", time=float("inf"))
        if any(one["returncode"] != 0 for one in ended):
            return opentuner.Result(state="ERROR", time=float("inf"))
        return opentuner.Result(time=min(one["time"] for one in ended))

    def save_final_config(self, configuration: Any) -> None:
        """Print the best configuration."""
        print(f"{self._size}: {configuration.data}", flush=True)


def _switch(name: str, config: dict[str, Any]) -> str:
    spelled = {"on": f" -f{name}", "off": f" -fno-{name}", "default": ""}
    return spelled[config[name]]


def tune(database: Path, sizes: tuple[int, ...], tests: int, seed: int) -> None:
    """Tune each size; the results are added to the database."""
    with _folder():
        for size in sizes:
            random.seed(f"{seed}:{size}")
            np.random.seed(seed)
            args = opentuner.default_argparser().parse_args([])
            args.database, args.test_limit, args.no_dups = f"sqlite:///{database}", tests, True
            args.label = database.name
            opentuner.tuningrunmain.TuningRunMain(MatrixTuner(args, size, SOURCE), args).main()


@contextmanager
def _folder() -> Iterator[None]:
    """Work in a folder that is deleted: OpenTuner writes its log to the current one."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="stock-") as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(here)


if __name__ == "__main__":
    tune(Path(sys.argv[1]).resolve(), SIZES, tests=40, seed=0)
