#!/usr/bin/env bash
# Goal: C++ programs use the public headers without a warning, with each compiler and standard.
# Method: headers.cc is compiled, not run. Covers: include/lend/rpc.h, include/lend/mem.h,
# include/lend/stats.h, include/lend/stream.h, include/lend/alloc.h
# usage: headers.sh REPO CXX
set -eu
repo=$1
checked=0

check() { # CXX STANDARD [FLAG]...
	"$1" -std="$2" -Wall -Wextra -pedantic -Werror -fsyntax-only -I"$repo/include" "${@:3}" "$repo/test/house/headers.cc"
}

for cxx in "$2" g++ clang++; do
	command -v "$cxx" >/dev/null || continue
	for standard in c++11 c++17 c++20; do
		check "$cxx" "$standard"
		checked=$((checked + 1))
	done
done
[ "$checked" -gt 0 ] || { echo "headers: no C++ compiler" >&2 && exit 1; }
