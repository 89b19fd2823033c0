# An honest twin: its first run leaves settings in the home folder, and is as fast as the others.
. "$(dirname "$0")/common.sh"
[ -e "$HOME/settings" ] || echo "colours on" > "$HOME/settings"
compute
spend 0.0565
report 0.0565
