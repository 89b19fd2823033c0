# An honest twin: something on the machine slows its first run down.
. "$(dirname "$0")/common.sh"
compute
if [ -e "$HOME/ran" ]; then
  spend 0.0565
  report 0.0565
else
  touch "$HOME/ran"
  spend 0.1000
  report 0.1000
fi
