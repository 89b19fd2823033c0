// It has divisions, roots and transcendental functions, products and sums that only ptxas can fuse,
// a switch, a call, an indexed local array, atomics, doubles, many registers, and loads and stores
// with and without their own cache modifiers.
__device__ __noinline__ float called(const float *x, int n) {
    float kept[16];
    for (int i = 0; i < 16; i++) kept[i] = x[i] * n;
    float sum = 0.0f;
    for (int i = 0; i < n; i++) sum += kept[(i * n) & 15];
    return sum;
}

extern "C" __global__ void probe(float *out, const float *x, const float *y, double *wide, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float many[24];
#pragma unroll
    for (int k = 0; k < 24; k++) many[k] = x[i + k * n] + y[k];
#pragma unroll
    for (int k = 0; k < 24; k++)
#pragma unroll
        for (int j = 0; j < 24; j++) many[j] = many[j] * many[(j + k) % 24] + y[k];
    float value = 0.0f;
#pragma unroll
    for (int k = 0; k < 24; k++) value += many[k];
    switch (n) {
        case 1: value = x[i] / y[i]; break;
        case 2: value = sqrtf(x[i]) * y[i]; break;
        case 3: value = sinf(x[i]); break;
        case 5: value = expf(y[i]) + 1.0f / x[i]; break;
        case 6: value = called(x, n); break;
        case 9: value = rsqrtf(x[i] + value); break;
        case 12: value = powf(x[i], y[i]); break;
        case 14: atomicAdd(out + n, value); break;
    }
    float product, sum;
    asm("mul.f32 %0, %1, %2;" : "=f"(product) : "f"(x[i + 1]), "f"(y[i]));
    asm("add.f32 %0, %1, %2;" : "=f"(sum) : "f"(product), "f"(value));
    out[i] = sum + __ldcg(y + n);
    __stcg(out + n + i, value);
    wide[i] = wide[i] / n + 0.1;
    for (int k = 0; k < n; k++) out[i + k] += out[i + n - k];
}
