#!/usr/bin/env bash
# Checks the layout of every C file against .clang-format; --fix rewrites them.
# usage: scripts/format.sh [--fix]
set -eu
cd "$(dirname "$0")/.."

mode="--dry-run -Werror"
[ "${1:-}" != --fix ] || mode=-i
command -v clang-format >/dev/null || {
	echo "format: no clang-format here: scripts/deps.sh test" >&2
	exit 1
}
# shellcheck disable=SC2086 # two words
find src include cn mn apps test -name '*.[ch]' -print0 2>/dev/null | xargs -0 -n 16 -P 2 clang-format $mode
