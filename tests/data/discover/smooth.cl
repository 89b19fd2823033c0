/* A running mean of WIDTH values: y[i] = mean of x[i .. i + WIDTH - 1]. */
#pragma erange 64,512,2
#define BLKSZ 256

#pragma select direct, cached
#ifndef READS
#define READS direct
#endif

#pragma constraint BLKSZ * CHUNK <= 1024
#pragma values 1, 2, 4
#define CHUNK 1 /* results of one work-item */

#define WIDTH 16

#define direct 1
#define cached 2

__kernel void smooth(__global const float *restrict x, __global float *restrict y, const int n) {
    __local float piece[BLKSZ * CHUNK + WIDTH];
    const int first = get_group_id(0) * BLKSZ * CHUNK;
#if READS == cached
    for (int k = get_local_id(0); k < BLKSZ * CHUNK + WIDTH; k += BLKSZ)
        piece[k] = first + k < n + WIDTH ? x[first + k] : 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    for (int c = 0; c < CHUNK; c++) {
        const int at = c * BLKSZ + get_local_id(0);
        float sum = 0.0f;
#pragma unroll_range 1, 8
        for (int k = 0; k < WIDTH; k++) {
#if READS == cached
            sum += piece[at + k];
#else
            sum += first + at < n ? x[first + at + k] : 0.0f;
#endif
        }
        if (first + at < n) y[first + at] = sum / WIDTH;
    }
}
