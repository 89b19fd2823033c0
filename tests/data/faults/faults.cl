/* y = 2 x and z = i - 1, and everything that a kernel can do wrong on the way.
 *
 * FAULT chooses what goes wrong. `spare` should stay 0. */
#define none 0
#define wrong_element 1
#define unwritten 2
#define unwritten_integer 3
#define wrong_later 4
#define hang 5
#define null_write 6
#define trap 7
#define build_error 8
#define local_memory 9
#define group_size 10
#define spoil_input 11
#define spoil_spare 12
#define read_spare 13
#define overrun 14
#define overrun_far 15

#include "faults.h"

#if FAULT == group_size
#define SIZED __attribute__((reqd_work_group_size(2 * BLOCK, 1, 1)))
#else
#define SIZED
#endif

kernel SIZED void faults(global float *x, global float *y, global int *z,
                         global float *spare, int n) {
    const int i = get_global_id(0);
#if FAULT == local_memory
    local float big[1 << 22];
    big[get_local_id(0)] = x[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    x[i] = big[get_local_id(0)];
#elif FAULT == hang
    for (volatile int forever = 1; forever && i == 0;) {}
#elif FAULT == null_write
    *(volatile global int *)0 = 1;
#elif FAULT == trap
    __builtin_trap();
#elif FAULT == build_error
    y[i] = undeclared;
#endif

    if (i >= n) return;
    if (FAULT != unwritten || i != 7) y[i] = TWICE(x[i]);
    if (FAULT != unwritten_integer || i != 0) z[i] = i - 1;

    if (FAULT == wrong_element && i == 5) y[i] += 1.0f;
#if FAULT == wrong_later
    global int *calls = z + n + 1; /* where no argument is */
    if (i == 0) calls[0] = max(calls[0], 0) + 1;
    if (calls[0] > 2) y[i] = -1.0f;
#endif
    if (FAULT == spoil_input) x[i] = 0.0f;
    if (FAULT == spoil_spare) spare[i] = 1.0f;
    if (FAULT == read_spare) y[i] += spare[i];
#if FAULT == overrun || FAULT == overrun_far
    y[i] += 1.0f;
    /* The far one ends where the memory around y does. */
    const int behind = FAULT == overrun ? 1670 : 4096;
    for (int k = 0; i == 0 && k < behind; ++k) y[n + k] = 1.0f;
#endif
}
