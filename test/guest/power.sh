#!/usr/bin/env bash
# Goal: a host that loses its power while it shares memory with others blocks none of them: calls to
# it end, its name is free, and its replacement is reached. Method: two guests with one DAX device's
# memory; the server's guest is killed in the middle of calls and another one is booted, which takes
# the same name. The client prints when its calls ended, and calls again. Covers:
# src/io/shm/multihost.c, src/io/shm/multihost_link.c, src/io/shm/multihost_memory.c
. test/guest/two_hosts
dax=/dev/dax0.0

serve_in_guest --dax "$memory" -- "$LEND_BUILD/lend" serve --listen "shm:server@$dax"
guest.sh -t 900 --bare --dax "$memory" -- bash -c "
	$LEND_BUILD/lend lat --connect shm:server@$dax --count 100 --json || exit
	echo calling
	since=\$SECONDS
	timeout 100 $LEND_BUILD/lend rate --connect shm:server@$dax --seconds 100 && exit 1
	echo calls ended within \$((SECONDS - since + 1)) s
	# The dead server still has its name: calls to it are not answered until the new one has
	# taken it.
	until $LEND_BUILD/lend rate --connect shm:server@$dax --count 1000 --json; do sleep 0.5; done
	" >"$tmp/client.log" 2>&1 &
client=$!
guests+=("$client")
until grep -q calling "$tmp/client.log"; do
	kill -0 "$client" 2>/dev/null || fail "the client's guest ended"
	sleep 0.1
done
sleep 3 # the client calls meanwhile
kill "${guests[0]}"
wait "${guests[0]}" || true
: >"$tmp/server.log"
serve_in_guest --dax "$memory" -- "$LEND_BUILD/lend" serve --listen "shm:server@$dax"
wait "$client" || fail "the client does not reach the second server"
grep -q 'calls ended within' "$tmp/client.log" || fail "its calls did not end"
[ "$(grep -c '"wrong_bytes": 0,' "$tmp/client.log")" = 2 ] || fail "wrong bytes"
echo "a server's power is cut: $(grep -o 'calls ended within.*' "$tmp/client.log"); the next one has its name and is reached"
