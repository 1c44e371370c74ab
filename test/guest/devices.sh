#!/usr/bin/env bash
# Goal: scripts/guest.sh provides the devices that the other tests here request, and returns output
# and status. Method: one guest with all devices, which looks for each; then one that fails, and one
# that takes too long. Covers: scripts/guest.sh
set -eu
memory=$(mktemp /dev/shm/lend-guest-devices.XXXXXX)
trap 'rm -f "$memory"' EXIT
truncate -s 128M "$memory"

guest.sh -t 120 --nics e1000e --dax "$memory" --ivshmem "$memory" -- bash -ec '
	ibv_devinfo -d rxe0 | grep -q PORT_ACTIVE
	ibv_devinfo -d rxe1 | grep -q PORT_ACTIVE
	[ -e /sys/bus/pci/drivers/uio_pci_generic/0000:00:10.0 ]
	[ -e /sys/bus/pci/drivers/uio_pci_generic/0000:00:11.0 ]
	[ "$(cat /proc/sys/vm/nr_hugepages)" = 160 ]
	[ -c /dev/dax0.0 ]
	grep -q 0x1110 /sys/bus/pci/devices/*/device
	touch scripts/guest.sh # which is this guest'"'"'s own from then on
	[ "$LEND_IN_GUEST" = 1 ]'

status=0
said=$(guest.sh -t 60 --bare -- bash -c 'echo "a  b"; echo c >&2; exit 3' 2>/dev/null) || status=$?
[ "$status" = 3 ] && [ "$said" = "a  b" ] || {
	echo "status $status, output '$said'"
	exit 1
}
status=0
guest.sh -t 2 --bare -- true 2>/dev/null || status=$?
[ "$status" = 124 ] || {
	echo "a guest that took too long: status $status"
	exit 1
}
echo "soft-RoCE, NICs, huge pages, ivshmem and DAX are there"
