#!/usr/bin/env bash
# Goal: UD queue pairs work on soft-RoCE: the conformance suite, provoked errors, short and long
# calls, the image chain byte by byte, a memory node; and they cost no more than perftest's own.
# Method: one guest; calls cross from rxe0 to rxe1; perftest and the carrier run in turns, medians
# count. Fails at half the target, because time there is emulated. Covers: src/io/verbs/carrier.c,
# src/io/verbs/open.c, src/io/verbs/cm.c, src/io/verbs/peer.c, src/io/verbs/send.c,
# src/io/verbs/recv_queue.c, src/io/verbs/async_events.c
set -eu
if [ "${LEND_IN_GUEST:-}" != 1 ]; then
	[ -e "$LEND_BUILD/lend_io_verbs.so" ] || {
		echo "lend_io_verbs.so was not built (libibverbs-dev, librdmacm-dev)"
		exit 77
	}
	exec guest.sh -t 1500 -- "$0"
fi
lend=$LEND_BUILD/lend
bench=$LEND_BUILD/test/verbs_bench
export LEND_MODULE_DIR=$LEND_BUILD
log=$(mktemp)

said() { # COMMAND...: prints its output only if it fails
	"$@" >"$log" 2>&1 || {
		echo "failed: $*"
		cat "$log"
		exit 1
	}
}
listener() { # COMMAND...: starts a server; its address as a client on rxe0 writes it
	"$@" >"$log.server" 2>&1 &
	server=$!
	for _ in $(seq 600); do
		address=$(grep -o 'verbs:rxe1@[^ ]*' "$log.server" | head -n 1)
		[ -z "$address" ] || break
		sleep 0.1
	done
	address=${address/rxe1/rxe0}
}
median() { sort -g | sed -n 2p; } # of three
perf() { # PROGRAM BYTES COUNT FIELD
	for _ in 1 2 3; do # it may wait for a lost datagram until its timeout
		timeout 40 "$1" -c UD $both -d rxe1 -x 1 -s "$2" -n "$3" >/dev/null 2>&1 &
		for _ in $(seq 600); do # a client that comes too early ends the server
			! grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6 || break
			sleep 0.1
		done
		figure=$(timeout 20 "$1" -c UD $both -d rxe0 -x 1 -s "$2" -n "$3" 10.77.0.2 2>/dev/null |
			awk -v f="$4" '/#bytes/ {hot = 1; next} hot && $1 + 0 {print $f; hot = 0}') || true
		kill $! 2>/dev/null || true
		wait $! 2>/dev/null || true
		[ -z "$figure" ] || break
	done
	echo "${figure:-0}"
}

said scripts/conform.py "$LEND_BUILD" --only verbs
listener "$lend" serve --listen verbs:rxe1@10.77.0.2:0
said "$lend" lat --connect "$address" --count 1000
said "$lend" lat --connect "$address" --count 300 --sleep
said "$lend" rate --connect "$address" --count 3000
said "$lend" bw --connect "$address" --size 1M --count 20
kill $server && wait $server || true

echo "bytes   lend/s   perftest/s  ratio"
for bytes in 64 1024 4096; do
	ours='' theirs=''
	for _ in 1 2 3; do
		ours="$ours $("$bench" rate verbs:rxe0@10.77.0.1:0 verbs:rxe1@10.77.0.2:0 $bytes 8000 2>>"$log.lost")"
		both=-b
		theirs="$theirs $(perf ib_send_bw $bytes 8000 5)"
	done
	a=$(printf '%s\n' $ours | median) b=$(printf '%s\n' $theirs | median)
	awk -v s=$bytes -v a="$a" -v b="$b" 'BEGIN {b *= 1e6; r = b > 0 ? a / b : 0; printf "%5d %8.0f %10.0f %8.2f\n", s, a, b, r;
		exit r < 0.4}'
	rates="${rates:-} $(awk -v a="$a" -v b="$b" 'BEGIN {printf "%.2f", (b > 0 ? a / b / 1e6 : 0)}')"
done
ours='' theirs='' both=''
for _ in 1 2 3; do
	ours="$ours $("$bench" lat verbs:rxe0@10.77.0.1:0 verbs:rxe1@10.77.0.2:0 64 1000)"
	theirs="$theirs $(perf ib_send_lat 64 1000 5)"
done
a=$(printf '%s\n' $ours | median) b=$(printf '%s\n' $theirs | median)
lat=$(awk -v a="$a" -v b="$b" 'BEGIN {printf "%.2f", (b > 0 ? a / b / 2 : 99)}')
echo "64 B there and back: $a us, perftest's $b us twice, ratio $lat"
awk -v r="$lat" 'BEGIN {exit r > 2.6}'
# It removes devices, so tests run one by one and this is the last: afterwards GID indices differ,
# and rxe1 is gone.
said "$LEND_BUILD/test/test_io_verbs" --jobs 1
echo "rate over perftest's:$rates (64, 1024, 4096 B), 64 B round trip over perftest's: $lat"
