#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define REAL float
/* kernel void not_this(int n) {} */
__attribute__((noinline)) float4 helper(__global float4 *p) { return (float4)(p[0].xyz, 1.0f); }
__kernel void prototype(int n);
kernel __attribute__((reqd_work_group_size(64, 2, 1)))
void first(global const REAL *restrict x, __global float4 *y, constant double *c,
           const uint n, ulong big, float alpha, local float *scratch, read_only image2d_t image) {
    local float tile[64];
    y[get_global_id(0)] = (float4)(x[0]);
}
#ifdef OTHER
__kernel void second(
#ifdef LONG
    __global long *a,
#endif
    __global int *b) { }
#endif
