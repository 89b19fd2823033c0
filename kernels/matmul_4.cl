/* Square matrix product, C = A B, through local memory with coalesced loads.
 * The fourth of four matrix products whose nvcc flags were tuned with OpenTuner (2015).
 *
 * Each block computes one tile of C from tiles of A and B that it brings into local memory, zero
 * where they overhang. Threads that are neighbours in x bring neighbouring elements of a row.
 *
 * Launch: BLOCK x BLOCK threads, ceil(n / BLOCK) x ceil(n / BLOCK) blocks.
 * All matrices are row-major, n x n.
 */
#include "portable.h"

/* The side of the block and of the tiles. */
#ifndef BLOCK
#define BLOCK 16
#endif

/* What the compiler makes of this text is what is tuned, so that the text leaves it free: no
 * promised block size (of such a kernel nvcc ignores -maxrregcount), no RESTRICT (which is what
 * --restrict adds), no unrolling. */
KERNEL matmul_4(GLOBAL const float *A, GLOBAL const float *B, GLOBAL float *C, int n) {
    LOCAL float a[BLOCK][BLOCK];
    LOCAL float b[BLOCK][BLOCK];
    const int tx = THREAD_X, ty = THREAD_Y;
    const int top = BLOCK_Y * BLOCK, left = BLOCK_X * BLOCK;
    /* The element of each tile that this thread brings. */
    const int down = ty, across = tx;
    float sum = 0.0f;

    for (int begin = 0; begin < n; begin += BLOCK) {
        const int in_a = top + down < n && begin + across < n;
        const int in_b = begin + down < n && left + across < n;
        a[down][across] = in_a ? A[(size_t)(top + down) * n + begin + across] : 0.0f;
        b[down][across] = in_b ? B[(size_t)(begin + down) * n + left + across] : 0.0f;
        BARRIER();
        for (int k = 0; k < BLOCK; k++) sum += a[ty][k] * b[k][tx];
        BARRIER(); /* nobody still reads the tiles */
    }
    if (top + ty < n && left + tx < n) C[(size_t)(top + ty) * n + left + tx] = sum;
}
