/* Matrix transpose on a CPU: each work-item moves a band of rows.
 *
 * Row by row, each write goes to another row of the result: for wide matrices, a cache line is
 * gone before its next element comes. Tile by tile, the lines of a tile stay in the cache.
 */
#pragma values 0,4,8,16,32,64,128
#define TILE_X 0

#pragma values 0,4,8,16,32,64,128
#define TILE_Y 0

#define BAND 64 /* rows of a work-item */

__kernel void transpose_bands(__global const float *in, __global float *out, int width,
                              int height) {
    const int first = get_global_id(0) * BAND;
#pragma tile y:TILE_Y, x:TILE_X
    for (int y = first; y < min(first + BAND, height); y++)
        for (int x = 0; x < width; x++)
            out[(size_t)x * height + y] = in[(size_t)y * width + x];
}
