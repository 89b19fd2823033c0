/* The temperature of a chip whose cells dissipate power, some iterations a launch: Rodinia's
 * hotspot, with the choices that Starchart tuned.
 *
 *     t' = t + step (power + (north + south - 2 t) per_ry + (east + west - 2 t) per_rx
 *                    + (ambient - t) per_rz)
 *
 * A neighbour past the border is the cell itself. A block of X x Y threads brings as many cells
 * into local memory, a thread one cell, and takes up to PYRAMID iterations there. Each iteration
 * leaves the cells at the block's own rim without a neighbour, so what is right shrinks by one
 * cell a side, two across; the cells that PYRAMID iterations leave right are written.
 *
 * Three arrays lie in local memory: the temperatures, the power, and the buffer that takes the
 * temperatures of an iteration until all threads have read those before.
 *
 * Launch: X x Y threads, ceil(cols / (X - 2 PYRAMID)) x ceil(rows / (Y - 2 PYRAMID)) blocks.
 * All grids are row-major, rows x cols, with 1 <= cols <= 2^30, and as many rows as 65,535 blocks
 * hold, CUDA's most; 1 <= iterations <= PYRAMID.
 */
#include "portable.h"

/* The block: X threads along a row, Y along a column. */
#ifndef X
#define X 16
#endif
#ifndef Y
#define Y 16
#endif

/* Iterations of a launch, the last launch's apart: below X / 2 and Y / 2. */
#ifndef PYRAMID
#define PYRAMID 2
#endif

/* How the temperatures, the power and the buffer lie in local memory. 0: as in the grid,
 * neighbours along a row side by side; 1: transposed, neighbours along a column side by side. */
#ifndef T_TEMP
#define T_TEMP 0
#endif
#ifndef T_POWER
#define T_POWER 0
#endif
#ifndef T_BUFFER
#define T_BUFFER 0
#endif

#define PLAIN(row, col) ((row) * X + (col))
#define TRANSPOSED(row, col) ((col) * Y + (row))
#if T_TEMP
#define TEMP(row, col) temp[TRANSPOSED(row, col)]
#else
#define TEMP(row, col) temp[PLAIN(row, col)]
#endif
#if T_POWER
#define POWER(row, col) dissipated[TRANSPOSED(row, col)]
#else
#define POWER(row, col) dissipated[PLAIN(row, col)]
#endif
#if T_BUFFER
#define BUFFER(row, col) buffer[TRANSPOSED(row, col)]
#else
#define BUFFER(row, col) buffer[PLAIN(row, col)]
#endif

/* Not KERNEL_SIZED: of a kernel with a promised block size nvcc ignores -maxrregcount. Nor are
 * the pointers RESTRICT: nvcc would read through the read-only cache, past which -dlcm goes. */
KERNEL hotspot(GLOBAL const float *source, GLOBAL float *target, GLOBAL const float *power,
               int rows, int cols, int iterations, float step, float per_rx, float per_ry,
               float per_rz, float ambient) {
    LOCAL float temp[X * Y];
    LOCAL float dissipated[X * Y];
    LOCAL float buffer[X * Y];
    const int x = THREAD_X, y = THREAD_Y;
    const int row = BLOCK_Y * (Y - 2 * PYRAMID) - PYRAMID + y;
    const int col = BLOCK_X * (X - 2 * PYRAMID) - PYRAMID + x;
    const int inside = 0 <= row && row < rows && 0 <= col && col < cols;
    const size_t cell = inside ? (size_t)row * cols + col : 0;
    /* Neighbours in the tile; the cell itself where the grid ends. */
    const int north = row > 0 ? y - 1 : y, south = row < rows - 1 ? y + 1 : y;
    const int west = col > 0 ? x - 1 : x, east = col < cols - 1 ? x + 1 : x;

    TEMP(y, x) = inside ? source[cell] : 0.0f;
    POWER(y, x) = inside ? power[cell] : 0.0f;
    for (int i = 1; i <= iterations; i++) {
        const int is_right = inside && i <= x && x < X - i && i <= y && y < Y - i;
        BARRIER();
        if (is_right) {
            const float t = TEMP(y, x);
            BUFFER(y, x) = t + step * (POWER(y, x)
                                       + (TEMP(north, x) + TEMP(south, x) - 2.0f * t) * per_ry
                                       + (TEMP(y, east) + TEMP(y, west) - 2.0f * t) * per_rx
                                       + (ambient - t) * per_rz);
        }
        BARRIER(); /* nobody still reads the temperatures before */
        if (is_right) TEMP(y, x) = BUFFER(y, x);
    }
    if (inside && PYRAMID <= x && x < X - PYRAMID && PYRAMID <= y && y < Y - PYRAMID) {
        target[cell] = TEMP(y, x);
    }
}
