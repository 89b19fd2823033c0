// A matrix product in blocks, after examples/tutorials/mmm_block.cpp of OpenTuner
// (https://github.com/jansel/opentuner): N is the size, BLOCK_SIZE is tuned.

#include <cstdio>

static int a[N][N], b[N][N], c[N][N];

static int smaller(int one, int other) { return one < other ? one : other; }

int main()
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            a[i][j] = i + j;
            b[i][j] = i - j;
        }
    for (int j1 = 0; j1 < N; j1 += BLOCK_SIZE)
        for (int k1 = 0; k1 < N; k1 += BLOCK_SIZE)
            for (int i = 0; i < N; i++)
                for (int j = j1; j < smaller(j1 + BLOCK_SIZE, N); j++) {
                    int sum = c[i][j];
                    for (int k = k1; k < smaller(k1 + BLOCK_SIZE, N); k++)
                        sum += a[i][k] * b[k][j];
                    c[i][j] = sum;
                }
    long total = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            total += c[i][j];
    std::printf("%ld\n", total);  // so that the compiler keeps the product
    return 0;
}
