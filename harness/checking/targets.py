"""The devices and architectures to compile for, and the space within their limits."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from harness.core.errors import BackendUnavailable
from harness.core.records import DeviceLimits, Input, Value
from harness.measure.choose import with_cuda_compiler
from harness.measure.cuda.gpus import first_usable
from harness.measure.cuda.occupancy import multiprocessor
from harness.measure.devices import Backend, choose_one
from harness.space import ConstrainedSpace
from harness.space_file import Spec

ARCHITECTURE_LIMITS = DeviceLimits(
    max_group_size=1024,
    max_group_dims=(1024, 1024, 64),
    max_grid_dims=(2**31 - 1, 65535, 65535),
    max_local_bytes=48 * 1024,
    compute_units=100,
    warp_size=32,
)
"""The limits of every NVIDIA architecture in use. Source: CUDA C++ Programming Guide, "Technical
Specifications per Compute Capability". Only a device knows its number of multiprocessors (compute
units): this is a usual one (`target_notes`)."""

_DYNAMIC_ARRAY = re.compile(
    r"^[^/\n]*\bextern\s+((__align__|alignas)\s*\([^)]*\)\s*)?__shared__\b", re.MULTILINE
)


@dataclass(frozen=True)
class CompileTarget:
    """A device of this machine, or an NVIDIA architecture, which needs no GPU.

    `arch` is the architecture to compile for; None for OpenCL.
    """

    name: str
    backend: Backend
    identity: str
    limits: DeviceLimits
    arch: str | None = None
    has_device: bool = False

    @property
    def language(self) -> str:
        """The language of the kernel source."""
        return self.backend.language

    @classmethod
    def of_architecture(cls, arch: str) -> CompileTarget:
        """Make the target of an architecture such as `sm_90`.

        Raises UsageError for an unknown architecture, BackendUnavailable without a compiler.
        """
        why, compiler = "its architecture was named", first_usable(arch)
        backend = Backend("cuda", "nvcc", why, arch=arch, cuda_compiler=compiler)
        limits = ARCHITECTURE_LIMITS
        with contextlib.suppress(ValueError):
            opt_in_bytes = multiprocessor(arch).max_group_shared_bytes
            limits = dataclasses.replace(limits, opt_in_local_bytes=opt_in_bytes)
        return cls(arch, backend, backend.open_compiler().identity, limits, arch)

    @classmethod
    def of_device(cls, requested: str, devices: Sequence[str] = ()) -> CompileTarget:
        """Make the target of a device; `requested` is auto, cuda or opencl, and `devices` may name
        it.

        Raises BackendUnavailable, and UsageError for an unknown device.
        """
        try:
            backend = choose_one(requested, devices)
        except BackendUnavailable as error:
            if requested == "cuda":
                hint = "Without a GPU, name the architecture to compile for: --arch sm_90"
                raise BackendUnavailable(f"{error}\n{hint}") from None
            raise
        compiler, device = backend.open_compiler(), backend.open_device()
        backend.require_working(device, compiler)
        limits, environment = device.limits, device.environment(compiler.identity)
        name = f"{backend.language} on {environment.device}"
        return cls(name, backend, compiler.identity, limits, compiler.arch, has_device=True)

    def fitted_to(self, spec: Spec) -> CompileTarget:
        """Return the target with the compiler that a space names, and with the features of its own
        architecture (sm_90a) where the space wants them.

        Raises BackendUnavailable where that compiler cannot be used.
        """
        if self.arch is None:
            return self
        backend = dataclasses.replace(self.backend, arch_specific=spec.compilers.nvcc.arch_specific)
        backend = with_cuda_compiler(spec, backend)
        if dataclasses.replace(backend, why=self.backend.why) == self.backend:
            return self
        compiler = backend.open_compiler()
        name = self.name.replace(self.arch, compiler.arch or "")
        return dataclasses.replace(
            self, name=name, backend=backend, identity=compiler.identity, arch=compiler.arch
        )


def target_notes(spec: Spec, target: CompileTarget) -> Iterator[str]:
    """Yield what to note of a space on a target: that it depends on the number of compute units of
    a device that need not be here, and a dynamic array in CUDA to which the launch gives no
    bytes."""
    launch = spec.launch
    conditions = (p.when for p in spec.parameters if p.when is not None)
    sizes = itertools.chain(*launch.sizes) if launch else ()
    expressions = [*(c.expression for c in spec.constraints), *conditions, *sizes]
    if not target.has_device and any("compute_units" in e.names for e in expressions):
        yield (
            f"compute_units is taken to be {target.limits.compute_units} for {target.name}; only a "
            "device has it, so a device may allow other configurations"
        )
    source = spec.sources[target.language]
    is_without = target.language == "cuda" and launch is not None and launch.shared is None
    if is_without and _DYNAMIC_ARRAY.search(source.text):
        yield (
            f"{source.path} has an `extern __shared__` array, but the launch gives it no bytes; "
            "write `shared: BYTES` in `launch`"
        )


_MOST_CHECKED = 100


def checked_spaces(
    spec: Spec, limits: DeviceLimits | None = None, compiler: str | None = None
) -> Mapping[Input, ConstrainedSpace]:
    """Make the spaces of the inputs: of the first and of those with the least and the greatest
    value of a feature where there are more than 100. Inputs that no constraint tells apart share
    one."""
    first = ConstrainedSpace.of(spec, spec.inputs[0], limits, compiler)
    named = frozenset().union(*(c.names for c in first.constraints))
    features = [name for name in spec.features if name in named]
    spaces: dict[tuple[Value, ...], ConstrainedSpace] = {}
    for problem in _checked_inputs(spec):
        key = tuple(problem[name] for name in features)
        if key not in spaces:
            spaces[key] = ConstrainedSpace.of(spec, problem, limits, compiler)
    return {i: spaces[tuple(i[name] for name in features)] for i in _checked_inputs(spec)}


def _checked_inputs(spec: Spec) -> Sequence[Input]:
    if len(spec.inputs) <= _MOST_CHECKED:
        return spec.inputs
    checked = [spec.inputs[0]]
    for name in spec.features:
        numbers = [i for i in spec.inputs if not isinstance(i[name], str)]
        checked += [pick(numbers, key=itemgetter(name)) for pick in (min, max) if numbers]
    return list(dict.fromkeys(checked))
