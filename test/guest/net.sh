#!/usr/bin/env bash
# Goal: covers what test/net cannot run on a kernel without 8021q and cls_flower: the kernel's VLAN
# interfaces at the other end of the wire, and a driver with flow rules of its own (net_tap, which
# uses the kernel's rules). Method: those tests of test/net in one guest with Debian's kernel.
# Covers: src/io/dpdk/flow.c, src/io/eth/frame.c
set -eu

inner() {
	export PYTHONDONTWRITEBYTECODE=1 LEND_NET_CALLS=200
	python3 test/net/queues.py net_tap --rules
	for kind in net_af_packet net_af_xdp; do
		python3 test/net/calls.py $kind of_the_kernel
	done
}

if [ "${1:-}" = --inner ]; then
	inner 2>&1 | tee /tmp/net.log
	[ "${PIPESTATUS[0]}" = 0 ]
	! grep -q skipped /tmp/net.log
	echo "a kernel's VLAN 4094, both ways, IPv4 and IPv6; by rules of net_tap: $(sed -n 's/^net_tap as_many.*: //p' /tmp/net.log)"
	exit
fi
[ -e "$LEND_BUILD/lend_io_dpdk.so" ] || {
	echo "lend_io_dpdk.so was not built (libdpdk-dev)"
	exit 77
}
guest.sh -t 1000 --bare -x veth,8021q,af_packet,tun,sch_multiq,cls_flower,act_skbedit -- "$0" --inner
