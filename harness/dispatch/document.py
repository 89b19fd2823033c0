"""Write a dispatcher as NAME.json, which `loaders/runtime.py` and programs in any language read.

`docs/reference/dispatcher.md` describes the file and how to choose with it. New keys may be added;
`format` changes where one is removed or changes its meaning.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from typing import Any

from harness.core.config_diff import difference
from harness.dispatch.choice import WORTH_A_TRY, CostTree, Leaf
from harness.dispatch.dispatcher import Dispatcher
from harness.dispatch.features import Feature
from harness.dispatch.verdict import Slowdowns
from harness.models.columns import Column, TunedRange
from harness.space_file import LaunchPlan
from harness.space_file.program import OUTPUT, SOURCE, CommandLine, texts_of

_FORMAT = 2
_WIDTH = 100
_DIGITS = 6  # of a figure of the verdict


def document_text(dispatcher: Dispatcher) -> str:
    """Write the file, with a line for each part that fits one, as a person would."""
    return _text(_document(dispatcher)) + "\n"


def _text(value: Any, indent: str = "") -> str:
    line = json.dumps(value, allow_nan=False)
    if len(indent + line) <= _WIDTH or not isinstance(value, (dict, list)):
        return line
    inner = f"{indent} "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {_text(part, inner)}" for key, part in value.items()]
    else:
        parts = [_text(part, inner) for part in value]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return begin + ",".join(f"\n{inner}{part}" for part in parts) + f"\n{indent}{end}"


def _document(dispatcher: Dispatcher) -> dict[str, Any]:
    provenance, program = dispatcher.provenance, dispatcher.program
    choice = program.choice
    return {
        "harness": provenance.harness_version,
        "format": _FORMAT,
        "name": dispatcher.name,
        "title": dispatcher.title,
        "functions": list(dispatcher.functions),
        "features": [_feature(feature, program.tuned) for feature in dispatcher.features],
        "columns": list(map(_column, program.columns)),
        "choice": {
            "worth_a_try": WORTH_A_TRY if choice.predicts_times else None,
            "offsets": list(choice.offsets),
            "trees": list(map(_tree, choice.trees)),
        },
        "configurations": [_configuration(dispatcher, i) for i in range(len(program.portfolio))],
        "constants": dict(dispatcher.constants),
        "launch": _launch(dispatcher.launch) if dispatcher.launch else None,
        "loader": provenance.environment.backend if dispatcher.has_loader else None,
        "provenance": {
            **provenance.environment.compared,
            "kernel_sha256": provenance.program_sha256,
            "databases": list(provenance.databases),
            "inputs": provenance.inputs,
            "choice": provenance.choice,
            "date": provenance.date,
        },
        "verdict": {
            "judged": list(map(_figures, provenance.slowdowns)),
            "text": list(provenance.verdict),
        },
        "launcher": _launcher(dispatcher, dispatcher.launcher) if dispatcher.launcher else None,
    }


def _feature(feature: Feature, ranges: Sequence[TunedRange]) -> dict[str, Any]:
    tuned = next((tuned for tuned in ranges if tuned.feature == feature.name), None)
    return {
        "name": feature.name,
        "type": feature.type.name.lower(),
        "tuned": [tuned.low, tuned.high] if tuned and not tuned.words else None,
        "words": list(tuned.words) if tuned and tuned.words else None,
    }


def _column(column: Column) -> dict[str, Any]:
    return {**dataclasses.asdict(column), "kind": column.kind.value}


def _tree(tree: CostTree) -> dict[str, Any]:
    """List the nodes of a tree, parents before children, so that no reader needs recursion."""
    nodes = list(tree.root.nodes())
    place = {id(node): index for index, node in enumerate(nodes)}
    listed = [
        {"costs": list(node.costs)}
        if isinstance(node, Leaf)
        else [node.column, node.threshold, place[id(node.low)], place[id(node.high)]]
        for node in nodes
    ]
    return {"configuration": tree.candidate, "nodes": listed}


def _configuration(dispatcher: Dispatcher, index: int) -> dict[str, Any]:
    kernel = dispatcher.kernels[index] if dispatcher.kernels else None
    return {
        "parameters": dict(dispatcher.program.portfolio[index]),
        "guards": dispatcher.guard_texts(index),
        "file": f"{dispatcher.item}s/{kernel.name}" if kernel else None,
        "options": list(kernel.options) if kernel else [],
        "symbols": list(kernel.symbols or dispatcher.functions) if kernel else [],
    }


def _launch(plan: LaunchPlan) -> dict[str, Any]:
    return {
        "group": [extent.text for extent in plan.group],
        "grid": [extent.text for extent in plan.grid],
        "shared": plan.shared.text if plan.shared else None,
        "carveout": plan.carveout.text if plan.carveout else None,
        "cooperative": plan.cooperative,
    }


def _figures(one: Slowdowns) -> dict[str, Any]:
    mean = one.mean
    figures = {"slowdown": mean.value, "low": mean.low, "high": mean.high, "worst": one.worst}
    figures["within_5_percent"] = one.near
    rounded = {k: round(v, _DIGITS) if math.isfinite(v) else None for k, v in figures.items()}
    return {"name": one.name, **rounded}


# ----------------------------------------------------------------------- programs


def _launcher(dispatcher: Dispatcher, line: CommandLine) -> dict[str, Any]:
    """Return what `loaders/command.py` reads."""
    return {
        "features": [_launcher_feature(feature, line) for feature in dispatcher.features],
        "configurations": [
            {
                "before": [
                    None if template.whole in (OUTPUT, SOURCE) else template.filled(texts)
                    for template in line.before
                ],
                "inserted": [(count, template.filled(texts)) for count, template in line.inserted],
                "variables": {
                    name: template.filled(texts) for name, template in line.set_variables
                },
                "shown": difference(config, dispatcher.constants),
            }
            for config in dispatcher.program.portfolio
            for texts in [texts_of(config)]
        ],
        "fixed_variables": {name: text.filled({}) for name, text in line.fixed_variables},
        "feature_variables": dict(line.feature_variables),
        "device_command": line.device,
    }


def _launcher_feature(feature: Feature, line: CommandLine) -> dict[str, Any]:
    source = line.sources[feature.name]
    return {
        **source.model_dump(),
        "name": feature.name,
        "type": feature.type.name.lower(),
        "source": str(source),
    }
