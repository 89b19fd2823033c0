# It writes zeros.
. "$(dirname "$0")/common.sh"
for i in 1 2 3 4 5 6 7 8; do echo "$i 0 third 0"; done
spend 0.005
report 0.005
