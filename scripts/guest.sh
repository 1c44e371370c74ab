#!/usr/bin/env bash
# Runs a command of this machine in a temporary guest with devices that this machine lacks:
# soft-RoCE, emulated NICs, memory shared with another guest.
set -euo pipefail
home=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

help() {
	cat <<-EOF
		usage: scripts/guest.sh [OPTION]... [--] COMMAND [ARGUMENT]...

		Boots Debian's stock kernel in QEMU, in 7 seconds by emulation: no KVM, no network, no modules and no rights on
		this machine. The guest sees this machine's whole file system, and whatever it writes there is its own and ends
		with it. COMMAND runs as root in the current folder with the current environment and LEND_IN_GUEST=1; its output
		and status become this script's. 124: time was up; 125: there was no guest, and why. Several run side by side.

		  -t, --limit SECONDS   boot included (120)
		  -c, --cpus N          at least 2, or atomics in memory shared with another guest are none (2)
		  -m, --memory MIB      its memory (1024)
		  -p, --pages N         huge pages of 2 MiB (0)
		  -o, --out DIR         a folder of this machine that the guest may write to, in the same place
		  -x, --modules A,B     kernel modules to load
		  -b, --bare            no soft-RoCE
		  --nics MODEL          two joined NICs (e1000, e1000e, igb, vmxnet3, virtio-net-pci), without a kernel driver but
		                        uio_pci_generic: at 0000:00:10.0 and 0000:00:11.0; 160 huge pages unless -p says otherwise;
		                        QEMU knows them as nic0 and nic1, and with -M pc can take them away
		  --ivshmem FILE        a PCI device 1af4:1110 whose resource2 is FILE
		  --dax FILE            /dev/dax0.0 is FILE (128 MiB or more, a multiple of it); needs ndctl
		  -q, --qemu ARGUMENT   one more of QEMU's; may be repeated
		  -k, --kernel WORD     one more of the kernel's command line; may be repeated
		  -M, --machine NAME    QEMU's machine (q35)
		  -a, --accel NAME      QEMU's accelerator (tcg,thread=multi)
		  -s, --setup           fetch what is needed, and no more
		  -v, --verbose         the kernel's log on stderr at the end

		Soft-RoCE is rxe0 (10.77.0.1) and rxe1 (10.77.0.2), on the two ends veth0 and veth1 of a pair, MTU 4096; GID index 1
		is RoCEv2 over IPv4. FILE is shared by all guests that name it. Time there is emulated: figures are ratios.

		Debian's packages are installed by scripts/deps.sh guest; its kernel is only unpacked, 43 MB in
		\$LEND_GUEST_CACHE (${XDG_CACHE_HOME:-/var/tmp}/lend-guest), from \$LEND_GUEST_DEB if that names its package.
		Remove the folder to take a newer one.

		examples:
		  scripts/guest.sh -- ibv_devices
		  scripts/guest.sh -t 60 -- bash -c 'build/lend serve --listen udp:10.77.0.1:7000 & sleep 1; build/lend lat udp:10.77.0.1:7000'
		  scripts/guest.sh --bare --nics e1000e -- dpdk-testpmd -l 0-1 -- --stats-period 1
		  truncate -s 256M /dev/shm/pool && scripts/guest.sh --bare --dax /dev/shm/pool -- ls -l /dev/dax0.0
	EOF
}

die() {
	echo "guest: $*" >&2
	exit 125
}

cache=${LEND_GUEST_CACHE:-${XDG_CACHE_HOME:-/var/tmp}/lend-guest}
limit=120 memory=1024 cpus=2 pages='' out='' modules='' machine=q35 accel=tcg,thread=multi dax='' nics=''
bare=false setup_only=false verbose=false
qemu=() kernel=() slots=()

share_file() { # NAME FILE: a memory backend
	local bytes
	bytes=$(stat -L -c %s -- "$2") || die "$2: no such file; make it with truncate -s 256M"
	qemu+=(-object "memory-backend-file,id=$1,share=on,mem-path=$(realpath -- "$2"),size=$bytes")
}

while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) help && exit ;;
	-b | --bare) bare=true ;;
	-s | --setup) setup_only=true ;;
	-v | --verbose) verbose=true ;;
	--) shift && break ;;
	-*)
		[ $# -gt 1 ] || die "$1 needs a value, or is none of the options; see --help"
		case $1 in
		-t | --limit) limit=$2 ;;
		-c | --cpus) cpus=$2 ;;
		-m | --memory) memory=$2 ;;
		-p | --pages) pages=$2 ;;
		-o | --out) out=$(realpath -e -- "$2") || die "$2: no such folder; make it first" ;;
		-x | --modules) modules=${2//,/ } ;;
		-q | --qemu) qemu+=("$2") ;;
		-k | --kernel) kernel+=("$2") ;;
		-M | --machine) machine=$2 ;;
		-a | --accel) accel=$2 ;;
		--nics) nics=$2 ;;
		--dax) dax=$2 ;;
		--ivshmem)
			share_file pool "$2"
			qemu+=(-device ivshmem-plain,memdev=pool)
			;;
		*) die "no such option: $1; see --help" ;;
		esac
		shift
		;;
	*) break ;;
	esac
	shift
