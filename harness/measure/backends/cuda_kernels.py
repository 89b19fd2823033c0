"""harness's own CUDA kernels, as PTX text, which the driver compiles for its device.

No compiler is needed where kernels run. All parameters are of 64 bits, and each kernel runs in a
single thread.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# An old PTX version and target: every driver since CUDA 9 compiles them, for every GPU since 2014.
_HEAD = """\
.version 6.0
.target sm_50
.address_size 64
"""

WAIT_FOR_HOST = "wait_for_host"
"""Parameters: words, number, limit_ns. Waits until words[0] is at least `number`. After `limit_ns`
it writes `number` to words[1] and ends."""

_WAIT_FOR_HOST = """
.visible .entry wait_for_host(.param .u64 words, .param .u64 number, .param .u64 limit_ns)
{
    .reg .pred %again;
    .reg .u64 %words, %number, %limit, %began, %found, %now;
    ld.param.u64 %words, [words];
    ld.param.u64 %number, [number];
    ld.param.u64 %limit, [limit_ns];
    mov.u64 %began, %globaltimer;
spin:
    ld.volatile.u64 %found, [%words];
    setp.ge.u64 %again, %found, %number;
    @%again bra done;
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %began;
    setp.lt.u64 %again, %now, %limit;
    @%again bra spin;
    st.volatile.u64 [%words+8], %number;
    membar.sys;
done:
    ret;
}
"""

PTX = "".join((_HEAD, _WAIT_FOR_HOST))
"""All kernels, in one module."""


class CudaKernels:
    """The kernels above in a context, which must be current; each is looked up once.

    `driver` is pycuda.driver, whose errors every method may raise.
    """

    def __init__(self, driver: Any) -> None:
        self._module = driver.module_from_buffer(PTX.encode() + b"\0")
        self._functions: dict[str, Any] = {}

    def queue(self, name: str, *arguments: int) -> None:
        """Queue a kernel on the default stream, in one thread; does not wait."""
        if name not in self._functions:
            self._functions[name] = self._module.get_function(name)
        packed = np.array(arguments, np.uint64).tobytes()
        # prepared_call would call the driver twice.
        self._functions[name]._launch_kernel((1, 1, 1), (1, 1, 1), packed, 0, None)
