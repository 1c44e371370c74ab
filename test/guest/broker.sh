#!/usr/bin/env bash
# Goal: a process behind a broker uses an RDMA device without opening it, calls and is called by ends that open their
# own, and learns that the broker died; it is ready within twice the time of a reliable connection of librdmacm.
# Method: one guest; the conformance suite, then lend serve and lend bench; a server and a broker are killed;
# rdma_connect and Lend run in turns, medians count. Covers: src/broker/broker.c, src/broker/broker_client.c,
# src/broker/broker_forward.c, src/io/broker/carrier.c, src/io/verbs/open.c
set -eu
if [ "${LEND_IN_GUEST:-}" != 1 ]; then
	[ -e "$LEND_BUILD/lend_io_verbs.so" ] || {
		echo "lend_io_verbs.so was not built (libibverbs-dev, librdmacm-dev)"
		exit 77
	}
	exec guest.sh -t 1200 -- "$0"
fi
lend=$LEND_BUILD/lend
export LEND_MODULE_DIR=$LEND_BUILD
log=$(mktemp)

die() { # WORD...
	echo "failed: $*"
	cat "$log"
	exit 1
}
said() { # COMMAND...: prints its output only if it fails
	"$@" >"$log" 2>&1 || die "$@"
}
ready() { # FILE: waits for the line "ready ADDRESS", sets address
	for _ in $(seq 900); do
		address=$(sed -n 's/^ready //p' "$1")
		[ -z "$address" ] || return 0
		sleep 0.1
	done
	die "no server in $1"
}
serve() { # ADDRESS
	"$lend" serve --listen "$1" >"$log.server" 2>&1 &
	server=$!
	ready "$log.server"
}
start_broker() {
	"$LEND_BUILD/lend-broker" --name nic --device verbs:rxe0@10.77.0.1:0 --spares 4 >"$log.broker" 2>&1 &
	broker=$!
	ready "$log.broker"
}
field() { # NAME: of a line of JSON
	sed -n "s/.*\"$1\": \([0-9.]*\).*/\1/p"
}
median() { sort -g | sed -n 2p; } # of three

said "$LEND_BUILD/test/test_io_broker_devices" --filter 'broker_verbs/*' --jobs 1
start_broker

# A server behind the broker, called by an end with the other device; it is killed, and replaced.
for how in KILL TERM; do
	serve broker:nic
	! grep -q 'lend_io_verbs\|libibverbs' "/proc/$server/maps" || die "the server has loaded verbs"
	! ls -l "/proc/$server/fd" | grep infiniband || die "the server has opened the device"
	direct=${address#broker:nic/}
	said "$lend" lat --connect "${direct/rxe0/rxe1}" --count 200
	said "$lend" bw --connect "${direct/rxe0/rxe1}" --size 1M --count 5
	kill -$how "$server"
	wait "$server" 2>/dev/null || true
done

# A client behind it, and its time to be ready next to librdmacm's.
serve verbs:rxe1@10.77.0.2:0
far=${address/rxe1/rxe0}
said "$lend" lat --connect "broker:nic/$far" --count 200
said "$lend" bw --connect "broker:nic/$far" --size 1M --count 5
"$LEND_BUILD/test/rdma_connect" serve 10.77.0.2 7471 >"$log.rdma" 2>&1 &
for _ in $(seq 600); do
	! grep -q ready "$log.rdma" || break
	sleep 0.1
done
first='' next='' attach='' connect='' own=''
for _ in 1 2 3; do
	took=$("$LEND_BUILD/test/rdma_connect" 10.77.0.2 7471 20)
	first="$first ${took% *}" next="$next ${took#* }"
	"$lend" bench start --connect "broker:nic/$far" --count 5 --json >"$log" 2>&1 || die bench start
	attach="$attach $(field attach_us <"$log")"
	"$lend" bench start --connect "$far" --count 5 --json >"$log" 2>&1 || die bench start
	own="$own $(field attach_us <"$log")"
	"$lend" bench connect --connect "broker:nic/$far" --window 2 --seconds 1 --json >"$log" 2>&1 || die bench connect
	connect="$connect $(field connect_p50_us <"$log")"
done
first=$(printf '%s\n' $first | median) next=$(printf '%s\n' $next | median)
attach=$(printf '%s\n' $attach | median) connect=$(printf '%s\n' $connect | median)
own=$(printf '%s\n' $own | median)
echo "us, emulated: a new process is connected by librdmacm after $first, has a reply through the broker after $attach, and with the device of its own after $own; a further connection takes $next, a further session $connect"
# Time is emulated, so twice the target.
awk -v a="$attach" -v c="$connect" -v f="$first" -v n="$next" 'BEGIN {exit !(a < 2 * f && c < 2 * n)}' || die "slower than rdma_connect"

# The broker dies: a client that calls ends with a status within its session's 5 s, a new one with a line.
timeout 60 "$lend" lat --connect "broker:nic/$far" --seconds 40 >"$log" 2>&1 &
client=$!
sleep 3
kill -KILL "$broker"
wait "$broker" 2>/dev/null || true
began=$SECONDS
! wait "$client" || die "a client went on without its broker"
[ $((SECONDS - began)) -lt 30 ] || die "a client went on for $((SECONDS - began)) s"
! timeout 30 "$lend" ping "broker:nic/$far" >"$log" 2>&1 || die "a broker that is dead answers"
grep -q 'no broker answers; start lend-broker' "$log" || die "no fix is named"
start_broker
said "$lend" lat --connect "broker:nic/$far" --count 50

ratio() { awk -v a="$1" -v b="$2" 'BEGIN {printf "%.2f", a / b}'; }
echo "over rdma_connect: a new process's first reply $(ratio "$attach" "$first"), with its own device $(ratio "$own" "$first"); a further session $(ratio "$connect" "$next")"
