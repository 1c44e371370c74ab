#!/usr/bin/env bash
# Goal: no uninitialised byte is read, no freed memory is used, and nothing is leaked. Method:
# lend-mn and the commands that use it, each under valgrind's memcheck, over shm and udp; a client
# is killed on the way. Covers: mn/lend_mn.c, mn/node_server.c, mn/store/store.c, cn/client.c
# usage: memcheck.sh BUILD
set -eu
build=$1
temp=$(mktemp -d)
export XDG_RUNTIME_DIR=$temp XDG_CONFIG_HOME=$temp
chmod 700 "$temp"
node=
trap '[ -z "$node" ] || kill -9 "$node" 2>/dev/null || true; rm -rf "$temp"' EXIT
checked() { # exec: the subshell's process becomes valgrind
	# a detached thread may still be ending with its process: its stack is "possibly lost"
	exec valgrind -q --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite \
		--error-exitcode=99 "$@"
}

checked "$build/lend-mn" --listen shm:mn$$,udp:127.0.0.1:0 --size 8M --lease 2000 >"$temp/said" 2>"$temp/err" &
node=$!
for _ in $(seq 300); do # 30 s at most
	! grep -q ' at ' "$temp/said" || break
	sleep 0.1
done
addresses=$(sed -n 's/.* at \([^ ]*\).*/\1/p' "$temp/said")
head -c 200000 /dev/urandom >"$temp/bytes"
for address in ${addresses//,/ }; do
	ref=$(checked "$build/lend" put "$temp/bytes" --node "$address" --ttl 1m)
	(checked "$build/lend" get "$ref" -o "$temp/copy")
	cmp "$temp/bytes" "$temp/copy"
	"$build/lend" mem lat --node "$address" --seconds 5 >/dev/null 2>&1 &
	client=$!
	sleep 0.3 # anywhere in the middle of the load
	kill -9 $client
	wait $client 2>/dev/null || true
done
kill -TERM $node
status=0
wait $node || status=$?
node=
# valgrind knows no mlock2(), which may fail, and says so in lines that begin with --
if [ $status -ne 0 ] || grep -qv '^--[0-9]*--' "$temp/err"; then
	echo "lend-mn exited with $status"
	cat "$temp/err"
	exit 1
fi
