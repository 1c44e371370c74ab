#!/usr/bin/env bash
# Goal: an installed Lend is usable by pkg-config and by find_package, from C and from C++, and the
# README's example works against it. Method: install into an empty prefix, build hello.c both ways,
# compile each header alone, then let a server and a client of that prefix exchange calls. Covers:
# third_party/lib.cmake, third_party/lend.pc.in
# usage: install.sh BUILD_DIR VERSION CC CXX [FLAG]...
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$1 version=$2 cc=$3 cxx=$4
shift 4
flags=$*
tmp=$(mktemp -d)
server= node=
trap '[ -z "$server$node" ] || kill $server $node 2>/dev/null || true; rm -rf "$tmp"' EXIT
fail() {
	echo "install: $1" >&2
	exit 1
}

cmake --install "$build" --prefix "$tmp/usr" >/dev/null
mv "$tmp/usr" "$tmp/moved" # an installed tree may be moved
lib=$(dirname "$(find "$tmp/moved" -name liblend.so)")
export PKG_CONFIG_PATH=$lib/pkgconfig LD_LIBRARY_PATH=$lib XDG_RUNTIME_DIR=$tmp/run
mkdir -m 700 "$XDG_RUNTIME_DIR"
[ "$(pkg-config --modversion lend)" = "$version" ] || fail "lend.pc names another version than $version"

# shellcheck disable=SC2046,SC2086 # lists of flags
"$cc" -std=c11 -Wall -Wextra -Werror $flags -o "$tmp/hello" "$here/hello.c" $(pkg-config --cflags --libs lend)
for header in "$tmp/moved/include/lend/"*.h; do
	echo "#include <lend/$(basename "$header")>" >"$tmp/alone"
	# shellcheck disable=SC2046
	"$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c "$tmp/alone" $(pkg-config --cflags lend)
	# shellcheck disable=SC2046
	"$cxx" -std=c++11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c++ "$tmp/alone" $(pkg-config --cflags lend)
done

programs=$tmp/moved/bin
"$programs/lend" --help >/dev/null || fail "the installed lend does not start"
"$programs/lend-mn" --help >/dev/null || fail "the installed lend-mn does not start"
if [ -e "$lib/lend/lend_io_dpdk.so" ]; then
	(cd / && "$programs/lend" doctor) >"$tmp/doctor"
	grep -q '^ok *dpdk-ring' "$tmp/doctor" || fail "the installed lend does not find its dpdk module: $(grep dpdk "$tmp/doctor")"
fi

mkdir "$tmp/user"
cat >"$tmp/user/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.25)
project(user C)
find_package(Lend ${version%.*} REQUIRED)
add_executable(hello $here/hello.c)
target_link_libraries(hello PRIVATE Lend::lend)
EOF
cmake -S "$tmp/user" -B "$tmp/user/build" -G Ninja -DCMAKE_PREFIX_PATH="$tmp/moved" -DCMAKE_C_COMPILER="$cc" \
	-DCMAKE_C_FLAGS="$flags" >/dev/null
cmake --build "$tmp/user/build" >/dev/null

# A short argument and a long one: both arrive, and the node has nothing left of them.
# shellcheck disable=SC2046,SC2086
"$cc" -std=c11 -Wall -Wextra -Werror $flags -o "$tmp/lines" "$here/lines.c" $(pkg-config --cflags --libs lend)
"$programs/lend-mn" --listen shm:mn0 --size 16M >"$tmp/mn" &
node=$!
"$tmp/lines" &
server=$!
for name in mn0 lines; do
	for _ in $(seq 500); do # until it serves; at most 10 s
		[ -e "$XDG_RUNTIME_DIR/lend/$name" ] && break
		sleep 0.02
	done
done
# The examples of the man 3 pages, and a page under the name of a function that has none of its own.
# shellcheck disable=SC2046,SC2086
"$cc" -std=c11 -D_DEFAULT_SOURCE -Wall -Wextra -Werror $flags -o "$tmp/pages" "$here/pages.c" $(pkg-config --cflags --libs lend) -lpthread
"$tmp/pages" >"$tmp/said" || fail "an example of the man pages fails"
grep -q '^lend1:.*@shm:mn0$' "$tmp/said" || fail "an example of the man pages prints no reference"
[ ! -d "$tmp/moved/share/man/man3" ] || [ -s "$tmp/moved/share/man/man3/lend_close.3" ] || fail "there is no page lend_close(3)"
seq 10 >"$tmp/few"
seq 500000 >"$tmp/many"
for want in 10:few 500000:many; do
	said=$("$tmp/lines" "$tmp/${want#*:}")
	[ "$said" = "${want%:*}" ] || fail "lines counted '$said' in ${want#*:}"
done
"$programs/lend" mem stat --node shm:mn0 --json | grep -q '"refs": 0' || fail "a reference is left of an argument"
kill "$server" "$node"
wait "$server" "$node" 2>/dev/null || true
server= node=

"$tmp/hello" &
server=$!
for _ in $(seq 500); do # until its name is there; at most 10 s
	[ -e "$XDG_RUNTIME_DIR/lend/hello" ] && break
	kill -0 "$server" 2>/dev/null || fail "the server ended by itself"
	sleep 0.02
done
said=$("$tmp/user/build/hello" Ada)
[ "$said" = "Hello, Ada" ] || fail "the client printed '$said'"
kill "$server"
wait "$server" 2>/dev/null || true
server=
! "$tmp/hello" "nobody there" >/dev/null 2>"$tmp/why" || fail "a client without a server succeeded"
[ "$(wc -l <"$tmp/why")" -eq 1 ] || fail "a client without a server says: $(cat "$tmp/why")"
