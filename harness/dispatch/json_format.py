"""Write a dispatcher as JSON, for languages and frameworks that no other format serves.

`docs/dispatch.md` describes the file and how to choose with it. New keys may be added; `format`
changes where one is removed or changes its meaning.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harness.core.records import ENVIRONMENT_FIELDS
from harness.dispatch.dispatcher import Dispatcher
from harness.dispatch.features import Feature
from harness.dispatch.formulas import Type
from harness.dispatch.nodes import Leaf, Node
from harness.dispatch.program import WORTH_A_TRY, EnsembleChoice, TreeChoice
from harness.dispatch.verdict import Judged
from harness.space_file import LaunchPlan

FORMAT = 1
_WIDTH = 100
_DIGITS = 6  # of a figure of the verdict
_TYPES = {Type.WHOLE: "whole", Type.REAL: "real", Type.WORD: "word"}

JsonValue = bool | int | float | str | None


@dataclass(frozen=True)
class JsonFeature:
    """A number that describes an input, with its tuned range; or a word, with those that were
    tuned."""

    name: str
    type: str
    tuned: list[float] | None
    words: list[JsonValue] | None


@dataclass(frozen=True)
class JsonTerm:
    """A weight times a feature, or times its base-2 logarithm."""

    feature: str
    weight: float
    is_log: bool


@dataclass(frozen=True)
class JsonColumn:
    """A number that trees split on, computed from features."""

    kind: str
    features: list[str]
    word: JsonValue
    constant: float
    terms: list[JsonTerm]


@dataclass(frozen=True)
class JsonNode:
    """A node of a tree. A split sends an input whose column is at most `threshold` to node `low`,
    any other to node `high`. A leaf has null in these four, and one of `order`, `value` and
    `costs`."""

    column: int | None = None
    threshold: float | None = None
    low: int | None = None
    high: int | None = None
    order: list[int] | None = None
    value: float | None = None
    costs: list[float] | None = None


@dataclass(frozen=True)
class JsonTree:
    """A tree, as a list of nodes whose first is the root; `configuration` is the one whose cost it
    adds to, and null where its leaves concern all."""

    configuration: int | None
    nodes: list[JsonNode]


@dataclass(frozen=True)
class JsonChoice:
    """What chooses: `tree`, `ensemble` or `forest`; `offsets` are the costs that an ensemble
    begins with. Configurations whose cost is at most `worth_a_try` above the least are worth a try;
    null where costs are no times."""

    kind: str
    trees: list[JsonTree]
    offsets: list[float]
    worth_a_try: float | None


@dataclass(frozen=True)
class JsonConfiguration:
    """A configuration: its parameters, the conditions under which it applies to an input, and the
    file to launch, with its build options and the names of its kernels."""

    parameters: dict[str, JsonValue]
    guards: list[str]
    file: str | None
    options: list[str]
    symbols: list[str]


@dataclass(frozen=True)
class JsonLaunch:
    """The expressions of a launch's sizes; `shared` is that of the dynamic shared memory,
    `carveout` that of the preferred percentage of shared memory."""

    group: list[str]
    grid: list[str]
    shared: str | None
    carveout: str | None
    cooperative: bool


@dataclass(frozen=True)
class JsonJudged:
    """One way to choose: its mean slowdown against the best known on held-out inputs, with its
    95 % interval. A `high` of null is infinite."""

    name: str
    slowdown: float
    low: float
    high: float | None
    worst: float | None
    within_5_percent: float


@dataclass(frozen=True)
class JsonVerdict:
    """How well it chooses on held-out inputs, as figures and as the text that was printed."""

    choice: str
    judged: list[JsonJudged]
    text: list[str]


@dataclass(frozen=True)
class JsonDispatcher:
    """A dispatcher: features of an input -> configuration."""

    harness: str
    format: int
    name: str
    title: str
    features: list[JsonFeature]
    columns: list[JsonColumn]
    choice: JsonChoice
    configurations: list[JsonConfiguration]
    fallback: list[int]
    constants: dict[str, JsonValue]
    launch: JsonLaunch | None
    provenance: dict[str, JsonValue | list[str]]
    verdict: JsonVerdict


def json_files(dispatcher: Dispatcher) -> dict[str, bytes]:
    """Return the content of the file, by its name."""
    text = _text(_without_nulls(json_dispatcher(dispatcher)))
    return {f"{dispatcher.name}.json": f"{text}\n".encode()}


def _text(value: Any, indent: str = "") -> str:
    """Write JSON with a line for each part that fits one, as a person would."""
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


def _without_nulls(document: JsonDispatcher) -> dict[str, Any]:
    """Return plain data; nodes, which are many, lack the keys that do not concern them."""
    found = dataclasses.asdict(document)
    for tree in found["choice"]["trees"]:
        tree["nodes"] = [{k: v for k, v in n.items() if v is not None} for n in tree["nodes"]]
    return found


def json_dispatcher(dispatcher: Dispatcher) -> JsonDispatcher:
    """Describe a dispatcher as plain data."""
    provenance, program, launch = dispatcher.provenance, dispatcher.program, dispatcher.launch
    return JsonDispatcher(
        harness=provenance.harness_version,
        format=FORMAT,
        name=dispatcher.name,
        title=dispatcher.title,
        features=[_feature(dispatcher, feature) for feature in dispatcher.features],
        columns=[
            JsonColumn(
                column.kind.value,
                list(column.features),
                column.word,
                column.constant,
                [JsonTerm(term.feature, term.weight, term.is_log) for term in column.terms],
            )
            for column in program.columns
        ],
        choice=_choice(dispatcher),
        configurations=[_configuration(dispatcher, i) for i in range(len(program.portfolio))],
        fallback=list(dispatcher.fallback),
        constants=dict(dispatcher.constants),
        launch=_launch(launch) if launch else None,
        provenance={
            **{name: getattr(provenance.environment, name) for name in ENVIRONMENT_FIELDS},
            "kernel_sha256": provenance.program_sha256,
            "databases": list(provenance.databases),
            "inputs": provenance.inputs,
            "date": provenance.date,
        },
        verdict=JsonVerdict(
            provenance.choice, list(map(_judged, provenance.judged)), list(provenance.verdict)
        ),
    )


def _launch(plan: LaunchPlan) -> JsonLaunch:
    group, grid = ([extent.text for extent in extents] for extents in (plan.group, plan.grid))
    shared, carveout = (size.text if size else None for size in (plan.shared, plan.carveout))
    return JsonLaunch(group, grid, shared, carveout, plan.cooperative)


def _feature(dispatcher: Dispatcher, feature: Feature) -> JsonFeature:
    tuned = dispatcher.tuned_of(feature.name)
    return JsonFeature(
        feature.name,
        _TYPES[feature.type],
        tuned=[tuned.low, tuned.high] if tuned and not tuned.words else None,
        words=list(tuned.words) if tuned and tuned.words else None,
    )


def _choice(dispatcher: Dispatcher) -> JsonChoice:
    choice = dispatcher.program.choice
    worth = WORTH_A_TRY if choice.predicts_times else None
    if isinstance(choice, TreeChoice):
        nodes = _nodes(
            choice.root, lambda leaf: JsonNode(order=list(dispatcher.orders(leaf.order)))
        )
        return JsonChoice("tree", [JsonTree(None, nodes)], [], None)
    if isinstance(choice, EnsembleChoice):
        trees = [
            JsonTree(index, _nodes(tree, lambda leaf: JsonNode(value=leaf.value)))
            for index, of_one in enumerate(choice.by_candidate)
            for tree in of_one
        ]
        return JsonChoice("ensemble", trees, list(choice.offsets), worth)
    nodes_of = [_nodes(t, lambda leaf: JsonNode(costs=list(leaf.costs))) for t in choice.trees]
    return JsonChoice("forest", [JsonTree(None, nodes) for nodes in nodes_of], [], worth)


def _nodes(root: Node, ending: Callable[[Leaf], JsonNode]) -> list[JsonNode]:
    """List the nodes of a tree, parents before children, so that no reader needs recursion."""
    listed = list(root.nodes())
    indices = {id(node): index for index, node in enumerate(listed)}
    return [
        ending(node)
        if isinstance(node, Leaf)
        else JsonNode(node.column, node.threshold, indices[id(node.low)], indices[id(node.high)])
        for node in listed
    ]


def _configuration(dispatcher: Dispatcher, index: int) -> JsonConfiguration:
    program = dispatcher.program
    kernel = dispatcher.kernels[index] if dispatcher.kernels else None
    return JsonConfiguration(
        dict(program.portfolio[index]),
        dispatcher.guard_texts(index),
        f"{dispatcher.name}/{dispatcher.item}s/{kernel.name}" if kernel else None,
        list(kernel.options) if kernel else [],
        list(kernel.symbols or dispatcher.functions) if kernel else [],
    )


def _judged(one: Judged) -> JsonJudged:
    mean = one.mean
    return JsonJudged(
        one.name,
        round(mean.value, _DIGITS),
        round(mean.low, _DIGITS),
        _finite(mean.high),
        _finite(one.worst),
        round(one.near, _DIGITS),
    )


def _finite(number: float) -> float | None:
    return round(number, _DIGITS) if math.isfinite(number) else None
