# An honest twin: 3 times as fast, with more work before and after what is timed.
. "$(dirname "$0")/common.sh"
spend 0.02
compute
spend 0.033
report 0.033
