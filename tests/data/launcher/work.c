#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
    char line[100] = "";
    if (argc > 2 && strcmp(argv[2], "dies") == 0) raise(SIGPIPE);
    printf("%d %s\n", TILE, fgets(line, sizeof line, stdin) ? line : "");
    return argc > 2 ? atoi(argv[2]) : 0;
}
