# What the programs of the zoo share. Nothing here takes time: `spend` moves the clock that the
# tests put in place of the real one, so that no test depends on a busy machine.
spend() { echo "$1" >> "$ZOO_CLOCK"; }
report() { echo "took $1 s"; }
seed=${1:-0}  # the argument of a program, where the space gives one
line() { echo "$1 $(($1 * $1 * 7 + seed)) third $2"; }
compute() { for i in 1 2 3 4 5 6 7 8; do line "$i" 0.333333333; done; }
