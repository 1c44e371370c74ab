#!/usr/bin/env bash
# clang-tidy over every C file that the release preset compiles; takes minutes, so it is not one of the tests.
# usage: scripts/tidy.sh [FILE]...
set -eu
cd "$(dirname "$0")/.."

scripts/deps.sh tidy
scripts/build.sh
[ $# -gt 0 ] || {
	files=$(sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' build/compile_commands.json | grep -v '/test/' | sort -u)
	# shellcheck disable=SC2086 # file names of this repository have no blanks
	set -- $files
}
printf '%s\n' "$@" | xargs -n 4 -P 2 clang-tidy -p build --quiet --warnings-as-errors='*'
