#pragma erange 64,512,2
#define BLKSZ 256

// A guarded macro, as this project's own kernels have it.
#pragma range 1,4
#ifndef ITEMS
#define ITEMS 1
#endif

#pragma constraint BLKSZ * ITEMS <= 1024

extern "C" __global__ void scale(const float *__restrict__ x, float *y, unsigned int n) {
    unsigned int i = blockIdx.x * BLKSZ * ITEMS + threadIdx.x;
#pragma unroll_range 1,4
#pragma unroll 2
    for (int k = 0; k < ITEMS; k++, i += BLKSZ)
        if (i < n) y[i] = 2.0f * x[i];
}
