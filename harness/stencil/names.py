"""Check names of inputs, functions and parameters against C, OpenCL C, CUDA C and our kernels."""

from __future__ import annotations

import re

from harness.stencil.types import StencilError

_WORDS = """
alignas alignof and asm auto bitand bitor bool break case catch char class compl const constant
constexpr continue decltype default delete do double dynamic_cast else enum event_t explicit export
extern false float for friend generic global goto half if image1d_t image2d_t image3d_t inline int
kernel local long main mutable namespace new noexcept not not_eq nullptr operator or or_eq pipe
printf private protected ptrdiff_t public read_only read_write register reinterpret_cast restrict
return sampler_t short signed size_t sizeof static static_assert static_cast struct switch template
this thread_local throw true try typedef typeid typename uchar uint ulong union unsigned ushort
using virtual void volatile wchar_t while write_only xor xor_eq
blockDim blockIdx gridDim threadIdx warpSize COARSENING INFINITY NAN VARIANT
result max min mirror
"""
# Functions of OpenCL C, which cannot be redefined.
_FUNCTIONS = """
abs acos acosh all any asin asinh atan atan2 atanh barrier bitselect cbrt ceil clamp copysign cos
cosh cross degrees distance dot erf erfc exp exp10 exp2 expm1 fabs fdim floor fma fmax fmin fmod
fract frexp hypot ilogb isequal isfinite isgreater isinf isless isnan isnormal ldexp length lgamma
log log10 log1p log2 logb mad mix modf nan nextafter normalize pow pown powr prefetch radians
remainder remquo rint rootn round rsqrt select shuffle sign signbit sin sincos sinh sinpi
smoothstep sqrt step tan tanh tgamma trunc
"""
_TAKEN = re.compile(
    "|".join(_WORDS.split()) + r"|(global|group|local)_[xyz]|LOCAL_[XYZ]|get_\w+|__\w+"
    r"|(u?(char|short|int|long)|half|float|double)\d+"
)


def check_name(name: str, where: str, is_function: bool = False) -> None:
    """Raise StencilError, beginning with `where`, if a kernel cannot use the name."""
    is_name = re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII)
    if not is_name or _TAKEN.fullmatch(name) or (is_function and name in _FUNCTIONS.split()):
        raise StencilError(
            f"{where}: {name!r} is not a valid name, or kernels already use it; choose another"
        )
