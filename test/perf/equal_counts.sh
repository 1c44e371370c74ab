#!/bin/sh
# Fails unless all kinds of failures of a check (of references, tags, mac1) run as many instructions, by callgrind.
# equal_counts.sh BUILD
set -eu
command -v valgrind >/dev/null || { echo "not on this machine: valgrind; scripts/deps.sh test brings it"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for program in perf_ref_failure perf_seal_failure; do
	valgrind --tool=callgrind --callgrind-out-file="$dir/out" "$1/$program" >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
	callgrind_annotate --inclusive=yes --threshold=100 "$dir/out" |
		sed -n 's/^ *\([0-9,]*\) ([^)]*).*:failure_\([a-z]\)_\([a-z_]*\).*/\2 \3 \1/p' | tr -d , >>"$dir/found"
done
sort -u "$dir/found" >"$dir/counts"
cat "$dir/counts"
[ "$(wc -l <"$dir/counts")" -ge 37 ] || { echo "not all kinds were counted"; exit 1; }
awk '!($1 in n) { n[$1] = $3 } n[$1] != $3 { print "differs from others of its group:", $0; bad = 1 } END { exit bad }' "$dir/counts"
