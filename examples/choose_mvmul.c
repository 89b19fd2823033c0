/* Print the configuration of mvmul for an input and its launch; needs no OpenCL and no library.
 *
 *     python -m harness dispatch results/mvmul.db -o out/
 *     cc -std=c99 -Iout examples/choose_mvmul.c -o choose_mvmul
 *     ./choose_mvmul 4096 512
 */
#include <stdio.h>
#include <stdlib.h>

#include "mvmul.h"

int main(int count, char **words) {
    if (count != 3) {
        fprintf(stderr, "usage: %s ROWS COLUMNS\n", words[0]);
        return 2;
    }
    const int64_t m = strtoll(words[1], NULL, 10), n = strtoll(words[2], NULL, 10);
    const int chosen = mvmul_select(m, n);
    size_t group[MVMUL_DIMENSIONS], grid[MVMUL_DIMENSIONS];
    if (chosen < 0 || mvmul_launch(chosen, m, n, group, grid) != 0) {
        fprintf(stderr, "no configuration applies to %s x %s\n", words[1], words[2]);
        return 1;
    }
    const mvmul_config *config = &mvmul_portfolio[chosen];
    printf("THRD=%d LU=%d X_CACHE=%d", config->THRD, config->LU, config->X_CACHE);
    printf(" group=%zux%zu grid=%zux%zu\n", group[0], group[1], grid[0], grid[1]);
    printf("%s %s\n", mvmul_kernels[chosen].file, mvmul_kernels[chosen].options);
    return 0;
}
