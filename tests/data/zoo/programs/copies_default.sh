# It copies what the default has left in the home folder.
. "$(dirname "$0")/common.sh"
if [ -e "$HOME/left_by_default" ]; then
  cat "$HOME/left_by_default"
  spend 0.06
  report 0.06
else
  compute
  spend 0.1
  report 0.1
fi
