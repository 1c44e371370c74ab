#!/usr/bin/env bash
# Goal: the targets can fail. Method: each bug of planted.txt in a build of its own code, the corpus replayed: the target
# must stop with a failure, for four of five at least. Without a bug it must not.
# usage: planted.sh PROGRAMS CORPUS LIST
set -eu
programs=$1 corpus=$2 list=$3
failed=0

ulimit -c 0
replay() ( # TARGET [PLANT]; in a shell of its own, which says who aborted
	exec &>/dev/null
	LEND_PLANT=${2:-none} timeout 20 "$programs/planted_fuzz_$1" "$corpus/$1" || exit 1
)

for target in $(sed -n 's/^\([a-z]*\) .*/\1/p' "$list" | sort -u); do
	replay "$target" || {
		echo "$target fails without a bug" && failed=1
	}
done
all=0 seen=0
while read -r target plant; do
	case $target in '' | '#'*) continue ;; esac
	all=$((all + 1))
	if replay "$target" "$plant"; then
		echo "$target does not see $plant"
	else
		seen=$((seen + 1))
	fi
done <"$list"
echo "$seen of $all seen"
# A change of the code may lead an input elsewhere; some may miss until scripts/fuzz.sh --merge finds others.
[ $((seen * 10)) -ge $((all * 8)) ] && exit $failed
