#!/bin/sh
# Instructions per short call that the peer window (src/core/peer_window.h) costs while nothing is congested: those of the
# core, minus those of the same core without the lines that keep the window. A Markdown table on the standard output.
# window_cost.sh [BUILD]
set -eu
build=$(cd "${1:-build}" && pwd)
cd "$(dirname "$0")/../.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
compile() { # SOURCE OBJECT
	cc -O2 -g -DNDEBUG -fPIE -fvisibility=hidden -march=x86-64-v2 -mtune=znver2 -std=c11 -D_GNU_SOURCE -I. -Isrc -Iinclude -Itest -c "$1" -o "$2"
}
without() { # NAME SED-SCRIPT: the object of a source file without some lines
	sed "$2" "src/core/$1.c" >"$dir/$1.c"
	! cmp -s "$dir/$1.c" "src/core/$1.c" || { echo "window_cost: $1.c has changed: correct this script" >&2; exit 1; }
	compile "$dir/$1.c" "$dir/without/$1.o"
}
mkdir "$dir/with"
for file in src/core/*.c src/util/*.c src/wire/*.c test/perf/core_call.c; do
	compile "$file" "$dir/with/$(basename "$file" .c).o"
done
cp -r "$dir/with" "$dir/without"
without short_call '/struct lend_peer \*p = /d; s/p->used + len > p->limit ||//; /lend_peer_of(c, s)->used += len/d
	s/p->limit - p->used)/UINT32_MAX)/'
without short_receive '/lend_peer_release(/d'
without short_burst '/lend_peer_of(c, s)->used += /d'
without loss '/if (s->acked > before)/,/lend_requests_judge(/d; s/^\tmap = new_bits(/\t(void)before;\n&/'
for kind in with without; do
	cc -o "$dir/$kind/run" "$dir/$kind"/*.o "$build/liblend_all.a" -lm
done
core=--collect-atstart=no
for entry in $(sed -n 's/^[a-z].*[ *]\(lend_core_[a-z_]*\)(.*/\1/p' src/core/core.h | sort -u); do
	core="$core --toggle-collect=$entry"
done
count() { # KIND CALLS OPTIONS
	# shellcheck disable=SC2086
	LEND_LEVEL=none valgrind --tool=callgrind --callgrind-out-file=/dev/null $core "$dir/$1/run" -p network $3 -n "$2" 2>&1 >/dev/null |
		sed -n 's/^==[0-9]*== Collected : //p'
}
per_call() { # KIND OPTIONS
	echo $((($(count "$1" 6000 "$2") - $(count "$1" 2000 "$2")) / 400))
}
printf '| calls | instructions of the window |\n|---|---|\n'
for row in '32 in flight|-w 32' '32 in flight, one per datagram|-w 32 -S 32'; do
	tenths=$(($(per_call with "${row#*|}") - $(per_call without "${row#*|}")))
	echo "| ${row%|*} | $((tenths / 10)).$((tenths % 10)) |"
done
