#!/usr/bin/env bash
# Goal: two hosts that share memory call each other without a network: shm's rings in an ivshmem
# BAR. Method: two guests with one file as their device, a server in one, lat, rate and bw in the
# other; every byte that comes back is compared, or its checksum. Covers: src/io/shm/multihost.c,
# src/io/shm/multihost_memory.c
. test/guest/two_hosts
# shellcheck disable=SC2016 # for the guest
at='$(dirname "$(grep -l 0x1110 /sys/bus/pci/devices/*/device)")/resource2'

serve_in_guest --ivshmem "$memory" -- bash -c "exec $LEND_BUILD/lend serve --listen shm:server@$at"
guest.sh -t 900 --bare --ivshmem "$memory" -- bash -ec "
	at=shm:server@$at
	$LEND_BUILD/lend lat --connect \$at --seconds 3 --json
	$LEND_BUILD/lend rate --connect \$at --seconds 3 --json
	for size in 0 1 8000 9000 1M 4M; do
		$LEND_BUILD/lend bw --connect \$at --size \$size --window 1 --seconds 1 --json
	done" >"$tmp/client.log" 2>&1 || fail "the client failed"
[ "$(grep -c '"wrong_bytes": 0,' "$tmp/client.log")" = 8 ] || fail "wrong bytes"
grep -q '"errors": [1-9]' "$tmp/client.log" && fail "calls that failed"
echo "64 B p50 $(sed -n 1p "$tmp/client.log" | grep -o '"p50_us": [0-9.]*' | cut -d ' ' -f 2) us," \
	"$(sed -n 2p "$tmp/client.log" | grep -o '"calls_per_s": [0-9]*' | cut -d ' ' -f 2) calls/s," \
	"4 MiB at $(number gbit_per_s) Gb/s, every byte checked"