done
$setup_only || [ $# -gt 0 ] || {
	help >&2
	exit 125
}
if [ -n "$nics" ]; then
	for i in 0 1; do
		qemu+=(-netdev "hubport,id=net$i,hubid=0"
			-device "$nics,id=nic$i,netdev=net$i,mac=02:00:00:00:00:1$i,addr=1$i.0")
	done
	modules="$modules uio_pci_generic"
fi
if [ -n "$dax" ]; then
	share_file dax "$dax"
	qemu+=(-device nvdimm,id=nvdimm0,memdev=dax)
	machine=$machine,nvdimm=on
	slots=(slots=2 "maxmem=$((memory + 65536))M")
	modules="$modules nfit nd_pmem dax_pmem device_dax"
fi
: "${pages:=$([ -n "$nics" ] && echo 160 || echo 0)}"

# Unpacks the parts of Debian's kernel that a guest needs: the generic kernel, since the cloud kernel lacks soft-RoCE and 9p.
unpack_kernel() {
	local tmp=$cache.new name version
	rm -rf "$tmp" && mkdir -p "$tmp/root" || die "$tmp cannot be written; set LEND_GUEST_CACHE"
	if [ -n "${LEND_GUEST_DEB:-}" ]; then
		cp -- "$LEND_GUEST_DEB" "$tmp/kernel.deb" || die "$LEND_GUEST_DEB cannot be read"
	else
		name=$(apt-cache depends linux-image-amd64 | sed -n 's/^ *Depends: *\(linux-image-[^ ]*\)$/\1/p' | head -n 1)
		[ -n "$name" ] || die "apt knows no linux-image-amd64; run apt-get update, or set LEND_GUEST_DEB"
		(cd "$tmp" && apt-get download -q -q -o APT::Sandbox::User=root "$name") >&2 || die "$name does not come; set LEND_GUEST_DEB"
		mv "$tmp"/linux-image-*.deb "$tmp/kernel.deb"
	fi
	# Some of these are missing in some kernel versions: tar's error is ignored.
	local drivers=kernel/drivers net=kernel/drivers/net
	# shellcheck disable=SC2086 # separate words, some are patterns for tar
	dpkg-deb --fsys-tarfile "$tmp/kernel.deb" | tar -x -C "$tmp/root" --wildcards './boot/vmlinuz-*' $(printf './lib/modules/*/%s ' \
		'modules.*' kernel/{crypto,lib,mm,virt} kernel/fs/{9p,netfs,fscache,overlayfs,configfs,fuse} \
		kernel/net/{9p,core,ipv4,ipv6,sched,802,8021q,llc,bridge,packet,xdp,vmw_vsock} \
		$drivers/{infiniband,virtio,vfio,uio,cxl,dax,nvdimm,dca,ptp,pps,i2c/algos,acpi,char/hw_random} \
		"$drivers/char/virtio_console.ko*" $net/{vmxnet3,ethernet/intel/{e1000,e1000e,igb,igbvf}} \
		$net/{veth,dummy,tun,tap,macvlan,virtio_net,net_failover,mii,mdio}'.ko*') 2>/dev/null || true
	rm -f "$tmp/kernel.deb"
	version=$(ls "$tmp/root/lib/modules") && [ -f "$tmp/root/boot/vmlinuz-$version" ] || die "that package holds no kernel"
	find "$tmp/root/lib/modules" -name '*.ko.xz' -exec busybox unxz {} + # newer kernels compress their modules
	busybox depmod -b "$tmp/root" "$version" || die "depmod failed"
	echo "$version" >"$tmp/version"
	rm -rf "$cache" && mv -T "$tmp" "$cache" || die "$cache cannot be written; set LEND_GUEST_CACHE"
}

