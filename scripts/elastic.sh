#!/usr/bin/env bash
# Runs `lend bench elastic` where each process that starts DPDK itself has a device of its own, as on a machine with
# several NICs: net_af_packet on veth pairs that a bridge joins, in a network namespace that ends with the command. As root.
#
# usage: scripts/elastic.sh BUILD [OPTION of lend bench elastic]...
# example: scripts/elastic.sh build --rounds 9 --workers 4 --json
set -euo pipefail
[ $# -ge 1 ] && [ "$1" != --help ] || { sed -n '2,6s/^# \?//p' "$0"; exit 2; }
if [ "${LEND_ELASTIC_INSIDE:-}" != 1 ]; then
	LEND_ELASTIC_INSIDE=1 exec unshare --net -- "$0" "$@"
fi
build=$1
shift
ip link set lo up
ip link add lend-bridge type bridge mcast_snooping 0
ip link set lend-bridge up
# net_af_packet names its fanout group by process id xor interface index: distant indices keep processes' groups distinct.
for i in $(seq 19); do # client, node, broker and 16 workers at most
	ip link add "veth$i" index $((i << 12)) mtu 9000 type veth peer name "port$i" mtu 9000
	for end in "veth$i" "port$i"; do
		echo 1 >"/proc/sys/net/ipv6/conf/$end/disable_ipv6"
	done
	ip link set "port$i" master lend-bridge up
	ip link set "veth$i" up
done
exec "$build/lend" bench elastic "$@" --carrier 'dpdk:net_af_packet0@10.0.0.%p:0?mtu=9000 --no-huge -m 256 --no-pci --vdev=net_af_packet0,iface=veth%p,framesz=9216,blocksz=36864'
