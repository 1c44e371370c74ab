#!/usr/bin/env bash
# Goal: an installed Lend is usable by pkg-config and by find_package, from C and from C++. The
# README's example and those of share/lend/examples work against it, and units and manuals name the
# prefix that was chosen at installation. Method: install into an empty prefix, build hello.c both
# ways, compile each header alone, then let a server and a client of that prefix exchange calls;
# install again, as a package of /usr and over a changed configuration. Covers:
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
has() { # FILE WORDS: it is there, and has these words
	grep -qF -- "$2" "$tmp/$1" || fail "$1 is not there or lacks '$2'"
}
has usr/lib/systemd/system/lend-mn.service "ExecStart=\"$tmp/usr/bin/lend-mn\" --config \"$tmp/usr/etc/lend/mn.yaml\""
has usr/lib/systemd/user/lend-mn.service "ExecStart=\"$tmp/usr/bin/lend-mn\" --config"
has usr/share/man/man8/lend-mn.8 "$tmp/usr/etc/lend/mn.yaml"
has usr/share/man/man8/lend-broker.8 lend-broker
has usr/share/man/man5/lend.yaml.5 lend.yaml
has usr/share/man/man1/lend.1 "$tmp/usr/share/lend/wireshark/lend.lua"
has usr/share/lend/wireshark/lend.lua lend.method
has usr/share/lend/examples/mn.user.yaml shm:mn0
cmp "$tmp/usr/etc/lend/mn.yaml" "$tmp/usr/share/lend/examples/mn.yaml" || fail "the configuration is not the example"
echo "size: 2G" >"$tmp/usr/etc/lend/mn.yaml"
cmake --install "$build" --prefix "$tmp/usr" >/dev/null
has usr/etc/lend/mn.yaml "size: 2G"
DESTDIR=$tmp/package cmake --install "$build" --prefix /usr >/dev/null
has package/usr/lib/systemd/system/lend-mn.service 'ExecStart="/usr/bin/lend-mn" --config "/etc/lend/mn.yaml"'
has package/etc/lend/mn.yaml listen:
rm -r "$tmp/package"

mv "$tmp/usr" "$tmp/moved" # an installed tree may be moved
lib=$(dirname "$(find "$tmp/moved" -name liblend.so)")
export PKG_CONFIG_PATH=$lib/pkgconfig LD_LIBRARY_PATH=$lib XDG_RUNTIME_DIR=$tmp/run XDG_CONFIG_HOME=$tmp
mkdir -m 700 "$XDG_RUNTIME_DIR"
[ "$(pkg-config --modversion lend)" = "$version" ] || fail "lend.pc names another version than $version"

# shellcheck disable=SC2046,SC2086 # lists of flags
"$cc" -std=c11 -Wall -Wextra -Werror $flags -o "$tmp/hello" "$here/../../../apps/examples/hello.c" $(pkg-config --cflags --libs lend)
for header in "$tmp/moved/include/lend/"*.h; do
	echo "#include <lend/$(basename "$header")>" >"$tmp/alone"
	# shellcheck disable=SC2046
	"$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c "$tmp/alone" $(pkg-config --cflags lend)
	# shellcheck disable=SC2046
	"$cxx" -std=c++11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c++ "$tmp/alone" $(pkg-config --cflags lend)
done

programs=$tmp/moved/bin
answers() { # NAME: a name is there before its server accepts connections
	[ -e "$XDG_RUNTIME_DIR/lend/$1" ] && "$programs/lend" ping --count 1 "shm:$1" >/dev/null 2>&1
}
"$programs/lend" --help >/dev/null || fail "the installed lend does not start"
"$programs/lend-mn" --help >/dev/null || fail "the installed lend-mn does not start"
if [ -e "$lib/lend/lend_io_dpdk.so" ]; then
	(cd / && "$programs/lend" doctor) >"$tmp/doctor"
	grep -q '^ok *dpdk:ring' "$tmp/doctor" || fail "the installed lend does not find its dpdk module: $(grep dpdk "$tmp/doctor")"
fi

mkdir "$tmp/user"
cat >"$tmp/user/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.25)
project(user C)
find_package(Lend ${version%.*} REQUIRED)
add_executable(hello $here/../../../apps/examples/hello.c)
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
	for _ in $(seq 500); do # at most 10 s
		answers "$name" && break
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
for _ in $(seq 500); do # at most 10 s
	answers hello && break
	kill -0 "$server" 2>/dev/null || fail "the server ended by itself"
	sleep 0.02
