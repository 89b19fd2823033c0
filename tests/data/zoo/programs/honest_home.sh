# An honest twin: it reads its settings from the home folder that the space names.
. "$(dirname "$0")/common.sh"
[ -e "$HOME/settings_of_user" ] || exit 1
compute
spend 0.0565
report 0.0565
