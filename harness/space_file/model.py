"""The shape of a space file: the model that validates it and gives its JSON Schema.

Each value is checked here by itself. `harness.space_file.load` checks what needs several values,
files or expressions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    Tag,
    model_validator,
)

from harness.constraints.expression import Expression
from harness.core.errors import ExpressionError
from harness.core.kernel_name import check_kernel_name
from harness.core.records import SUSTAINED, Input, Statistic
from harness.space_file.compiler import CompilersModel
from harness.space_file.input_ranges import MOST_INPUTS, FeatureRange
from harness.space_file.messages import StrictModel
from harness.space_file.tuned import (
    Condition,
    Flag,
    FlagName,
    Name,
    Parameter,
    Scalar,
    Selection,
    Size,
    by_shape,
    distinct,
    plain,
    read_by,
)
from harness.stats.timing import Sampling

MAX_PARAMETERS = 500
MAX_CONSTRAINTS = 1000

FeatureValue = Annotated[StrictInt | StrictFloat | StrictStr, AfterValidator(plain)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Constraints = Annotated[list[Condition], Field(max_length=MAX_CONSTRAINTS)]
Baselines = dict[FlagName, dict[FlagName, Scalar]]


class Sources(StrictModel):
    """Separate sources of one kernel for each language; one of them may be left out."""

    cuda: StrictStr | None = None
    """CUDA C++ source"""
    opencl: StrictStr | None = None
    """OpenCL C source"""

    @model_validator(mode="after")
    def _one_at_least(self) -> Sources:
        if self.cuda is None and self.opencl is None:
            raise ValueError("needs `cuda: FILE`, `opencl: FILE` or both")
        return self


Source = Annotated[
    Annotated[StrictStr, Tag("file")] | Annotated[Sources, Tag("files")],
    by_shape("a file's name or `{cuda: .., opencl: ..}`", file=str, files=dict),
]


KernelName = Annotated[StrictStr, AfterValidator(check_kernel_name)]
Functions = Annotated[
    Annotated[KernelName, Tag("name")]
    | Annotated[
        Annotated[list[KernelName], Field(min_length=1), AfterValidator(distinct)], Tag("names")
    ],
    by_shape("the kernel's name, or a list of names with `launch: host`", name=str, names=list),
]


class KernelModel(StrictModel):
    """The kernel that is tuned. Paths are relative to the space file."""

    function: Functions
    """the kernel's name in the source"""
    source: Source
    """one file for CUDA and OpenCL, or one for each"""
    host: StrictStr
    """Python file with arguments() and reference()"""


FlagGroup = Annotated[
    Annotated[dict[FlagName, Flag], Field(max_length=MAX_PARAMETERS), Tag("<declared>")]
    | Annotated[
        Selection,
        read_by(lambda name: [name], Annotated[StrictStr, Field(min_length=1)]),
        Tag("<set>"),
    ]
    | Annotated[Selection, Tag("<selection>")],
    by_shape(
        "a mapping of flags, or a set or a list of flags of a catalogue",
        **{"<declared>": dict, "<set>": str, "<selection>": list},
    ),
]
"""The flags of one compiler: declared by name, or selected from its catalogue."""


class Flags(StrictModel):
    """Compiler flags to tune, by compiler; each may also be absent, which is the default."""

    nvcc: FlagGroup = Field(default_factory=dict)
    """used by the cuda backend"""
    opencl: FlagGroup = Field(default_factory=dict)
    """used by the opencl backend"""


class LaunchPlan(StrictModel):
    """Expressions over parameters, input features and device limits, one per dimension."""

    group: list[Size] = Field(min_length=1, max_length=3)
    """work-items (threads) per group (block)"""
    grid: list[Size] = Field(min_length=1, max_length=3)
    """groups (blocks)"""
    shared: Size | None = None
    """bytes of dynamic shared (local) memory per group"""
    carveout: Size | None = None
    """preferred shared memory of a multiprocessor in percent of its maximum, -1 for the
    driver's choice (CUDA only)"""
    cooperative: StrictBool = False
    """the groups of the grid may wait for each other (CUDA only)"""

    @property
    def sizes(self) -> tuple[Sequence[Expression], ...]:
        """The group, the grid, the shared memory and its percentage: of these one size, or none."""
        shared = ((size,) if size else () for size in (self.shared, self.carveout))
        return self.group, self.grid, *shared

    @model_validator(mode="after")
    def _same_dimensions(self) -> LaunchPlan:
        if len(self.group) != len(self.grid):
            raise ValueError(
                "`group` and `grid` must have as many dimensions as each other, but got "
                f"{len(self.group)} and {len(self.grid)}; in a list written [a, b], an "
                "expression that contains a comma needs quotes"
            )
        return self


Launch = Annotated[
    Annotated[Literal["host"], Tag("<host>")] | Annotated[LaunchPlan, Tag("<sizes>")],
    by_shape(
        "`{group: [..], grid: [..]}`, or `host` where launches() of the host module gives the "
        "launches",
        **{"<host>": "host", "<sizes>": dict},
    ),
]


