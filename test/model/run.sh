#!/bin/sh
# Checks the ledger's model in all states, and that each negative control fails. usage: run.sh MODEL WORKDIR
set -eu
model=$(realpath "$1")
mkdir -p "$2"
cd "$2"
check() {
	spin -a $1 "$model" && ${CC:-cc} -O2 -DSAFETY -DNOFAIR -o pan pan.c 2>cc.log && ./pan -E -m100000 >pan.log 2>&1
	grep -q 'errors: 0' pan.log
}
check "" || { cat pan.log; echo "the model fails"; exit 1; }
grep -E 'states, stored' pan.log
for control in COUNTER NOGEN NORECORD HELD; do
	if check -D$control; then
		echo "$control passes, and must not"
		exit 1
	fi
	grep -E 'assertion violated' pan.log | head -1 | sed "s/^/$control: /"
done
