/* Record the inputs that a program calls mvmul with, for the next tuning:
 *
 *     python -m harness dispatch results/mvmul.db -o out/
 *     cc -std=c99 -Iout examples/record_mvmul.c -o record_mvmul
 *     ./record_mvmul mvmul.csv 4096 512 64 64 4096 512
 *     python -m harness.tune spaces/mvmul.yaml --inputs-from mvmul.csv
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static FILE *calls;

/* Called by mvmul_select() and mvmul_fallback(): a line is one call. */
#define HARNESS_ON_SELECT(name, chosen, m, n) \
    fprintf(calls, "%" PRId64 ",%" PRId64 ",1,%d\n", m, n, chosen)

#include "mvmul.h"

int main(int count, char **words) {
    calls = count < 2 ? NULL : fopen(words[1], "w");
    if (calls == NULL) {
        fprintf(stderr, "usage: %s FILE [ROWS COLUMNS]...\n", words[0]);
        return 2;
    }
    fprintf(calls, "m,n,calls,choice\n");
    for (int i = 2; i + 1 < count; i += 2)
        mvmul_select(strtoll(words[i], NULL, 10), strtoll(words[i + 1], NULL, 10));
    return fclose(calls) != 0;
}
