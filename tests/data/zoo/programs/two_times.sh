# It reports a second, shorter time.
. "$(dirname "$0")/common.sh"
compute
spend 0.1
report 0.1
report 0.001
