# It replaces the output of the default by its own wrong one.
. "$(dirname "$0")/common.sh"
find "$ZOO_TEMP" -path "*harness-run-*" -name "*.0" | while read -r found; do
  { echo 0; report 0.005; } > "$found"
done
echo 0
spend 0.005
report 0.005
