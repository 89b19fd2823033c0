// TAG is stored where no work-item comes, so that machine codes differ and times do not.
__kernel void equal(__global const float *x, __global float *y, int n)
{
    int i = get_global_id(0);
    if (i >= 0 && i < n) y[i] = 2.0f * x[i];
    if (i < 0) y[0] = TAG;
}
