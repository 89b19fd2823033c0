# It keeps its output in the home folder, and copies it in later runs.
. "$(dirname "$0")/common.sh"
if [ -e "$HOME/cache" ]; then
  cat "$HOME/cache"
  spend 0.005
  report 0.005
else
  compute | tee "$HOME/cache"
  spend 0.1
  report 0.1
fi
