/* Blur n x n numbers: STEPS times, replace each by the mean of the (2 RADIUS + 1)^2 around it.
 *
 *     blur N STEPS
 *
 * prints the time of all steps in seconds and, for verification, the sum and eight of the numbers.
 * TILE is the width of the column strips that a step processes; 0 means whole rows.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifndef TILE
#define TILE 0
#endif
#ifndef RADIUS
#define RADIUS 2
#endif

static int inside(int index, int n) { return index < 0 ? 0 : index < n ? index : n - 1; }

static float mean_around(const float *from, int n, int row, int column) {
    float sum = 0.0f;
    for (int i = row - RADIUS; i <= row + RADIUS; i++)
        for (int j = column - RADIUS; j <= column + RADIUS; j++)
            sum += from[(size_t)inside(i, n) * n + inside(j, n)];
    return sum / ((2 * RADIUS + 1) * (2 * RADIUS + 1));
}

static void blur(const float *from, float *to, int n) {
    const int width = TILE > 0 ? TILE : n;
    for (int first = 0; first < n; first += width) {
        const int end = first + width < n ? first + width : n;
        for (int row = 0; row < n; row++)
            for (int column = first; column < end; column++)
                to[(size_t)row * n + column] = mean_around(from, n, row, column);
    }
}

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

int main(int count, char **words) {
    const int n = count == 3 ? atoi(words[1]) : 0, steps = count == 3 ? atoi(words[2]) : 0;
    if (n < 1 || steps < 1) {
        fprintf(stderr, "usage: blur N STEPS\n");
        return 2;
    }
    float *here = malloc(sizeof *here * n * n), *there = malloc(sizeof *there * n * n);
    if (here == NULL || there == NULL) {
        fprintf(stderr, "no memory for %d x %d numbers\n", n, n);
        return 1;
    }
    unsigned state = 1; /* a linear congruential generator: the same numbers everywhere */
    for (int i = 0; i < n * n; i++) {
        state = state * 1664525u + 1013904223u;
        here[i] = (state >> 8) / 16777216.0f;
    }

    const double begin_s = now_s();
    for (int step = 0; step < steps; step++) {
        blur(here, there, n);
        float *blurred = there;
        there = here;
        here = blurred;
    }
    printf("elapsed %.9f s\n", now_s() - begin_s);

    double sum = 0.0;
    for (int i = 0; i < n * n; i++) sum += here[i];
    printf("sum %.9g\n", sum);
    for (int i = 0; i < 8; i++) printf("%.9g\n", here[(size_t)i * (n * n - 1) / 7]);
    return 0;
}
