#define BOTH const float *x, float *y

extern "C" __global__ void twice(BOTH)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = 2 * x[i];
}

extern "C" __global__ void stray(BOTH)
{
    y[(1ull << 40) + threadIdx.x] = x[0];
}

extern "C" __global__ void misaligned(BOTH)
{
    *(double *)((char *)y + 1) = x[0];
}

extern "C" __global__ void trap(BOTH)
{
    asm volatile("trap;");
}

extern "C" __global__ void hang(BOTH)
{
    for (volatile int forever = 1; forever;) {}
}