done
said=$("$tmp/user/build/hello" Ada)
[ "$said" = "hello, Ada" ] || fail "the client printed '$said'"
kill "$server"
wait "$server" 2>/dev/null || true
server=
! "$tmp/hello" "nobody there" >/dev/null 2>"$tmp/why" || fail "a client without a server succeeded"
[ "$(wc -l <"$tmp/why")" -eq 1 ] || fail "a client without a server says: $(cat "$tmp/why")"

# The examples, built as their heads show.
examples=$tmp/moved/share/lend/examples
for source in "$examples"/*.c; do
	[ ! -e "${source%.c}.proto" ] || continue # needs liblend-grpc, below
	# shellcheck disable=SC2046,SC2086
	"$cc" -std=c11 -Wall -Wextra -Werror $flags -o "$tmp/$(basename "$source" .c)" "$source" $(pkg-config --cflags --libs lend)
done
# shellcheck disable=SC2046,SC2086
"$cxx" -std=c++17 -Wall -Wextra -Werror $flags -o "$tmp/kv" "$examples/kv.cc" $(pkg-config --cflags --libs lend)
began= # processes that run
trap 'kill $began 2>/dev/null || true; rm -rf "$tmp"' EXIT
begin() { # NAME PROGRAM ARG...: starts a server, until it answers; at most 10 s
	rm -f "$XDG_RUNTIME_DIR/lend/$1"
	"${@:2}" >"$tmp/$1.out" &
	began="$began $!"
	for _ in $(seq 500); do
		answers "$1" && return
		sleep 0.02
	done
	fail "$2 does not serve at shm:$1"
}
says() { # WANT PROGRAM ARG...: prints that
	said=$("${@:2}" 2>&1) || [ "${said#"$1"}" != "$said" ] || fail "$2 failed: $said"
	[ "$said" = "$1" ] || fail "$2 printed '$said', not '$1'"
}
begin mn0 "$programs/lend-mn" --listen shm:mn0 --size 64M
begin hello "$tmp/hello"
begin kv "$tmp/kv"
begin slow "$tmp/slow"
begin back "$tmp/tiers" back
begin front "$tmp/tiers" front
says "hello, world" "$tmp/hello" world
says "hello, world" "$programs/lend" call shm:hello 1 --data world
says "" "$tmp/kv" put color blue
says blue "$tmp/kv" get color
says "kv: taste: status 5" "$tmp/kv" get taste
says OK "$tmp/slow" 0.05
says DEADLINE_EXCEEDED "$tmp/slow" 60 0.2
"$tmp/slow" 60 >"$tmp/cancelled" &
caller=$!
until grep -qs slow "/proc/$caller/comm" || ! kill -0 "$caller" 2>/dev/null; do # a signal before the exec would end the shell's copy
	sleep 0.01
done
for _ in $(seq 500); do # until the call was cancelled
	kill -INT "$caller" 2>/dev/null || break
	sleep 0.02
done
wait "$caller" && fail "a cancelled call succeeded"
has cancelled CANCELLED
for _ in $(seq 500); do # its workers end what nobody waits for
	[ "$(grep -c "gave up" "$tmp/slow.out")" -ge 1 ] && break
	sleep 0.02
done
has slow.out "the caller gave up"
says 10 "$tmp/tiers" count "$tmp/few"
says 500000 "$tmp/tiers" count "$tmp/many"
if [ -e "$examples/greeter.proto" ]; then
	lend() {
		"$programs/lend" "$@"
	}
	cc() {
		# shellcheck disable=SC2086
		"$cc" -w $flags "$@"
	}
	for source in "$examples"/{dictionary.cc,replicate.c,tensors.c} "$here/presence.c"; do
		name=$(basename "${source%.*}")
		lend protoc -I"$(dirname "$source")" --c_out="$tmp" "${source%.*}.proto"
		# shellcheck disable=SC2046,SC2086
		cc -std=c11 -c -o "$tmp/$name.o" "$tmp/$name.pb-c.c" $(pkg-config --cflags lend-grpc)
		compiler="$cc -std=c11"
		[ "$name" != dictionary ] || compiler="$cxx -std=c++17"
		# shellcheck disable=SC2046,SC2086
		$compiler -Wall -Wextra -Werror $flags -I"$tmp" -o "$tmp/$name" "$source" "$tmp/$name.o" \
			$(pkg-config --cflags --libs lend-grpc)
	done
	# The README's two commands from a .proto file to an answer.
	mkdir "$tmp/service"
	cp "$examples"/greeter.{proto,c} "$tmp/service"
	cd "$tmp/service"
	commands=$(sed -n '/^lend protoc/,/greeter &/p' "$here/../../../README.md")
	[ "${commands% && ./greeter &*}" != "$commands" ] || fail "the README has no commands for a .proto file"
	eval "${commands% && ./greeter &*}"
	begin greeter ./greeter
	says '{"text":"hello, Ada"}' eval "$(sed -n '/^lend call/p' "$here/../../../README.md")"
	says "hello, Ada" ./greeter Ada
	says "greeter: status 3" ./greeter ""
	PATH=$PATH:${GOPATH:-$HOME/go}/bin
	if [ -e "$lib/lend/lend_gateway.so" ] && command -v grpcurl >/dev/null; then
		port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
		commands=$(sed -n '/^.\/greeter at/,/^grpcurl/p' "$here/../../../README.md" | sed "s/50051/$port/g")
		eval "${commands%grpcurl*}"
		began="$began $!"
		for _ in $(seq 20); do # until it listens
			said=$(eval "timeout 2 grpcurl${commands##*grpcurl}" 2>&1 | tr -d ' \n') && [ "$said" = '{"text":"hello,Ada"}' ] && break
			sleep 0.02
		done
		[ "$said" = '{"text":"hello,Ada"}' ] || fail "grpcurl got $said"
	fi
	if [ -e "$lib/lend/liblend-grpc-preload.so" ]; then # test/preload has unchanged programs
		commands=$(sed -n '/^lend grpc-run/s/ *#.*//p' "$here/../../../README.md")
		# Of a build with sanitizers: they must be loaded first.
		sanitizer=$(ldd "$lib/lend/liblend-grpc-preload.so" | sed -n 's/.*libasan.* => \([^ ]*\).*/\1/p')
		says "with 127.0.0.1:50051" eval "LD_PRELOAD=$sanitizer ${commands/.\/cpp_client/echo with}"
	fi
	begin presence "$tmp/presence"
	echoes() { # JSON [OPTION...]: calls the echo
		lend call shm:presence /presence.Echo/Echo --proto "$here/presence.proto" --data "$@"
	}
	for all in '{}' '{"number":0,"text":"","inner":{"flag":false},"name":"","list":[{},{"flag":true}],"blob":"AAE="}' \
		'{"number":-1,"text":"x","inner":{},"id":"0"}'; do
		said=$(echoes "$all" 2>"$tmp/metadata")
		[ "$said" = "$all" ] || fail "the message $all became $said"
	done
	echoes '{"number":0}' --json --header k:x --header k:y --header k-bin:AAE= >"$tmp/echo"
	has echo '"initial": {"k": ["x", "y"], "k-bin": "AAE=", "zero": "there"}, "trailing": {"k": ["x", "y"]'
	has echo '"status": 0, "status_name": "OK"'
	has echo '"reply": {"number":0}}'
	begin dictionary "$tmp/dictionary"
	says "" "$tmp/dictionary" put color blue
	says blue "$tmp/dictionary" put color red
	says red "$tmp/dictionary" get color
	says "dictionary: no such key" "$tmp/dictionary" get taste
	says "" "$tmp/dictionary" put taste sweet
	says "color red
taste sweet" "$tmp/dictionary" scan color
	says "taste sweet" "$tmp/dictionary" scan d
	says "" "$tmp/dictionary" scan x
	for follower in 1 2 3 4 5 6 7 8; do
		begin "follower$follower" "$tmp/replicate" "follower$follower"
	done
	says "8 followers, 100 entries, 0 missing" "$tmp/replicate" 200000 follower{1..8}
	protoc -I"$examples" -I"$tmp/moved/include" --include_imports --descriptor_set_out="$tmp/tensors.desc" "$examples/tensors.proto"
	begin tensors "$tmp/tensors"
	says "error 125000" "$tmp/tensors" 5 "$tmp/tensors.desc"
fi
