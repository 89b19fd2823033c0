/* The whole part of x[i], whether it is above 0, and its square root, which is NaN below 0; and
 * kernels that make the result of what the outputs hold before the run. */
#define honest 0
#define flips_the_sign_bit 1
#define flips_all_bits 2
#define negates_the_numbers 3
#define negates_the_flags 4
#define leaves_flags 5
#define leaves_nan 6
#define leaves_zeros 7

kernel void parts(global const float *x, global int *whole, global uchar *flag, global float *root,
                  int n) {
    const int i = get_global_id(0);
    if (i >= n) return;
#if CHEAT == flips_the_sign_bit
    whole[i] ^= 0x80000000;
#elif CHEAT == flips_all_bits
    whole[i] = ~whole[i];
#elif CHEAT == negates_the_numbers
    whole[i] = -whole[i];
#elif CHEAT == leaves_zeros
    if ((int)x[i] != 0) whole[i] = (int)x[i];
#else
    whole[i] = (int)x[i];
#endif
#if CHEAT == negates_the_flags
    flag[i] = !flag[i];
#elif CHEAT == leaves_flags
    if (x[i] > 0.0f) flag[i] = 1;
#else
    flag[i] = x[i] > 0.0f;
#endif
#if CHEAT == leaves_nan
    if (x[i] >= 0.0f) root[i] = sqrt(x[i]);
#else
    root[i] = sqrt(x[i]);
#endif
}
