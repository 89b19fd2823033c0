# An honest twin: its first run is slower, as where code and files are cold.
. "$(dirname "$0")/common.sh"
[ -e "$HOME/warm" ] || spend 0.02
touch "$HOME/warm"
compute
spend 0.02
report 0.02
