#!/usr/bin/env bash
# Goal: a call and its pages both cross between two hosts without a network: a memory node in one,
# its clients in the other, connected only by /dev/dax0.0. Method: one guest runs a node and a
# server, and puts a file; the other gets the file by the reference that the first printed, puts and
# gets one of its own, calls the server, and runs a chain by reference. Bytes are compared. Covers:
# src/io/shm/multihost.c, src/io/shm/multihost_memory.c
. test/guest/two_hosts
dax=/dev/dax0.0
head -c 3000001 /dev/urandom >"$tmp/first"
head -c 4194304 /dev/urandom >"$tmp/second"

serve_in_guest --dax "$memory" -- bash -ec "
	$LEND_BUILD/lend-mn --listen shm:mem@$dax --size 64M &
	$LEND_BUILD/lend serve --listen shm:server@$dax >/dev/null &
	until $LEND_BUILD/lend put $tmp/first --node shm:mem@$dax --ttl 1h; do sleep 0.2; done
	wait"
for _ in {1..2000}; do
	ref=$(grep -o '^lend1:.*' "$tmp/server.log" || true)
	[ -z "$ref" ] || break
	sleep 0.1
done
[ -n "$ref" ] || fail "the server's guest put nothing"

guest.sh -t 900 --bare --dax "$memory" -- bash -ec "
	$LEND_BUILD/lend get $ref -o /tmp/got && cmp /tmp/got $tmp/first
	mine=\$($LEND_BUILD/lend put $tmp/second --node shm:mem@$dax)
	$LEND_BUILD/lend get \$mine -o /tmp/got && cmp /tmp/got $tmp/second
	$LEND_BUILD/lend rate --connect shm:server@$dax --size 64 --seconds 2 --json
	$LEND_BUILD/lend chain --by ref --hops 2 --size 1M --carrier shm:hop%p@$dax --node shm:mem@$dax --seconds 3 --json
	$LEND_BUILD/lend mem stat --node shm:mem@$dax --json" >"$tmp/client.log" 2>&1 || fail "the client failed"
[ "$(grep -c '"wrong_bytes": 0,' "$tmp/client.log")" = 2 ] || fail "wrong bytes"
grep -q '"errors": [1-9]' "$tmp/client.log" && fail "calls that failed"
echo "put on one host and got on the other, both ways; $(grep -o '"calls_per_s": [0-9]*' "$tmp/client.log" | head -n 1 | cut -d ' ' -f 2)" \
	"calls/s of 64 B; a chain by reference, 1 MiB at $(number gbit_per_s) Gb/s, every byte checked"