# Writes process 1, in busybox: mounts this machine's files, overlays them with a tmpfs and makes that the root folder.
write_init() {
	cat <<-'EOF'
		#!/bin/busybox sh
		b=/bin/busybox
		$b mount -t proc proc /proc
		$b mount -t sysfs sys /sys
		$b mount -t devtmpfs dev /dev
		for module in $($b cat /modules/order); do $b insmod /modules/$module; done
		. /run.conf
		give_up() { echo "guest: $*"; $b reboot -f; }
		plan9=trans=virtio,version=9p2000.L,msize=512000
		$b mount -t 9p -o $plan9,cache=loose,ro host /lower || give_up "no root"
		$b mount -t tmpfs tmpfs /upper
		$b mkdir /upper/files /upper/work
		$b mount -t overlay -o lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work overlay /new || give_up "no overlay"
		for at in proc sys dev; do $b mount --move /$at /new/$at; done
		$b mkdir -p /new/dev/pts /new/dev/shm /new/dev/hugepages /new/run /new/usr/lib/modules
		$b mount -t devpts devpts /new/dev/pts
		for at in dev/shm run; do $b mount -t tmpfs tmpfs /new/$at; done
		$b mount -t hugetlbfs hugetlbfs /new/dev/hugepages
		$b ln -s /proc/self/fd /new/dev/fd
		n=0
		for at in stdin stdout stderr; do $b ln -s /proc/self/fd/$n /new/dev/$at; n=$((n + 1)); done
		$b mount --bind /lower$cache/root/lib/modules /new/usr/lib/modules
		[ -z "$out" ] || $b mount -t 9p -o $plan9,cache=none out "/new$out" || give_up "no $out"
		# This machine may have no modprobe, and the kernel calls one by itself.
		$b cp $b /new/usr/sbin/busybox-guest
		for name in modprobe insmod lsmod; do
			[ -e /new/usr/sbin/$name ] || $b ln -s busybox-guest /new/usr/sbin/$name
		done
		$b mkdir /new/run/guest
		$b cp /main /run.conf /environment /new/run/guest/
		exec $b switch_root /new /bin/bash /run/guest/main
	EOF
}

