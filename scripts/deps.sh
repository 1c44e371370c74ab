#!/usr/bin/env bash
# Installs the Debian packages that are missing, and only those. Nothing missing: no apt call at all.
# usage: scripts/deps.sh [build|test|demo|social|tidy|guest|interop|peers]...      default: build
set -eu

packages_of() {
	case $1 in
	build) echo gcc g++ libc6-dev cmake ninja-build pkg-config python3 libcriterion-dev libdpdk-dev libibverbs-dev librdmacm-dev libturbojpeg0-dev libcyaml-dev libyaml-dev libjansson-dev libhttp-parser-dev libmicrohttpd-dev libsodium-dev libipsec-mb-dev libnghttp2-dev libssl-dev zlib1g-dev libprotobuf-c-dev protobuf-c-compiler libprotobuf-dev protobuf-compiler liblmdb-dev libhiredis-dev ;;
	test) echo clang libclang-rt-14-dev llvm clang-format codespell spin valgrind libmimalloc2.0 libjemalloc2 tshark iproute2 prometheus mandoc python3-grpcio openssl dpdk-dev redis-server memcached iperf3 iputils-ping ;;
	demo) echo mate-backgrounds ;;
	social) echo redis-server memcached mate-backgrounds libgrpc++-dev protobuf-compiler-grpc linux-perf chromium ;;
	tidy) echo clang-tidy ;;
	interop) echo ruby-grpc libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc openssl ;;
	peers) echo libucx-dev libfabric-dev libhiredis-dev redis-server libgrpc++-dev protobuf-compiler-grpc libflatbuffers-dev flatbuffers-compiler libdpdk-dev valgrind libmimalloc2.0 libjemalloc2 nghttp2-client ngtcp2-client ngtcp2-server openssl ;;
	guest) echo qemu-system-x86 busybox-static cpio ethtool iproute2 rdma-core ibverbs-providers ibverbs-utils perftest ndctl ;;
	*) echo "deps: no such group: $1; one of build test demo social tidy guest interop peers" >&2 && return 1 ;;
	esac
}

is_installed() {
	[ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing=
for group in "${@:-build}"; do
	packages=$(packages_of "$group")
	command -v dpkg-query >/dev/null || {
		echo "deps: not a Debian system; group $group needs the equivalents of: $packages" >&2
		continue
	}
	for package in $packages; do
		is_installed "$package" || missing="$missing $package"
	done
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
	as_root=sudo
	command -v sudo >/dev/null || {
		echo "deps: missing:$missing; run as root, or install sudo, or: apt-get install$missing" >&2
		exit 1
	}
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
run_apt() {
	$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 "$@" >"$log" 2>&1 && return
	tail -n 20 "$log" >&2
	echo "deps: apt-get $1 failed (above); fix that, then run this again" >&2
	exit 1
}
echo "installing:$missing"
run_apt update
# shellcheck disable=SC2086 # a list of names
run_apt install --no-install-recommends $missing
