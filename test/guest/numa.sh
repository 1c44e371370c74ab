#!/usr/bin/env bash
# Goal: on a machine with several NUMA nodes, --numa keeps threads and pages on the chosen node, and
# names the nodes that exist if it does not. A broker and a memory node run on their device's node
# unless --numa names another, also if EAL has no memory there. A memory node outlives that its NUMA node
# goes offline. Endpoints on NICs with several queues and a pool for each make checked calls, also if
# EAL has no memory on a NIC's node. Method: QEMU's -numa, and a DIMM that is taken away; /proc shows
# where threads and pages are; two joined NICs of a model with several queues; sysfs puts one on
# node 1. Covers: src/cli/numa.c, src/io/dpdk/frame_pool.c, src/io/dpdk/eal.c
set -euo pipefail
model=${LEND_NICS:-vmxnet3}

await() { # SECONDS COMMAND...
	for ((i = $1 * 5; i > 0; i--)); do
		! "${@:2}" || return 0
		sleep 0.2
	done
	echo "timed out: ${*:2}"
	exit 1
}

share_on() { # NODE PID: of its anonymous pages, in percent
	awk -v node="N$1=" '/anon=/ { for (i = 3; i <= NF; i++) if (match($i, /^N[0-9]+=/)) {
		n = substr($i, RLENGTH + 1); all += n; if (index($i, node) == 1) mine += n } }
		END { print all ? int(100 * mine / all) : 0 }' "/proc/$2/numa_maps"
}

on_node() { # NODE PID: all its threads are
	for task in /proc/"$2"/task/*; do
		grep -q "^Cpus_allowed_list:[[:space:]]*$1\$" "$task/status" || {
			echo "not on node $1: $(cat "$task/comm") of $(tr '\0' ' ' <"/proc/$2/cmdline")"
			exit 1
		}
	done
}

test_node() { # NODE ARGUMENT... of a memory node that is to run on that node
	local node share
	"$LEND_BUILD/lend-mn" --size 64M "${@:2}" >/tmp/mn 2>&1 &
	node=$!
	await 200 grep -q serving /tmp/mn
	"$LEND_BUILD/lend" bench mem-bw --node shm:numa --size 64K --seconds 1 --json >/tmp/put
	on_node "$1" $node
	share=$(share_on "$1" $node)
	[ "$share" -ge 90 ] || { echo "node $1: $share % of the pages"; exit 1; }
	kill $node
	wait $node
	echo "node $1 has both threads and $share % of the pages"
}

# Node 2 has no CPUs, and memory that can be taken away while a memory node uses it.
test_offline() {
	local node ref block why
	"$LEND_BUILD/lend-mn" --listen shm:numa --size 64M --numa 2 >/tmp/mn 2>&1 &
	node=$!
	await 200 grep -q serving /tmp/mn
	head -c 16M /dev/urandom >/tmp/object
	ref=$("$LEND_BUILD/lend" put /tmp/object --node shm:numa)
	why=$(share_on 2 $node)
	[ "$why" -ge 90 ] || { echo "node 2: $why % of the pages"; exit 1; }
	for block in /sys/devices/system/node/node2/memory*/state; do
		echo offline >"$block"
	done
	[ "$(cat /sys/devices/system/node/has_memory)" = 0-1 ]
	"$LEND_BUILD/lend" get "$ref" -o /tmp/copy
	cmp /tmp/object /tmp/copy
	"$LEND_BUILD/lend" put /tmp/object --node shm:numa >/dev/null # new pages, elsewhere
	kill $node
	wait $node
	! why=$("$LEND_BUILD/lend-mn" --listen shm:numa --size 64M --numa 2 2>&1)
	[ "$why" = "lend-mn: --numa 2: no such NUMA node with memory; there are: 0-1" ]
	echo "node 2 goes offline under a memory node, every byte checked"
}

call_nics() { # EAL ARGUMENTS of the server: its NIC is called from the other one, by checked calls
	local server
	"$LEND_BUILD/lend" serve --numa 0 --eal "-a 0000:00:10.0 $1 --file-prefix lend-0" \
		--listen 'dpdk:0000:00:10.0@10.77.0.1:7000?queues=4' >/tmp/server 2>&1 &
	server=$!
	await 200 grep -q ready /tmp/server
	LEND_EAL="-a 0000:00:11.0 -m 192 --file-prefix lend-1" "$LEND_BUILD/lend" rate --numa 1 --seconds 3 --window 16 --json \
		--connect 'dpdk:0000:00:11.0@10.77.0.1:7000?from=10.77.0.2&queues=4' >/tmp/client
	grep -q '"wrong_bytes": 0' /tmp/client
	kill $server
	wait $server
}

test_broker() { # NODE ARGUMENT... of a broker that is to run on that node
	local broker
	"$LEND_BUILD/lend-broker" --name numa "${@:2}" >/tmp/broker 2>&1 &
	broker=$!
	await 200 grep -q ready /tmp/broker
	on_node "$1" $broker
	kill $broker
	wait $broker
}

inner() {
	local why text0 text1 text2 text3 calls
	text0=$(test_node 0 --listen shm:numa --workers 2 --numa 0)
	text1=$(test_node 1 --listen shm:numa --workers 2 --numa 1)
	text2=$(test_offline)
	! why=$("$LEND_BUILD/lend" serve --listen shm:x --numa 2 2>&1)
	[ "$why" = "lend serve: --numa 2: no such NUMA node with memory; there are: 0-1" ]
	call_nics '-m 192'
	calls=$(grep -o '"calls_per_s": [0-9]*' /tmp/client | cut -d ' ' -f 2)
	echo 1 >/sys/bus/pci/devices/0000:00:10.0/numa_node
	local one='-a 0000:00:10.0 --socket-mem 192,0 --socket-limit 192,1'
	test_broker 0 --device udp:127.0.0.1:0 --numa 0
	test_broker 1 --device dpdk:0000:00:10.0@10.77.0.1:0 --eal "$one"
	test_broker 0 --device dpdk:0000:00:10.0@10.77.0.1:0 --eal "$one" --numa 0
	text3=$(test_node 1 --listen shm:numa,dpdk:0000:00:10.0@10.77.0.1:0 --eal "$one")
	call_nics '--socket-mem 192,0 --socket-limit 192,1'
	echo "$text0; $text1; $text2; of a device there: $text3; $model with 4 queues: $calls calls/s; its node without memory: $(grep -o '"calls_per_s": [0-9]*' /tmp/client | cut -d ' ' -f 2)"
}

if [ "${1:-}" = --inner ]; then
	inner
	exit
fi
[ -e "$LEND_BUILD/lend_io_dpdk.so" ] || {
	echo "lend_io_dpdk.so was not built (libdpdk-dev)"
	exit 77
}
# Two nodes with a CPU and half the memory each, and one that is a DIMM.
memory=(-q -m -q 1536M,slots=1,maxmem=4G -k memhp_default_state=online_movable
	-q -object -q memory-backend-ram,id=m2,size=256M)
for node in 0 1; do
	memory+=(-q -object -q "memory-backend-ram,id=m$node,size=768M" -q -numa -q "node,nodeid=$node,cpus=$node,memdev=m$node")
done
memory+=(-q -numa -q node,nodeid=2 -q -device -q pc-dimm,memdev=m2,node=2)
guest.sh -t 1000 -m 1536 -p 320 --bare --nics "$model" "${memory[@]}" -- "$0" --inner
