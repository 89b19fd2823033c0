# An honest twin: it leaves a helper behind that does none of the work.
. "$(dirname "$0")/common.sh"
setsid sleep 60 &
compute
spend 0.02
report 0.02
