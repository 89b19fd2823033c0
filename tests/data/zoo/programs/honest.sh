# The default: it does all its work, and reports the time of it.
. "$(dirname "$0")/common.sh"
spend 0.01
compute
spend 0.1
report 0.1
