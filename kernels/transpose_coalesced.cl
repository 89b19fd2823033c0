/* Matrix transpose through a tile of local memory: the CUDA SDK's coalesced transpose, as G-ADAPT
 * tuned it.
 *
 * A block reads a square tile along the rows of `in`, and writes it along the rows of `out`:
 * neighbouring threads touch neighbouring addresses both times, and the turn happens in local
 * memory.
 *
 * Launch: BLOCK x BLOCK threads, ceil(width / BLOCK) x ceil(height / BLOCK) blocks.
 * `in` has `height` rows of `width` elements, `out` the reverse; both are row-major.
 */
#include "portable.h"

/* The side of the tile and of the block. */
#ifndef BLOCK
#define BLOCK 16
#endif

KERNEL_SIZED(BLOCK, BLOCK, 1)
transpose_coalesced(GLOBAL const float *RESTRICT in, GLOBAL float *RESTRICT out, int width,
                    int height) {
    /* One column more than is used: the elements of one column then lie in different banks. */
    LOCAL float tile[BLOCK][BLOCK + 1];
    const int left = BLOCK_X * BLOCK, top = BLOCK_Y * BLOCK;
    const int x = left + THREAD_X, y = top + THREAD_Y;
    if (x < width && y < height) tile[THREAD_Y][THREAD_X] = in[(size_t)y * width + x];
    BARRIER();

    /* In the result the tile lies across the diagonal: its rows are columns of `in`. */
    const int row = left + THREAD_Y, column = top + THREAD_X;
    if (row < width && column < height) {
        out[(size_t)row * height + column] = tile[THREAD_X][THREAD_Y];
    }
}
