/* Matrix transpose, straight from global memory to global memory: the CUDA SDK's naive
 * transpose, as G-ADAPT tuned it.
 *
 * Each thread moves one element. Threads that are neighbours in x read neighbouring elements of
 * a row, and write them into neighbouring rows of the result: reads coalesce, writes do not. The
 * shape of the block decides how many of a memory transaction's bytes are used.
 *
 * Launch: BLOCK x BLOCK threads, ceil(width / BLOCK) x ceil(height / BLOCK) blocks.
 * `in` has `height` rows of `width` elements, `out` the reverse; both are row-major.
 */
#include "portable.h"

/* The side of the block. */
#ifndef BLOCK
#define BLOCK 16
#endif

KERNEL_SIZED(BLOCK, BLOCK, 1)
transpose(GLOBAL const float *RESTRICT in, GLOBAL float *RESTRICT out, int width, int height) {
    const int x = BLOCK_X * BLOCK + THREAD_X;
    const int y = BLOCK_Y * BLOCK + THREAD_Y;
    /* width * height may exceed an int */
    if (x < width && y < height) out[(size_t)x * height + y] = in[(size_t)y * width + x];
}