# Writes the second part of process 1: makes the devices, runs the command, reports its exit status.
write_main() {
	cat <<-'EOF'
		soft_roce() {
			for module in veth rdma_rxe ib_uverbs rdma_ucm ib_umad; do modprobe $module || return; done
			ip link add veth0 mtu 4200 address 02:00:00:4d:00:01 type veth \
				peer name veth1 mtu 4200 address 02:00:00:4d:00:02 || return
			# Both addresses are local, because this kernel's soft-RoCE knows the first
			# network namespace only. Let packets that are sent out of one end really
			# cross to the other, and be received there.
			for i in all veth0 veth1; do
				echo 1 >/proc/sys/net/ipv4/conf/$i/accept_local
				echo 0 >/proc/sys/net/ipv4/conf/$i/rp_filter
			done
			ip rule add pref 100 lookup local && ip rule del pref 0
			for i in 0 1; do
				ip addr add 10.77.0.$((i + 1))/24 dev veth$i && ip link set veth$i up || return
			done
			for i in 0 1; do
				ip rule add pref 1$i oif veth$i lookup 10$i
				ip route add 10.77.0.$((2 - i)) dev veth$i src 10.77.0.$((i + 1)) table 10$i
				ip neigh replace 10.77.0.$((2 - i)) dev veth$i lladdr 02:00:00:4d:00:0$((2 - i)) nud permanent
				rdma link add rxe$i type rxe netdev veth$i || return
			done
			until_there /dev/infiniband/uverbs1
		}
		until_there() {
			for _ in {1..50}; do
				[ -e "$1" ] && return
				sleep 0.1
			done
			echo "guest: no $1 after five seconds" >&2
			return 1
		}
		take_nics() {
			local at
			for at in /sys/bus/pci/devices/0000:00:1[01].0; do
				[ ! -e $at/driver ] || echo ${at##*/} >$at/driver/unbind
				echo uio_pci_generic >$at/driver_override
				echo ${at##*/} >/sys/bus/pci/drivers_probe
				[ -e $at/driver ] || return
			done
		}
		make_dax() {
			ndctl create-namespace --mode=devdax --reconfig=namespace0.0 --force --align=4096 --map=mem >/run/guest/ndctl 2>&1 ||
				{ cat /run/guest/ndctl >&2; return 1; }
			until_there /dev/dax0.0
		}
		devices() {
			ip link set lo up
			for module in $modules; do modprobe $module || return; done
			[ "$pages" = 0 ] || echo $pages >/proc/sys/vm/nr_hugepages
			[ -z "$nics" ] || take_nics || return
			[ -z "$dax" ] || make_dax || return
			$bare || soft_roce
		}
		run() {
			export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
			. /run/guest/run.conf
			devices || { echo "guest: a device could not be set up; -v shows the kernel's log" >&2; exit 125; }
			. /run/guest/environment
			export LEND_IN_GUEST=1
			ulimit -l unlimited
			cd -- "$folder" 2>/dev/null || cd /
			eval "set -- $command"
			exec "$@"
		}
		for port in /sys/class/virtio-ports/*; do
			read -r name <$port/name && declare "port_$name=/dev/${port##*/}"
		done
		(run) </dev/null >$port_out 2>$port_err
		echo $? >$port_status
		busybox-guest sync
		busybox-guest reboot -f
	EOF
}

# Copies the modules for this machine's files and its console, each after its dependencies.
copy_boot_modules() { # FOLDER
	local name path
	for name in virtio_pci 9pnet_virtio 9p overlay virtio_console; do
		for path in $(awk -F': *' -v end="/$name.ko" 'substr($1, length($1) - length(end) + 1) == end {
			for (i = split($2, needs, " "); i > 0; i--) print needs[i]; print $1 }' \
			"$cache/root/lib/modules/$version/modules.dep"); do
			[ ! -f "$1/${path##*/}" ] || continue
			cp "$cache/root/lib/modules/$version/$path" "$1/"
			echo "${path##*/}" >>"$1/order"
		done
	done
}

make_initrd() { # for this run: contains the guest's configuration
	local tree=$job/tree
	mkdir -p "$tree"/{bin,modules,proc,sys,dev,lower,upper,new}
	cp "$(command -v busybox)" "$tree/bin/busybox"
	copy_boot_modules "$tree/modules"
	write_init >"$tree/init" && chmod +x "$tree/init"
	write_main >"$tree/main"
	export -p >"$tree/environment"
	printf '%s=%q\n' modules "${modules# }" pages "$pages" bare "$bare" nics "$nics" dax "$dax" out "$out" cache "$cache" \
		folder "$PWD" command "$(printf '%q ' "$@")" >"$tree/run.conf"
	(cd "$tree" && find . | cpio -o -H newc --quiet | gzip -1) >"$job/initrd.gz"
}

port() { # NAME: a serial port of the guest that writes to the file NAME
	qemu+=(-chardev "file,id=$1,path=$job/$1" -device "virtserialport,chardev=$1,name=$1")
}

"$home/scripts/deps.sh" guest >&2 || exit 125
mkdir -p "$(dirname "$cache")" || exit 125
exec 9>"$cache.lock"
flock 9
[ -s "$cache/version" ] || unpack_kernel
exec 9>&-
version=$(cat "$cache/version")
$setup_only && echo "guest: Linux $version in $cache" && exit

job=$(mktemp -d "${TMPDIR:-/tmp}/lend-guest.XXXXXX") || exit 125
children=()
leave() {
	[ ${#children[@]} -eq 0 ] || kill "${children[@]}" 2>/dev/null || true
	rm -rf "$job"
}
trap leave EXIT
trap 'exit 125' INT TERM HUP
make_initrd "$@"

qemu+=(-device virtio-serial-pci)
for name in out err status; do port $name; done
if [ -n "$out" ]; then
	qemu+=(-fsdev "local,id=out,path=$out,security_model=none" -device virtio-9p-pci,fsdev=out,mount_tag=out)
fi
# Two pipes instead of one terminal: QEMU hangs up a terminal when this script's input ends.
mkfifo "$job/out" "$job/err"
cat "$job/out" & children+=($!)
cat "$job/err" >&2 & children+=($!)
readers=("${children[@]}")
timeout -k 5 "$limit" qemu-system-x86_64 -accel "$accel" -cpu max -smp "$cpus" -machine "$machine" \
	-m "$(IFS=, && echo "$memory${slots[*]+,${slots[*]}}")" -nodefaults -no-user-config -display none -no-reboot -nic none \
	-kernel "$cache/root/boot/vmlinuz-$version" -initrd "$job/initrd.gz" \
	-append "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check tsc=reliable random.trust_cpu=on ${kernel[*]-}" \
	-serial "file:$job/console" -fsdev local,id=host,path=/,security_model=none,readonly=on,multidevs=remap \
	-device virtio-9p-pci,fsdev=host,mount_tag=host "${qemu[@]}" </dev/null 2>"$job/qemu" &
children+=($!)
ended=0
wait "${children[2]}" || ended=$?
children=("${readers[@]}")
wait "${readers[@]}" || true
children=()

$verbose && cat "$job/console" >&2
status=$(cat "$job/status" 2>/dev/null || true)
[ -z "$status" ] || exit "$status"
if [ $ended = 124 ] || [ $ended = 137 ]; then
	echo "guest: the limit of $limit seconds is over" >&2
	exit 124
fi
cat "$job/qemu" >&2
tail -n 20 "$job/console" >&2 || true
die "it ended without a result (QEMU: $ended)"
