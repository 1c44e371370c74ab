#!/usr/bin/env bash
# Goal: a memory node over verbs sends its pages in place, in less CPU time than copies take.
# Without the right to lock memory it prints one line and copies.
# Method: one guest; a client on rxe0 reads objects of 1 MiB from a node on rxe1, and every byte is
# checked. CPU time of the node's process, per MiB that it sent; two nodes in turns, medians count.
# The node's own copy is user time; soft-RoCE copies each datagram once more, in the kernel, which a
# card would not.
# Covers: mn/node_worker.c, src/io/verbs/send.c
set -eu
shopt -s inherit_errexit
if [ "${LEND_IN_GUEST:-}" != 1 ]; then
	[ -e "$LEND_BUILD/lend_io_verbs.so" ] || {
		echo "lend_io_verbs.so was not built (libibverbs-dev, librdmacm-dev)"
		exit 77
	}
	exec guest.sh -t 1200 -- "$0"
fi
export LEND_MODULE_DIR=$LEND_BUILD
export LEND_LEVEL=none # what is encrypted is a copy
log=$(mktemp)

# start_node registered|copied: starts a node that may lock all its pages, or only its queues.
start_node() {
	locked=(bash -c 'exec "$@"' bash)
	[ "$1" = registered ] || locked=(setpriv --bounding-set=-ipc_lock bash -c 'ulimit -l 24576; exec "$@"' bash)
	"${locked[@]}" "$LEND_BUILD/lend-mn" --listen 'verbs:rxe1@10.77.0.2:0?rc=0' --size 64M >"$log" 2>&1 &
	node=$!
	for _ in $(seq 900); do
		address=$(grep -o 'verbs:rxe1@[^ ,]*' "$log" | head -n 1) || true
		[ -z "$address" ] || break
		sleep 0.1
	done
	lines=$(grep -c 'replies are copies of their pages: .*raise ulimit -l$' "$log") || true
	[ "$lines" = "$([ "$1" = registered ] && echo 0 || echo 1)" ] || {
		echo "$1: $lines lines say that the pages are copied"
		cat "$log"
		exit 1
	}
}
cpu_ms() { awk -v hz="$(getconf CLK_TCK)" '{print $14 * 1000 / hz, ($14 + $15) * 1000 / hz}' "/proc/$node/stat"; }
measure() { # registered|copied: prints the node's user time and CPU time per MiB, in us
	start_node "$1"
	ref=$("$LEND_BUILD/lend" put "$file" --node "${address/rxe1/rxe0}?rc=0")
	before=$(cpu_ms)
	for _ in 1 2; do
		"$LEND_BUILD/lend" get "$ref" -o "$file.copy"
		cmp "$file" "$file.copy"
	done
	echo "$before $(cpu_ms)" | awk '{printf "%.0f/%.0f\n", ($3 - $1) * 1000 / 64, ($4 - $2) * 1000 / 64}'
	kill $node && wait $node || true
}
median() { cut -d / -f "$1" | sort -g | sed -n 2p; } # FIELD: of three
ratio() { # FIELD: of the medians
	awk -v a="$(printf '%s\n' $registered | median "$1")" -v b="$(printf '%s\n' $copied | median "$1")" 'BEGIN {printf "%.2f", (b > 0 ? a / b : 9)}'
}

file=$log.file
head -c 32M /dev/urandom >"$file"
registered='' copied=''
for _ in 1 2 3; do
	registered="$registered $(measure registered)"
	copied="$copied $(measure copied)"
done
echo "node CPU per MiB of GET, user/whole: registered$registered us, copied$copied us; of the medians $(ratio 1) and $(ratio 2)"