class Inputs(StrictModel):
    """The problems that the kernel is run on, described by numbers and words that are not tuned."""

    features: list[Name] = Field(min_length=1)
    """names of the numbers and words of an input"""
    values: Annotated[list[dict[str, FeatureValue]], Field(min_length=1)] | None = None
    """the inputs to tune for, each with a number or a word for every feature"""
    ranges: dict[Name, FeatureRange] | None = None
    """in place of `values`: the range of each feature"""
    where: Condition | None = None
    """a condition that inputs from `ranges` meet"""
    count: Annotated[StrictInt, Field(ge=1, le=MOST_INPUTS)] | None = None
    """how many inputs to draw from `ranges`"""

    @model_validator(mode="after")
    def _one_way(self) -> Inputs:
        if (self.values is None) == (self.ranges is None):
            got = "neither" if self.values is None else "both"
            raise ValueError(f"needs either `values` or `ranges`, but got {got}")
        for name in ("where", "count"):
            if self.ranges is None and getattr(self, name) is not None:
                raise ValueError(f"`{name}` goes with `ranges`, not with `values`")
        if self.ranges is not None and self.count is None:
            raise ValueError("`ranges` needs `count`, the number of inputs to draw")
        return self


class Verify(StrictModel):
    """|found - expected| <= atol + rtol * |expected|; by default by the output's dtype and size."""

    rtol: Number | None = Field(default=None, ge=0, lt=1)
    """relative tolerance"""
    atol: Number | None = Field(default=None, ge=0)
    """absolute tolerance"""


class PythonVerify(Verify):
    """The conditions under which a Python callable's result is right."""

    bits: Literal["default"] | None = None
    """`default`: besides reference(), the output must equal that of the default configuration bit
    for bit"""


class KernelVerify(PythonVerify):
    """The conditions under which a kernel's result is right."""

    against: Literal["reference", "baseline"] | None = None
    """`baseline`: besides reference(), the output must equal, bit for bit, that of the same
    configuration without compiler flags; by default so for flags of a catalogue that change no
    values, and else `reference`"""


class Measure(StrictModel):
    """The timing of one configuration."""

    warmup: StrictInt = Field(default=1, ge=1, le=1000)
    """launches before the timed ones"""
    repeats: StrictInt = Field(default=20, ge=1, le=100_000)
    """timed launches at most"""
    min_repeats: StrictInt = Field(default=5, ge=2, le=100_000)
    """timed launches before precision may end the timing"""
    precision: Number = Field(default=0.005, ge=0, lt=1)
    """stop when the mean's confidence interval is +- this fraction of the mean"""
    statistic: Statistic = Statistic.MEDIAN
    """compare configurations by the `median` of their samples, or by the `mean`"""
    confidence: Number = Field(default=0.95, gt=0, lt=1)
    """probability of the confidence intervals of times and speed-ups"""
    give_up_at: Number = Field(default=2.0, ge=1)
    """stop when significantly this many times slower than the best"""
    timeout_s: Number = Field(default=30.0, gt=0, le=86_400)
    """seconds that one configuration may take"""
    energy: StrictBool = False
    """measure the energy of a launch on an NVIDIA GPU, in up to 3 seconds a configuration"""

    @model_validator(mode="after")
    def _fewest_before_most(self) -> Measure:
        if "min_repeats" in self.model_fields_set and self.min_repeats > self.repeats:
            raise ValueError(
                "`min_repeats <= repeats` must hold, but got "
                f"(min_repeats={self.min_repeats}, repeats={self.repeats})"
            )
        return self

    def sampling(self, defaults: Mapping[str, float] = MappingProxyType({})) -> Sampling:
        """Return when to time a configuration: after which warm-up, and until when.

        `defaults` are the device's, for what the space does not say.
        """
        others = {"timeout_s", "cache", "clock", "energy"}
        stated = self.model_dump(exclude=others, exclude_none=True)
        return Sampling(**{**defaults, **stated})


class KernelMeasure(Measure):
    """The timing of one configuration of a kernel."""

    warmup_time_s: Number | None = Field(default=None, ge=0, le=60)
    """seconds of work without a pause before a timed launch; by default 0.025 on a GPU,
    0 on a CPU"""
    least_time_s: Number | None = Field(default=None, ge=0, le=5)
    """seconds that each configuration runs in its final rounds; by default 0.1 on a GPU,
    0 on a CPU"""

    cache: Literal["cold", "warm"] | None = None
    """what a timed run finds in the device's caches: what the run before left (`warm`), or none of
    it (`cold`); by default cold on a GPU, warm on a CPU"""
    clock: Literal["boost", "sustained"] = "boost"
    """measure at the highest clock of the device (`boost`), or at the clock that it keeps after a
    second of the same work (`sustained`)"""

    @model_validator(mode="after")
    def _sustained_without_time(self) -> KernelMeasure:
        if self.clock == SUSTAINED and self.warmup_time_s is not None:
            raise ValueError(
                "`clock: sustained` warms up until the clock is steady; leave `warmup_time_s` out"
            )
        return self


