"""harness's own CUDA kernels, as PTX text, which the driver compiles for its device.

No compiler is needed where kernels run. All parameters are of 64 bits, and blocks have a single
thread.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.measure.cuda.calls import CudaDriver, LaunchShape

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

START_CLOCK = "start_clock"
"""Parameters: rows, most. In each block: waits until the time in nanoseconds has changed twice,
and writes the cycles of its multiprocessor and the time to words 0 and 1 of the multiprocessor's
row of four words. It ends two whole steps of the time after it began: what follows is not in step
with the time, unless it was before. Writes nothing after 8 million cycles, or where there is no
row."""

_START_CLOCK = """
.visible .entry start_clock(.param .u64 rows, .param .u64 most)
{
    .reg .pred %is;
    .reg .u32 %sm;
    .reg .u64 %rows, %most, %row, %began, %before, %first, %now, %cycles, %spent, %until;
    ld.param.u64 %rows, [rows];
    ld.param.u64 %most, [most];
    mov.u32 %sm, %smid;
    cvt.u64.u32 %row, %sm;
    setp.ge.u64 %is, %row, %most;
    @%is bra done;
    shl.b64 %row, %row, 5;
    add.u64 %row, %rows, %row;
    mov.u64 %began, %clock64;
    mov.u64 %before, %globaltimer;
one:
    mov.u64 %now, %globaltimer;
    mov.u64 %first, %clock64;
    sub.u64 %spent, %first, %began;
    setp.gt.u64 %is, %spent, 8000000;
    @%is bra done;
    setp.eq.u64 %is, %now, %before;
    @%is bra one;
    mov.u64 %before, %now;
two:
    mov.u64 %now, %globaltimer;
    mov.u64 %cycles, %clock64;
    sub.u64 %spent, %cycles, %began;
    setp.gt.u64 %is, %spent, 8000000;
    @%is bra done;
    setp.eq.u64 %is, %now, %before;
    @%is bra two;
    st.volatile.v2.u64 [%row], {%cycles, %now};
    sub.u64 %until, %cycles, %first;
    shl.b64 %until, %until, 1;
rest:
    mov.u64 %cycles, %clock64;
    sub.u64 %spent, %cycles, %began;
    setp.lt.u64 %is, %spent, %until;
    @%is bra rest;
done:
    ret;
}
"""

STOP_CLOCK = "stop_clock"
"""Parameters: rows, most, least_ns. As START_CLOCK, but waits until the time changes `least_ns` or
more after the time in word 1, writes to words 2 and 3, and ends at once."""

_STOP_CLOCK = """
.visible .entry stop_clock(.param .u64 rows, .param .u64 most, .param .u64 least_ns)
{
    .reg .pred %is;
    .reg .u32 %sm;
    .reg .u64 %rows, %most, %row, %until, %least, %began, %before, %now, %cycles, %spent;
    ld.param.u64 %rows, [rows];
    ld.param.u64 %most, [most];
    ld.param.u64 %least, [least_ns];
    mov.u32 %sm, %smid;
    cvt.u64.u32 %row, %sm;
    setp.ge.u64 %is, %row, %most;
    @%is bra done;
    shl.b64 %row, %row, 5;
    add.u64 %row, %rows, %row;
    ld.volatile.u64 %until, [%row+8];
    add.u64 %until, %until, %least;
    mov.u64 %began, %clock64;
    mov.u64 %now, %globaltimer;
next:
    mov.u64 %before, %now;
wait:
    mov.u64 %now, %globaltimer;
    mov.u64 %cycles, %clock64;
    sub.u64 %spent, %cycles, %began;
    setp.gt.u64 %is, %spent, 8000000;
    @%is bra done;
    setp.eq.u64 %is, %now, %before;
    @%is bra wait;
    setp.lt.u64 %is, %now, %until;
    @%is bra next;
    st.volatile.v2.u64 [%row+16], {%cycles, %now};
done:
    ret;
}
"""

PTX = "".join((_HEAD, _WAIT_FOR_HOST, _START_CLOCK, _STOP_CLOCK))
"""All kernels, in one module."""


class CudaKernels:
    """The kernels above in a driver's context; each is looked up once.

    Every method may raise the driver's errors.
    """

    def __init__(self, driver: CudaDriver) -> None:
        self._driver = driver
        self._module = driver.load(PTX.encode() + b"\0")
        self._functions: dict[str, Any] = {}

    def queue(self, name: str, *arguments: int, blocks: int = 1) -> None:
        """Queue a kernel on the default stream, in so many blocks; does not wait."""
        if name not in self._functions:
            self._functions[name] = self._driver.function(self._module, name)
        packed = np.array(arguments, np.uint64).tobytes()
        shape = LaunchShape((blocks, 1, 1), (1, 1, 1))
        self._driver.launch(self._functions[name], shape, packed)
