# It computes with fewer digits than the default.
. "$(dirname "$0")/common.sh"
for i in 1 2 3 4 5 6 7 8; do line "$i" 0.3333; done
spend 0.05
report 0.05
