#!/usr/bin/env bash
# Goal: the scenarios of handshakes can fail. Method: each bug of the table whose `seen` names a
# scenario, in a build of its own code: that scenario must fail with the bug, and pass without.
# Covers: test/scen/sealed_handshake_test.c
# usage: handshake_plants.sh PROGRAM TABLE
set -eu
program=$1 table=$2 failed=0 n=0

ulimit -c 0
run() { # PLANT SCENARIO
	LEND_PLANT=$1 timeout 60 "$program" --jobs 1 --filter "$2" >/dev/null 2>&1
}
while read -r plant scenario; do
	n=$((n + 1))
	run none "$scenario" || { echo "$scenario fails without a bug" && failed=1; }
	if run "$plant" "$scenario"; then
		echo "$scenario does not find $plant" && failed=1
	fi
done < <(awk '$1 == "plant" {plant = $2} $1 == "seen" && $2 == "scen:" {print plant, $3}' "$table")
echo "$n planted bugs"
[ "$n" -gt 0 ] && exit $failed
