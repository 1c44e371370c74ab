#!/usr/bin/env bash
# Goal: a NIC that is unplugged in the middle of calls ends calls, not programs: the caller reports
# it in one line, the server runs on until it is stopped. Method: two connected NICs of the machine
# pc, which supports unplugging. QEMU removes the caller's NIC and then, with a new caller without
# any answers, the server's, each while calls run. Covers: src/io/dpdk/port_state.c,
# src/io/dpdk/port.c
set -euo pipefail
model=${LEND_NICS:-e1000}

own_eal() { # NUMBER: of the NIC
	echo "-a 0000:00:1$1.0 -m 128 --file-prefix lend-$1"
}

count() { # NAME: of the server's counters until now
	kill -USR1 "$server"
	sleep 0.3 # until it has printed that
	tail -n 1 /tmp/server | grep -o "\"$1\": [0-9]*" | cut -d ' ' -f 2
}

await() { # SECONDS COMMAND...
	for ((i = $1 * 5; i > 0; i--)); do
		! "${@:2}" || return 0
		sleep 0.2
	done
	echo "timed out: ${*:2}"
	tail -n 1 /tmp/server /tmp/client
	exit 1
}

counted() { [ "$(count "$1")" -gt "$2" ]; }
is_gone() { [ ! -e "$1" ]; }

inner() {
	local server client status=0 since took downs
	touch /tmp/client
	"$LEND_BUILD/lend" serve --json --eal "$(own_eal 0)" --listen dpdk:0000:00:10.0@10.77.0.1:7000 >/tmp/server 2>&1 &
	server=$!
	await 200 grep -q ready /tmp/server
	LEND_EAL=$(own_eal 1) "$LEND_BUILD/lend" rate --seconds 100 --window 16 \
		--connect 'dpdk:0000:00:11.0@10.77.0.1:7000?from=10.77.0.2' >/tmp/client 2>&1 &
	client=$!
	await 200 counted requests 300
	echo "pull nic1"
	await 200 is_gone /sys/bus/pci/devices/0000:00:11.0
	since=$SECONDS
	wait $client || status=$?
	took=$((SECONDS - since + 1))
	[ "$status $(wc -l </tmp/client)" = '1 1' ] && grep -Eq 'session (is gone|has ended)' /tmp/client || {
		echo "the caller ended with $status and said:"
		cat /tmp/client
		exit 1
	}
	downs=$(count io_link_down)
	echo "pull nic0"
	await 200 is_gone /sys/bus/pci/devices/0000:00:10.0
	await 60 counted io_link_down "$downs"
	kill "$server"
	wait "$server" # with 0
	echo "a caller's NIC is unplugged: reported within $took s; a server's: it runs on until it is stopped"
}

if [ "${1:-}" = --inner ]; then
	inner
	exit
fi
[ -e "$LEND_BUILD/lend_io_dpdk.so" ] || {
	echo "lend_io_dpdk.so was not built (libdpdk-dev)"
	exit 77
}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
guest.sh -t 600 --bare -M pc --nics "$model" -q -qmp -q "unix:$tmp/qmp,server=on,wait=off" -- "$0" --inner | python3 -c '
import json, re, socket, sys
qmp = socket.socket(socket.AF_UNIX)
said = None
for line in sys.stdin:
    print(line, end="", flush=True)
    if not (found := re.match("pull (nic.)", line)):
        continue
    if said is None:
        qmp.connect(sys.argv[1])
        said = qmp.makefile()
        qmp.sendall(b"{\"execute\": \"qmp_capabilities\"}")
    qmp.sendall(json.dumps({"execute": "device_del", "arguments": {"id": found[1]}}).encode())
' "$tmp/qmp"
