#!/usr/bin/env bash
# Goal: lend runs over DPDK's own drivers of the NICs that QEMU emulates, with correct bytes.
# Method: one guest per model with two connected NICs; a server on one and callers on the other,
# each a process with an EAL of its own. Short calls, 64 KiB in both directions, 1 MiB in one: every
# byte is compared, and no call may be refused. The server has two addresses and requests four
# queues; it gets as many as the NIC has (vmxnet3: four). MODEL+dma: behind an IOMMU, with jumbo
# frames, so that NICs read long messages without a copy. LEND_NICS="e1000e ..." chooses models.
# Covers: src/io/dpdk/port.c, src/io/dpdk/eal.c, src/io/dpdk/tx_zerocopy.c
set -eu

own_eal() { # NUMBER: of the NIC
	echo "-a 0000:00:1$1.0 -m 128 --file-prefix lend-$1"
}

call() { # PORT COMMAND OPTION...
	local port=$1
	shift
	LEND_EAL=$(own_eal 1) timeout 300 "$LEND_BUILD/lend" "$@" --json --seconds 0.2 \
		--connect 'dpdk:0000:00:11.0@10.77.0.1:'"$port"'?from=10.77.0.2&mac=02:00:00:00:00:10'"${mtu:+&$mtu}"
}

through_iommu() {
	local at
	for at in /sys/bus/pci/devices/0000:00:1[01].0; do
		echo ${at##*/} >$at/driver/unbind
		echo vfio-pci >$at/driver_override
		echo ${at##*/} >/sys/bus/pci/drivers_probe
	done
}

inner() {
	local server i mtu=''
	[ "${1:-}" != dma ] || { through_iommu && mtu=mtu=9000 && export LEND_LEVEL=none; } # what is encrypted is a copy
	"$LEND_BUILD/lend" serve --json --eal "$(own_eal 0)" \
		--listen 'dpdk:0000:00:10.0@10.77.0.1:7000?queues=4'"${mtu:+&$mtu}"',dpdk:0000:00:10.0@10.77.0.1:7001' >/tmp/server &
	server=$!
	for i in {1..2000}; do
		grep -q ready /tmp/server && break
		kill -0 $server
		sleep 0.1 # between polls
	done
	{
		call 7000 rate --count 2000 --window 16
		call 7001 rate --count 500 --window 16
		call 7001 rate --count 20 --window 2 --size 64K
		call 7000 bw --count 8 --window 2 --size 1M
	} >/tmp/calls
	kill $server
	wait $server
	tail -n 1 /tmp/server | cat /tmp/calls - | python3 -c '
import json, sys
small, other, long, bw, server = map(json.loads, sys.stdin)
for got in small, other, long, bw:
    assert (got["errors"], got["wrong_bytes"]) == (0, 0), got
for name in "io_rx_bad", "io_rx_truncated", "seal_rx_corrupt":
    assert server[name] == 0, server
assert server["requests"] >= 2528, server
assert (server["io_tx_in_place"] >= 20) == (sys.argv[1:] == ["dma"]), server
print("%.0f calls/s, %.2f Gbit/s" % (small["calls_per_s"], bw["gbit_per_s"]))' "$@"
}

if [ "${1:-}" = --inner ]; then
	shift
	inner "$@"
	exit
fi
[ -e "$LEND_BUILD/lend_io_dpdk.so" ] || {
	echo "lend_io_dpdk.so was not built (libdpdk-dev)"
	exit 77
}
said=
for model in ${LEND_NICS:-e1000 e1000e vmxnet3 virtio-net-pci vmxnet3+dma}; do
	how=("$0" --inner)
	[ "${model#*+}" = "$model" ] || how=(-p 256 -x vfio_iommu_type1,vfio-pci -q -device -q intel-iommu,aw-bits=48 -k intel_iommu=on -- "$0" --inner dma)
	one=$(guest.sh -t 1500 --bare --nics "${model%+*}" "${how[@]}") || {
		echo "$model failed: $one"
		exit 1
	}
	said="$said${said:+; }$model ${one##*$'\n'}" # QEMU may have printed something before
done
echo "$said"
