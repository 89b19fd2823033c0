#define right 0
#define wrong 1
#define broken 2
#if VARIANT == broken
#error "this variant does not compile"
#endif
__kernel void scale(__global float *y, __global const float *x, float a, int n)
{
    int i = get_global_id(0);
    if (i < n)
        y[i] = a * x[i] + (VARIANT == wrong);
}
