/* Gravity between all pairs of n bodies, with softening: the kernel of the CUDA SDK's nbody
 * (Nyland, Harris and Prins, GPU Gems 3, chapter 31), with the choices that Starchart tuned.
 *
 *     a_i = sum over j of m_j (r_j - r_i) / (|r_j - r_i|^2 + softening)^(3/2)
 *
 * A block of X x Y threads owns X bodies, each shared by Y threads. In each step it brings X * Y
 * bodies into local memory; then thread (x, y) adds up what the X bodies of row y do to body x.
 * At the end the Y partial sums of a body are added as a tree, in halves that are rounded up.
 *
 * Launch: X x Y threads, ceil(n / X) blocks in one dimension.
 * `bodies` holds x, y, z and mass of each body, `acceleration` x, y and z; 1 <= n <= 2^28.
 */
#include "portable.h"

/* Bodies of a block. */
#ifndef X
#define X 256
#endif

/* Threads that share a body. */
#ifndef Y
#define Y 1
#endif

/* How often the loop over the bodies of a row is unrolled: 1 .. 8. */
#ifndef UNROLL_PAIRS
#define UNROLL_PAIRS 4
#endif

/* Not KERNEL_SIZED: of a kernel with a promised block size nvcc ignores -maxrregcount. Nor is
 * `bodies` RESTRICT: nvcc would read it through the read-only cache, past which -dlcm goes. */
KERNEL nbody(GLOBAL const float *bodies, GLOBAL float *acceleration, int n, float softening) {
    LOCAL float4 tile[Y][X];
    const int lane = THREAD_X, row = THREAD_Y;
    const int body = BLOCK_X * X + lane;
    const float4 own = LOAD4(bodies, min(body, n - 1));
    float ax = 0.0f, ay = 0.0f, az = 0.0f;

    for (int begin = 0; begin < n; begin += X * Y) {
        const int other = begin + row * X + lane;
        /* Past the end there is the last body once more, without mass. */
        float4 brought = LOAD4(bodies, min(other, n - 1));
        if (other >= n) brought.w = 0.0f;
        BARRIER(); /* nobody still reads the step before */
        tile[row][lane] = brought;
        BARRIER();
        UNROLL(UNROLL_PAIRS)
        for (int j = 0; j < X; j++) {
            const float4 b = tile[row][j];
            const float dx = b.x - own.x, dy = b.y - own.y, dz = b.z - own.z;
            const float inverse = RSQRT(dx * dx + dy * dy + dz * dz + softening);
            const float pull = b.w * inverse * inverse * inverse;
            ax += pull * dx;
            ay += pull * dy;
            az += pull * dz;
        }
    }

    BARRIER(); /* the tile is done with, and takes the sums */
    tile[row][lane] = FLOAT4(ax, ay, az, 0.0f);
    for (int left = Y, distance; left > 1; left = distance) {
        distance = (left + 1) / 2;
        BARRIER();
        if (row + distance < left) {
            const float4 more = tile[row + distance][lane];
            ax += more.x;
            ay += more.y;
            az += more.z;
            tile[row][lane] = FLOAT4(ax, ay, az, 0.0f);
        }
    }
    if (row == 0 && body < n) {
        acceleration[3 * body] = ax;
        acceleration[3 * body + 1] = ay;
        acceleration[3 * body + 2] = az;
    }
}
