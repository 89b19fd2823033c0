"""Checks what a program of the zoo writes with a seed."""


def check(run):
    for i in range(1, 9):
        line = f"{i} {i * i * 7 + run.seed} third 0.333333333"
        if line not in run.stdout.splitlines():
            return f"`{line}` is not there"
