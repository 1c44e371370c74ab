#!/usr/bin/env bash
# Goal: not one byte is read that nobody wrote, none is touched that is gone, and nothing is leaked.
# Method: lend-mn and the commands that use it, each under valgrind's memcheck, over shm and udp; a client is killed on the way.
# usage: memcheck.sh BUILD
set -eu
build=$1
temp=$(mktemp -d)
export XDG_RUNTIME_DIR=$temp
chmod 700 "$temp"
node=
trap '[ -z "$node" ] || kill -9 "$node" 2>/dev/null || true; rm -rf "$temp"' EXIT
checked() { # in a subshell it is that process
	# a detached thread may still go while its process ends: its stack is "possibly lost"
	exec valgrind -q --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite \
		--error-exitcode=99 "$@"
}

checked "$build/lend-mn" --listen shm:mn$$,udp:127.0.0.1:0 --size 8M --lease 2000 >"$temp/said" 2>"$temp/err" &
node=$!
for _ in $(seq 300); do # 30 s at most
	! grep -q ' at ' "$temp/said" || break
	sleep 0.1
done
addresses=$(sed -n 's/.* at //p' "$temp/said")
head -c 200000 /dev/urandom >"$temp/bytes"
for address in ${addresses//,/ }; do
	ref=$(checked "$build/lend" put "$temp/bytes" --node "$address" --ttl 1m)
	(checked "$build/lend" get "$ref" -o "$temp/copy")
	cmp "$temp/bytes" "$temp/copy"
	"$build/lend" mem lat --node "$address" --seconds 5 >/dev/null 2>&1 &
	client=$!
	sleep 0.3 # somewhere in the middle; it does not matter where
	kill -9 $client
	wait $client 2>/dev/null || true
done
kill -TERM $node
status=0
wait $node || status=$?
node=
if [ $status -ne 0 ] || [ -s "$temp/err" ]; then
	echo "lend-mn left with $status"
	cat "$temp/err"
	exit 1
fi
