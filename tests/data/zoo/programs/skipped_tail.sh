# It leaves out the last lines.
. "$(dirname "$0")/common.sh"
compute | head -n 6
spend 0.02
report 0.02
