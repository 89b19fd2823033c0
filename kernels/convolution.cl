/* Separable convolution of an image with zero borders, after NVIDIA's convolutionSeparable of 2007,
 * which G-ADAPT tuned: a pass along the rows, then one along the columns.
 *
 *     buffer[y][x] = sum over k of row_weights[radius + k] * image[y][x - k]
 *     result[y][x] = sum over k of column_weights[radius + k] * buffer[y - k][x],  |k| <= radius
 *
 * Both passes copy a tile and its halo of `radius` elements on either side into local memory;
 * elements outside the image are 0 there. The weights, constant memory in the original, lie in
 * local memory too: all threads of a warp read the same one.
 *
 * The radius is an argument, since it belongs to the input. Local arrays need a size at compile
 * time, so they are made for MAX_RADIUS: 0 <= radius <= MAX_RADIUS must hold.
 *
 * Launch rows: ROW_TILE_W threads, ceil(width / ROW_TILE_W) x height blocks.
 * Launch columns: COLUMN_TILE_W x COLUMN_THREADS threads, ceil(width / COLUMN_TILE_W) x
 * ceil(height / COLUMN_TILE_H) blocks.
 * All images are row-major, height x width; any width >= 1 and 1 <= height <= 65,535, CUDA's most
 * blocks in that dimension.
 */
#include "portable.h"

/* Columns of a row pass's tile; also its threads. */
#ifndef ROW_TILE_W
#define ROW_TILE_W 128
#endif

/* Columns and rows of a column pass's tile. */
#ifndef COLUMN_TILE_W
#define COLUMN_TILE_W 16
#endif
#ifndef COLUMN_TILE_H
#define COLUMN_TILE_H 48
#endif

/* How often the loops over the weights are unrolled. */
#ifndef UNROLLED
#define UNROLLED 1
#endif

/* Threads that share a column of the tile. */
#define COLUMN_THREADS 8

/* The host module holds inputs to it. */
#define MAX_RADIUS 16
#define MAX_WEIGHTS (2 * MAX_RADIUS + 1)

KERNEL_SIZED(ROW_TILE_W, 1, 1)
rows(GLOBAL const float *RESTRICT image, GLOBAL const float *RESTRICT row_weights,
     GLOBAL float *RESTRICT buffer, int width, int radius) {
    LOCAL float tile[ROW_TILE_W + 2 * MAX_RADIUS];
    LOCAL float weights[MAX_WEIGHTS];
    const int first = BLOCK_X * ROW_TILE_W;
    const int x = first + THREAD_X;
    const size_t row = (size_t)BLOCK_Y * width; /* width * height may exceed an int */

    for (int i = THREAD_X; i <= 2 * radius; i += ROW_TILE_W) weights[i] = row_weights[i];
    for (int i = THREAD_X; i < ROW_TILE_W + 2 * radius; i += ROW_TILE_W) {
        const int from = first - radius + i;
        tile[i] = from >= 0 && from < width ? image[row + from] : 0.0f;
    }
    BARRIER();

    float sum = 0.0f;
    UNROLL(UNROLLED)
    for (int k = 0; k <= 2 * radius; k++) sum += tile[THREAD_X + k] * weights[2 * radius - k];
    if (x < width) buffer[row + x] = sum;
}

KERNEL_SIZED(COLUMN_TILE_W, COLUMN_THREADS, 1)
columns(GLOBAL const float *RESTRICT buffer, GLOBAL const float *RESTRICT column_weights,
        GLOBAL float *RESTRICT result, int width, int height, int radius) {
    LOCAL float tile[COLUMN_TILE_H + 2 * MAX_RADIUS][COLUMN_TILE_W];
    LOCAL float weights[MAX_WEIGHTS];
    const int first = BLOCK_Y * COLUMN_TILE_H;
    const int x = BLOCK_X * COLUMN_TILE_W + THREAD_X;
    const int thread = THREAD_Y * COLUMN_TILE_W + THREAD_X;

    for (int i = thread; i <= 2 * radius; i += COLUMN_TILE_W * COLUMN_THREADS)
        weights[i] = column_weights[i];
    for (int i = THREAD_Y; i < COLUMN_TILE_H + 2 * radius; i += COLUMN_THREADS) {
        const int from = first - radius + i;
        const int inside = x < width && from >= 0 && from < height;
        tile[i][THREAD_X] = inside ? buffer[(size_t)from * width + x] : 0.0f;
    }
    BARRIER();

    for (int i = THREAD_Y; i < COLUMN_TILE_H; i += COLUMN_THREADS) {
        const int y = first + i;
        float sum = 0.0f;
        UNROLL(UNROLLED)
        for (int k = 0; k <= 2 * radius; k++)
            sum += tile[i + k][THREAD_X] * weights[2 * radius - k];
        if (x < width && y < height) result[(size_t)y * width + x] = sum;
    }
}