class Work(StrictModel):
    """What a run must move and calculate on an input, whatever the configuration: expressions over
    features. harness shows what share of the device's peak a time is."""

    bytes: Size | None = None
    """bytes that must be read from and written to memory"""
    flops: Size | None = None
    """float operations; a fused multiply-add is two"""

    @model_validator(mode="after")
    def _one_at_least(self) -> Work:
        if self.bytes is None and self.flops is None:
            raise ValueError("needs `bytes: EXPRESSION`, `flops: EXPRESSION` or both")
        return self

    @property
    def expressions(self) -> dict[str, Expression]:
        """The expressions that are there, by what they count."""
        return {kind: text for kind, text in self if text is not None}

    def of(self, problem: Input) -> dict[str, float]:
        """Return the amounts on an input, by what they count; raises ExpressionError."""
        work = {}
        for kind, expression in self.expressions.items():
            amount = expression(problem)
            if isinstance(amount, str) or not 0 < amount < math.inf:
                raise ExpressionError(
                    f"work.{kind}: `{expression.text}` is {amount} on ({problem}), expected a "
                    "number above 0"
                )
            work[kind] = float(amount)
        return work


class Search(StrictModel):
    """The search of the space, unless the command line says otherwise."""

    technique: StrictStr = Field(default="auto", min_length=1)
    """a search technique's name, or auto"""
    test_limit: StrictInt = Field(default=100, ge=1, le=10**9)
    """configurations measured per input at most"""
    same_on_all_inputs: list[Name] = Field(default_factory=list)
    """parameters that have the same value on every input, such as those that change the order of a
    sum: the value that suits all inputs best"""
    stop_at: Number | None = Field(default=None, gt=0, le=1)
    """end the search of an input once its best time is this fraction of the device's peak;
    needs `work`"""


class AnySpaceFile(StrictModel):
    """The keys that spaces of kernels and of programs share."""

    extends: StrictStr | None = None
    """a space file that gives the keys that are not here, but its name"""
    name: Name
    """the name of the results"""
    title: StrictStr = ""
    """one line for people"""
    constraints: Constraints = Field(default_factory=list)
    """conditions that every legal configuration satisfies"""
    baselines: Baselines = Field(default_factory=dict)
    """configurations to compare the winner with: the default with these values in it"""
    measure: Measure = Field(default_factory=Measure)
    """how long to time"""
    search: Search = Field(default_factory=Search)
    """how to search"""


class AnyKernelSpaceFile(AnySpaceFile):
    """The keys that spaces of kernels share, also of Python callables."""

    kernel: StrictModel
    parameters: dict[Name, Parameter] = Field(min_length=1, max_length=MAX_PARAMETERS)
    """what is tuned: macros of the source, or what build() reads"""
    inputs: Inputs
    """the problems that the kernel is run on"""
    work: Work | None = None
    """what a run must move and calculate, for the roofline"""
    measure: KernelMeasure = Field(default_factory=KernelMeasure)
    """how long to time"""


class SpaceFile(AnyKernelSpaceFile):
    """A tuning space: a kernel, its parameters, and its inputs."""

    model_config = ConfigDict(title="harness space")

    kernel: KernelModel
    """the function, its source and its host module"""
    flags: Flags = Field(default_factory=Flags)
    """compiler flags to tune as well"""
    compiler: CompilersModel = Field(default_factory=CompilersModel)
    """how every configuration is compiled"""
    launch: Launch
    """sizes of the group and of the grid, or `host`"""
    verify: KernelVerify = Field(default_factory=KernelVerify)
    """when a result is right"""

    @property
    def flag_groups(self) -> dict[str, FlagGroup]:
        """The flags by compiler."""
        return {"nvcc": self.flags.nvcc, "opencl": self.flags.opencl}

    @property
    def functions(self) -> tuple[str, ...]:
        """The kernels that a run launches."""
        named = self.kernel.function
        return (named,) if isinstance(named, str) else tuple(named)


class PythonKernel(StrictModel):
    """A kernel that is a Python callable. The path is relative to the space file."""

    python: StrictStr
    """Python file with build(config, features), arguments() and reference()"""


class PythonSpaceFile(AnyKernelSpaceFile):
    """A tuning space of a Python callable, its parameters, and its inputs."""

    model_config = ConfigDict(title="harness space of a Python callable")

    kernel: PythonKernel
    """the file that builds the callable"""
    verify: PythonVerify = Field(default_factory=PythonVerify)
    """when a result is right"""

    @property
    def flag_groups(self) -> dict[str, FlagGroup]:
        """No flags: what the framework's compiler is told is written in build()."""
        return {}

    @property
    def functions(self) -> tuple[str, ...]:
        """What makes the callable."""
        return ("build",)
