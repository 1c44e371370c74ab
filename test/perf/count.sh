#!/bin/sh
# Instructions per call, counted by callgrind: a Markdown table on the standard output.
# count.sh [--build DIR] [--functions ROW]
# Each number is the difference of two runs of different length, so that the start does not count.
# --functions lists the functions of one row's instructions, both sides together.
set -eu
build=build functions=
while [ $# -gt 0 ]; do
	case $1 in
	--build) build=$2; shift 2 ;;
	--functions) functions=$2; shift 2 ;;
	*) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 2 ;;
	esac
done
export LEND_LEVEL=none # the protocol alone
command -v valgrind >/dev/null || { echo "count.sh: no valgrind: apt-get install valgrind" >&2; exit 1; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
few=2000 many=6000

# The counted functions, and the program without the option for the number of calls.
core="--collect-atstart=no"
for entry in $(sed -n 's/^[a-z].*[ *]\(lend_core_[a-z_]*\)(.*/\1/p' "$(dirname "$0")/../../src/core/core.h" | sort -u); do
	core="$core --toggle-collect=$entry"
done
choice="--collect-atstart=no"
for entry in next sent enter; do
	choice="$choice --toggle-collect=lend_sched_$entry"
done
rows='core, no checksum, 32 in flight|core|perf_core_call -p network -w 32 -n
core, no checksum, 1 in flight|core|perf_core_call -p network -w 1 -n
core, no checksum, 32 in flight, all on the slow path|core|perf_core_call -p network -w 32 -f never -n
core, no checksum, 32 in flight, one call per datagram|core|perf_core_call -p network -w 32 -S 32 -n
core, lossless, 32 in flight|core|perf_core_call -p lossless -w 32 -n
core, no checksum, 966 B, 32 in flight|core|perf_core_call -p network -s 966 -w 32 -n
core, congestion none|core|perf_core_call -p network -w 32 -a none -n
core, congestion timely|core|perf_core_call -p network -w 32 -a timely -n
core, congestion swift|core|perf_core_call -p network -w 32 -a swift -n
core, congestion dctcp|core|perf_core_call -p network -w 32 -a dctcp -n
core, congestion credit|core|perf_core_call -p network -w 32 -a credit -n
a choice, one class has calls to send|choice|perf_sched_choice -c 1 -n
a choice, all eight have|choice|perf_sched_choice -c 8 -n
a choice, all eight have, by deadline|choice|perf_sched_choice -c 8 -o deadline -n
both ends over net_ring, 32 B, 32 in flight|all|perf_rpc_call -c ring -w 32 -n
both ends over net_ring, 32 B, 32 in flight, one call per datagram|all|perf_rpc_call -c ring -w 32 -S 32 -n
both ends over net_ring, 32 B, 32 in flight, all on the slow path|all|perf_rpc_call -c ring -w 32 -f never -n
both ends over net_ring, 32 B, 1 in flight|all|perf_rpc_call -c ring -w 1 -n
both ends over net_ring, 966 B, 32 in flight|all|perf_rpc_call -c ring -s 966 -w 32 -n
both ends over shm, 32 B, 32 in flight|all|perf_rpc_call -c shm -w 32 -n
both ends over shm, 32 B, 32 in flight, all on the slow path|all|perf_rpc_call -c shm -w 32 -f never -n
both ends over shm, 32 B, 1 in flight|all|perf_rpc_call -c shm -w 1 -n
both ends over udp, 64 B, 1 in flight|all|perf_rpc_call -c udp -s 64 -r 64 -w 1 -n
http2, 64 B, 64 in flight|all|perf_gateway_call -w 64 -n
http2, 64 B, 1 in flight|all|perf_gateway_call -w 1 -n'

count() { # WHAT CALLS COMMAND...: writes the profile, prints the sum
	what=$1 calls=$2
	shift 2
	case $what in
	core) what=$core ;;
	choice) what=$choice ;;
	*) what= ;;
	esac
	# shellcheck disable=SC2086
	valgrind --tool=callgrind --callgrind-out-file="$dir/$calls" $what "$build/$@" "$calls" >/dev/null 2>"$dir/log" ||
		{ cat "$dir/log" >&2; return 1; }
	sed -n 's/^==[0-9]*== Collected : //p' "$dir/log"
}

[ -n "$functions" ] || printf '| what | instructions per call |\n|---|---|\n'
echo "$rows" | grep -F -- "$functions" | while IFS='|' read -r name what command; do
	# shellcheck disable=SC2086
	a=$(count "$what" $few $command) b=$(count "$what" $many $command)
	if [ -n "$functions" ]; then
		echo "$name: $(((b - a) / (many - few)))"
		for n in $few $many; do
			callgrind_annotate --threshold=100 "$dir/$n" | sed -n 's/^ *\([0-9,]*\) ([^)]*)  *[^ ]*:\([^ ]*\).*/\2 \1/p' | tr -d , >"$dir/$n.txt"
		done
		awk -v calls=$((many - few)) 'NR == FNR { few[$1] += $2; next } { many[$1] += $2 }
			END { for (f in many) printf "%7.1f %s\n", (many[f] - few[f]) / calls, f }' "$dir/$few.txt" "$dir/$many.txt" |
			sort -rn | awk '$1 >= 1'
	else
		echo "| $name | $(((b - a) / (many - few))) |"
	fi
done
