# Prints much, then which function lacks first, then a last line that is always the same.
line=0
while [ "$line" -lt 400 ]; do
    line=$((line + 1))
    echo "compiling unit $line of 400, no warnings, no notes, nothing that anybody has to read"
done
for name in push pop peek length clear; do
    if ! test -f "stack/$name"; then
        echo "FAILED: the function '$name' is missing"
        echo "error: test failed, to rerun pass --lib"
        exit 101
    fi
    echo "ok: $name"
done
