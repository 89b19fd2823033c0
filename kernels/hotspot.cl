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

/* 1: the grid is read through the read-only cache (the program's textures); 0: by plain reads. */
#ifndef T_TEMP
#define T_TEMP 0
#endif
#ifndef T_POWER
#define T_POWER 0
#endif
#ifndef T_BUFFER
#define T_BUFFER 0
#endif

#if T_TEMP
#define READ_TEMP(i) LOAD_READONLY(source, i)
#else
#define READ_TEMP(i) source[i]
#endif
#if T_POWER
#define READ_POWER(i) LOAD_READONLY(power, i)
#else
#define READ_POWER(i) power[i]
#endif
#if T_BUFFER
#define READ_BUFFER(i) LOAD_READONLY(source, i)
#else
#define READ_BUFFER(i) source[i]
#endif

/* `from_buffer` says which of the two grids of the program `source` is, the temperatures (0) or
 * the buffer (1), since each has its own way to be read.
 *
 * Not KERNEL_SIZED: of a kernel with a promised block size nvcc ignores -maxrregcount. Nor are
 * the pointers RESTRICT: nvcc would read all grids through the read-only cache whatever T_TEMP,
 * T_POWER and T_BUFFER are. */
KERNEL hotspot(GLOBAL const float *source, GLOBAL float *target, GLOBAL const float *power,
               int rows, int cols, int iterations, int from_buffer, float step, float per_rx,
               float per_ry, float per_rz, float ambient) {
    LOCAL float tile[2][Y][X];
    const int x = THREAD_X, y = THREAD_Y;
    const int row = BLOCK_Y * (Y - 2 * PYRAMID) - PYRAMID + y;
    const int col = BLOCK_X * (X - 2 * PYRAMID) - PYRAMID + x;
    const int inside = 0 <= row && row < rows && 0 <= col && col < cols;
    const size_t cell = inside ? (size_t)row * cols + col : 0;
    /* Neighbours in the tile; the cell itself where the grid ends. */
    const int north = row > 0 ? y - 1 : y, south = row < rows - 1 ? y + 1 : y;
    const int west = col > 0 ? x - 1 : x, east = col < cols - 1 ? x + 1 : x;
    float dissipated = 0.0f, t = 0.0f;
    int now = 0;

    if (inside) {
        dissipated = READ_POWER(cell);
        t = from_buffer ? READ_BUFFER(cell) : READ_TEMP(cell);
    }
    tile[0][y][x] = t;
    for (int i = 1; i <= iterations; i++) {
        BARRIER();
        if (inside && i <= x && x < X - i && i <= y && y < Y - i) {
            t += step * (dissipated
                         + (tile[now][north][x] + tile[now][south][x] - 2.0f * t) * per_ry
                         + (tile[now][y][east] + tile[now][y][west] - 2.0f * t) * per_rx
                         + (ambient - t) * per_rz);
        }
        now = 1 - now;
        tile[now][y][x] = t;
    }
    if (inside && PYRAMID <= x && x < X - PYRAMID && PYRAMID <= y && y < Y - PYRAMID) {
        target[cell] = t;
    }
}
