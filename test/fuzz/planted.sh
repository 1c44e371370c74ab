#!/usr/bin/env bash
# Goal: the targets can fail. Method: each bug of planted.txt in a build of its own code, the corpus replayed: the target
# must stop with a failure. Without a bug it must not.
# usage: planted.sh PROGRAMS CORPUS LIST
set -eu
programs=$1 corpus=$2 list=$3
failed=0

ulimit -c 0
replay() ( # TARGET [PLANT]; in a shell of its own, which says who aborted
	exec &>/dev/null
	LEND_PLANT=${2:-none} timeout 20 "$programs/planted_fuzz_$1" "$corpus/$1"
)

for target in $(sed -n 's/^\([a-z]*\) .*/\1/p' "$list" | sort -u); do
	replay "$target" || {
		echo "$target fails without a bug" && failed=1
	}
done
while read -r target plant; do
	case $target in '' | '#'*) continue ;; esac
	if replay "$target" "$plant"; then
		echo "$target does not see $plant" && failed=1
	fi
done <"$list"
exit $failed
