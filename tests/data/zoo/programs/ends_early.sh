# It ends early with exit status 0.
. "$(dirname "$0")/common.sh"
spend 0.001
report 0.001
