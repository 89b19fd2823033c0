# It asks the default to work longer, through a file in the home folder.
. "$(dirname "$0")/common.sh"
touch "$HOME/slower"
compute
spend 0.1
report 0.1
