#!/usr/bin/env bash
# Goal: the fuzz targets can fail. Method: each bug of planted.txt in a build of its own code, the
# corpus replayed: for at least four of five bugs the target must stop with a failure. Without a bug
# it must not. Covers: test/fuzz/planted.txt
# usage: planted.sh PROGRAMS CORPUS LIST
set -eu
programs=$1 corpus=$2 list=$3
failed=0

ulimit -c 0
replay() ( # TARGET [PLANT]; in a subshell, which reports the abort
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
		echo "$target does not find $plant"
	else
		seen=$((seen + 1))
	fi
done <"$list"
echo "$seen of $all found"
# A change of the code may lead an input elsewhere: some may miss until scripts/fuzz.sh --merge
# finds others.
[ $((seen * 10)) -ge $((all * 8)) ] && exit $failed
