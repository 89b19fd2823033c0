/* A header that fixes what a space tunes. */
#define UNROLL 2
