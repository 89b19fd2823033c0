echo "$@"
echo "THREADS=$THREADS N=$N FIXED=$FIXED"
