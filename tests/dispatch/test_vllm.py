"""The choice as tables by M: a reader that takes the nearest M chooses as the dispatcher does."""

from __future__ import annotations

import json

import pytest

from harness.core.errors import UsageError
from harness.core.records import Config, Input
from harness.dispatch.choice import Choice, DispatchProgram, Leaf, Split
from harness.dispatch.dispatcher import Dispatcher
from harness.dispatch.features import Feature, Type
from harness.dispatch.vllm import vllm_files
from harness.models.columns import Column, ColumnKind, TunedRange
from tests.helpers.dispatch_examples import PROVENANCE

BLOCKS = [Config({"BLOCK_SIZE_M": block, "num_warps": 4}) for block in (16, 32, 64)]
INPUTS = [Input({"M": m, "E": 8, "N": n}) for m in (4, 64, 1024) for n in (256, 512)]


def dispatcher_of(batch="M", guards=()):
    """BLOCK=32 up to M=100, BLOCK=64 above it where N is 512; 16 is the best single one."""
    small = Leaf((1.0, 0.0, 2.0))
    root = Split(0, 100.5, small, Split(1, 300.0, small, Leaf((1.0, 2.0, 0.0))))
    program = DispatchProgram(
        columns=(Column(ColumnKind.RAW, (batch,)), Column(ColumnKind.RAW, ("N",))),
        tuned=(TunedRange(batch, 4, 1024, whole=True), TunedRange("N", 256, 512, whole=True)),
        portfolio=tuple(BLOCKS),
        choice=Choice.of_trees([root], predicts_times=False),
        guards=((), guards, ()),
    )
    features = tuple(Feature(name, Type.WHOLE) for name in (batch, "E", "N"))
    return Dispatcher("moe", "", ("moe",), features, program, PROVENANCE)


def read(content, m):
    """What vLLM takes for a batch of m, by its BLOCK_SIZE_M."""
    table = {int(key): row for key, row in json.loads(content).items()}
    block: int = table[min(table, key=lambda key: abs(key - m))]["BLOCK_SIZE_M"]
    return block


def test_the_nearest_row_is_what_the_dispatcher_chooses():
    files = vllm_files(dispatcher_of(), INPUTS)
    small, large = (
        files[f"E=8,N={n},device_name=a_device,_2_compute_units.json"] for n in (256, 512)
    )
    for m in range(4, 1025):
        assert read(small, m) == 32
        assert read(large, m) == (32 if m <= 100 else 64)
    for m in (1, 3, 1025, 10**6):
        assert read(small, m) == read(large, m) == 16, "the best single one, outside of the range"
    assert list(json.loads(large)) == ["3", "4", "64", "100", "101", "1024", "1025"]


def test_a_configuration_that_does_not_apply_is_in_no_row():
    files = vllm_files(dispatcher_of(guards=("N > 300",)), INPUTS)
    assert read(files["E=8,N=256,device_name=a_device,_2_compute_units.json"], 64) == 16


def test_a_table_needs_a_feature_m():
    with pytest.raises(UsageError, match="a feature M"):
        vllm_files(dispatcher_of("rows"), INPUTS)
