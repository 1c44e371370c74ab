#!/usr/bin/env bash
# Goal: large gets, puts and lent arguments over verbs are read by the other end's device, every byte
# of them, and gets need at most a tenth of the node's CPU time; a second peer of a node with one link
# uses datagrams.
# Method: one guest; a client on rxe0, a memory node on rxe1. The node's whole CPU time counts,
# though soft-RoCE reads in the node's kernel, which a card would not need: its user time is too few
# ticks of 4 ms. Fails at twice the target, because time there is emulated. Covers: cn/op_one_sided.c,
# mn/node_one_sided.c, src/rpc/shown_memory.c, src/io/verbs/rc_link.c
set -eu
shopt -s inherit_errexit
if [ "${LEND_IN_GUEST:-}" != 1 ]; then
	[ -e "$LEND_BUILD/lend_io_verbs.so" ] || {
		echo "lend_io_verbs.so was not built (libibverbs-dev, librdmacm-dev)"
		exit 77
	}
	exec guest.sh -t 900 -- "$0"
fi
export LEND_MODULE_DIR=$LEND_BUILD
export LEND_LEVEL=none # encrypted sessions have no one-sided reads
bench=$LEND_BUILD/test/one_sided_bench
log=$(mktemp)
large=8388608

start_node() { # OPTIONS: sets node and address
	"$LEND_BUILD/lend-mn" --listen "verbs:rxe1@10.77.0.2:0$1" --size 64M >"$log" 2>&1 &
	node=$!
	for _ in $(seq 900); do
		address=$(grep -o 'verbs:rxe1@[^ ,]*' "$log" | head -n 1) || true
		[ -z "$address" ] || break
		sleep 0.1
	done
	address=${address/rxe1/rxe0}
}
stop_node() {
	kill $node && wait $node || true
}
ratio() { awk -v a="$1" -v b="$2" 'BEGIN {printf "%.3f", (b > 0 ? a / b : 9)}'; }

start_node ''
read -r gets gets_all _ < <("$bench" get "$address" $node $large 12 reads)
read -r plain plain_all _ < <("$bench" get "$address?rc=0" $node $large 3)
read -r puts puts_all _ < <("$bench" put "$address" $node $large 4 reads)
[ -n "$gets" ] && [ -n "$plain" ] && [ -n "$puts" ]
stop_node

# One link, held by the first peer: the second peer uses datagrams.
start_node '?rc=1'
"$bench" get "$address" $node 1048576 30 reads >"$log.first" &
first=$!
sleep 2
"$bench" get "$address" $node 1048576 1 >"$log.second" || cat "$log.second"
wait $first
stop_node
lent=$("$bench" lent verbs:rxe0@10.77.0.1:0 verbs:rxe1@10.77.0.2:0 $large 4)
echo "node CPU per MiB, user and whole, us: GET read by the device $gets $gets_all, by datagrams $plain $plain_all: $(ratio "$gets" "$plain") and $(ratio "$gets_all" "$plain_all"); PUT $puts $puts_all; 4 lent arguments of 8 MiB in $lent reads"
awk -v r="$(ratio "$gets_all" "$plain_all")" 'BEGIN {exit r > 0.2}'
