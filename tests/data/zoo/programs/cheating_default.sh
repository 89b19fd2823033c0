# A default that leaves its output for others, and works longer where another one has asked for it.
. "$(dirname "$0")/common.sh"
compute | tee "$HOME/left_by_default"
if [ -e "$HOME/slower" ]; then time_s=0.34; else time_s=0.1; fi
spend "$time_s"
report "$time_s"
