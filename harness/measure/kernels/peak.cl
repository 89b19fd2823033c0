/* A copy, and chains of fused multiply-adds: what a device moves and calculates at most.
 *
 * Each thread takes CHAINS elements, a block's width apart, through STEPS multiply-adds that
 * depend on each other. With p = -1 and q = 1 every second step gives the element back: so the
 * output is the input, whatever STEPS is. Without steps it is a copy.
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

KERNEL_SIZED(BLOCK, 1, 1)
peak(GLOBAL const float *RESTRICT a, GLOBAL float *RESTRICT b, float p, float q) {
    const size_t first = (size_t)BLOCK_X * BLOCK * CHAINS + THREAD_X;
    float x[CHAINS];
    UNROLL(CHAINS)
    for (int k = 0; k < CHAINS; k++) x[k] = a[first + k * BLOCK];
    UNROLL(STEPS_AT_ONCE)
    for (int step = 0; step < STEPS; step++) {
        UNROLL(CHAINS)
        for (int k = 0; k < CHAINS; k++) x[k] = x[k] * p + q;
    }
    UNROLL(CHAINS)
    for (int k = 0; k < CHAINS; k++) b[first + k * BLOCK] = x[k];
}
