#!/usr/bin/env bash
# Runs README's two commands in a fresh minimal Debian, to detect packages that scripts/deps.sh does not install.
set -euo pipefail
cd "$(dirname "$0")/.."

help() {
	cat <<-EOF
		usage: scripts/bare.sh [--demo | --shell] [TEST_OPTION]...

		Runs scripts/demo.sh and scripts/test.sh in a new chroot: debootstrap's variant minbase of this host's
		Debian release, with the committed tree (HEAD) in /lend. Needs root, debootstrap and 12 GiB below \$TMPDIR
		(default: /var/tmp); takes as long as both commands and some 10 minutes.
		  --demo    scripts/demo.sh only
		  --shell   a shell in /lend instead
		TEST_OPTION is passed to scripts/test.sh. The chroot uses the host's mirror, APT proxy and resolver; each run
		downloads the packages again, and removes its mounts, processes and folder when it ends.
		Exit status: 0 all passed; 77 this machine cannot run it (one line gives the reason); else a command failed.

		examples:
		  scripts/bare.sh --demo                 the first command, some 5 minutes
		  scripts/bare.sh                        both, in full
		  scripts/bare.sh --quick -R 'unit|io'   the first, then some tests with the release preset
	EOF
}

absent() { # WHY
	echo "bare: $1" >&2
	exit 77
}

apt_option() { # NAME: the host's value, or nothing
	apt-config shell value "$1" | sed -n "s/^value='\(.*\)'$/\1/p"
}

# URI and suite of each Debian source of this host's release; other vendors' sources are left out.
sources() {
	# shellcheck disable=SC2016 # apt's own variables
	apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Identifier: Packages' 'Component: main' |
		awk -v release="$1" '$2 == release || index($2, release "-") == 1' | sort -u
}

run_inside() { # COMMAND...: with an empty environment, apart from the proxy
	env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM="${TERM:-dumb}" ${http_proxy:+"http_proxy=$http_proxy"} \
		${https_proxy:+"https_proxy=$https_proxy"} chroot "$root" sh -c 'cd /lend && exec "$@"' - "$@"
}

# Runs as init of a new pid namespace, in a new mount namespace: the kernel ends both with this process.
if [ "${1:-}" = --inside ]; then
	root=$2
	shift 2
	mount --rbind "$root" "$root" # the kernel refuses user namespaces where / is no mount point
	mount -t proc proc "$root/proc"
	mount --rbind /sys "$root/sys"
	mount --rbind /dev "$root/dev"
	mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
	run_inside "$@"
	exit
fi

commands="demo test"
rest=()
for arg in "$@"; do
	case $arg in
	-h | --help) help && exit ;;
	--demo) commands=demo ;;
	--shell) commands=shell ;;
	*) rest+=("$arg") ;;
	esac
done

[ "$(id -u)" -eq 0 ] || absent "a chroot needs root: sudo scripts/bare.sh"
command -v debootstrap >/dev/null || absent "debootstrap is missing: apt-get install debootstrap"
refused=$(unshare --mount --pid --fork mount -t tmpfs tmpfs /mnt 2>&1) ||
	absent "mount namespaces are refused here: ${refused:-no reason given}"
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
sources=$(sources "$release")
mirror=$(awk -v release="$release" '$2 == release { print $1; exit }' <<<"$sources")
[ -n "$mirror" ] || absent "APT has no source of Debian's release '$release' to take a minimal system from"

http_proxy=${http_proxy:-$(apt_option Acquire::http::Proxy)}
https_proxy=${https_proxy:-$(apt_option Acquire::https::Proxy)}
[ "$http_proxy" != DIRECT ] || http_proxy=
[ "$https_proxy" != DIRECT ] || https_proxy=
export http_proxy https_proxy
root=$(mktemp -d "${TMPDIR:-/var/tmp}/lend-bare.XXXXXX")
chmod 755 "$root" # tests run as other users, which need access to /
child=
remove() {
	[ -z "$child" ] || kill -KILL "$child" 2>/dev/null || true
	rm -rf --one-file-system "$root" 2>/dev/null || { sleep 1 && rm -rf --one-file-system "$root"; } # retried: its processes were ending
	rm -f "$root.log"
}
trap remove EXIT
trap 'exit 130' INT TERM HUP

# Runs a command in new namespaces, in the background, since a signal interrupts "wait" at once.
apart() { # COMMAND...
	local status=0
	unshare --mount --pid --fork --kill-child "$@" <&0 &
	child=$!
	wait "$child" || status=$?
	child=
	return $status
}

echo "== a minimal $release in $root"
apart debootstrap --variant=minbase "$release" "$root" "$mirror" >"$root.log" 2>&1 || {
	tail -n 20 "$root.log" >&2
	echo "bare: debootstrap failed (above)" >&2
	exit 1
}
echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/unsafe-io" # no fsync: the chroot is removed anyway
sed 's/^/deb /; s/$/ main/' <<<"$sources" >"$root/etc/apt/sources.list"
apt-config dump Acquire | grep -Ei '^Acquire::(https?|Check|Retries)' >"$root/etc/apt/apt.conf.d/99host" || true
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
if [[ $sources == *https://* ]]; then # minbase has no certificates
	mkdir -p "$root/etc/ssl/certs"
	cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
fi
mkdir "$root/lend"
git archive HEAD | tar -x -C "$root/lend"

for name in $commands; do
	command=("scripts/$name.sh")
	[ "$name" != shell ] || command=(bash)
	[ "$name" != test ] || command+=(${rest[@]+"${rest[@]}"})
	echo "== ${command[*]}"
	apart scripts/bare.sh --inside "$root" "${command[@]}"
	[ "$name" != demo ] || [ -s "$root/lend/lend-demo.html" ] || {
		echo "bare: scripts/demo.sh ended well and wrote no lend-demo.html: see its output above" >&2
		exit 1
	}
done
echo "== passed: $commands"
