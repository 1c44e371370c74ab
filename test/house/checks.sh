#!/usr/bin/env bash
# Goal: the layer and symbol checks detect the faults they are for. Method: a small correct tree,
# then one fault at a time, each of which must be named. Covers: scripts/check_layers.py,
# scripts/check_symbols.py
# usage: checks.sh REPO CC
set -eu
scripts=$1/scripts
cc=$2
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/src/util" "$tree/src/core" "$tree/src/io" "$tree/include/lend"

write() { # the correct tree
	echo 'int lend_io(void);' >"$tree/src/io/io.h"
	echo '#include <stdint.h>' >"$tree/src/core/core.h"
	printf '#include "core/core.h"\n#include <string.h>\nint lend_pure(void *p);\nint lend_pure(void *p) { memset(p, 0, 64); return 0; }\n' \
		>"$tree/src/core/core.c"
	printf '#ifdef __cplusplus\nextern "C" {\n#endif\n/* lend_not(void); */\ntypedef void lend_fn(int);\nint lend_api(lend_fn *f,\n\tint n);\nstruct lend_s { void (*done)(int); };\n#ifdef __cplusplus\n}\n#endif\n' \
		>"$tree/include/lend/api.h"
	echo 'int lend_api(void); int lend_api(void) { return 0; }' >"$tree/api.c.txt"
}

layers() { # compiles the pure file and runs the check over it and the tree
	"$cc" -O2 -c -I"$tree/src" -o "$tree/core.o" "$tree/src/core/core.c"
	"$scripts/check_layers.py" "$tree" "$tree/core.o"
}

symbols() {
	"$cc" -shared -fPIC -Wl,-z,relro -Wl,-z,"${binding:-now}" -x c -o "$tree/liblend.so" "$tree/api.c.txt"
	"$scripts/check_symbols.py" "$tree/liblend.so" "$tree/include/lend/api.h"
}

must_name() { # CHECK WORDS: the check must fail and print these words
	if said=$("$1"); then
		echo "the $1 check missed: $2" && exit 1
	fi
	case $said in
	*"$2"*) ;;
	*) echo "the $1 check printed '$said', not: $2" && exit 1 ;;
	esac
	write
}

write
layers
symbols
echo '#include "io/io.h"' >>"$tree/src/core/core.h"
must_name layers "src/core may not include src/io/io.h"
echo '#include <time.h>' >>"$tree/src/core/core.h"
must_name layers "pure code includes <time.h>"
printf 'long time(long *);\nlong lend_when(void);\nlong lend_when(void) { return time(0); }\n' >>"$tree/src/core/core.c"
must_name layers "pure code calls time"
printf 'int lend_count(void);\nint lend_count(void) { static int n; return ++n; }\n' >>"$tree/src/core/core.c"
must_name layers "pure code holds writable state"
echo 'int lend_extra(void); int lend_extra(void) { return 0; }' >>"$tree/api.c.txt"
must_name symbols "exported but not declared: lend_extra"
echo 'int lend_more(void);' >>"$tree/include/lend/api.h"
must_name symbols "declared but not exported: lend_more"
binding=lazy
must_name symbols "not linked with -z relro -z now"
