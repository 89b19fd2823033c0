/* A copy, and chains of fused multiply-adds: what a device moves and calculates at most.
 *
 * Each thread takes CHAINS elements through STEPS multiply-adds, of which each needs the one before
 * it. With p = -1 and q = 1 every second step gives the element back: so the output is the input,
 * whatever STEPS is. Without steps it is a copy, of elements a block's width apart, so that reads
 * coalesce. With them the elements are neighbours, which compilers for CPUs make vectors of.
 *
 * Launch: BLOCK threads, n / (BLOCK * CHAINS) blocks.
 */
#include "../../examples/kernels/portable.h"

#ifndef STEPS
#define STEPS 0
#endif
#ifndef CHAINS
#define CHAINS 4
#endif
#define BLOCK 256
#define STEPS_AT_ONCE 16
#if STEPS
#define FIRST CHAINS /* elements between those of two threads */
#define STRIDE 1
#else
#define FIRST 1
#define STRIDE BLOCK
#endif

KERNEL_SIZED(BLOCK, 1, 1)
peak(GLOBAL const float *RESTRICT a, GLOBAL float *RESTRICT b, float p, float q) {
    const size_t first = (size_t)BLOCK_X * BLOCK * CHAINS + THREAD_X * FIRST;
    float x[CHAINS];
    UNROLL(CHAINS)
    for (int k = 0; k < CHAINS; k++) x[k] = a[first + k * STRIDE];
    UNROLL(STEPS_AT_ONCE)
    for (int step = 0; step < STEPS; step++) {
        UNROLL(CHAINS)
        for (int k = 0; k < CHAINS; k++) x[k] = x[k] * p + q;
    }
    UNROLL(CHAINS)
    for (int k = 0; k < CHAINS; k++) b[first + k * STRIDE] = x[k];
}
