#!/usr/bin/env bash
# Builds and runs lend-kill, which kills processes: every store of every operation as a fault point, and random
# kills over shm and udp; after each kill all counts must be exact. Options go to build/lend-kill.
# usage: scripts/kill.sh [--seconds N] [--json] [--seed N] ...      see --help
set -eu
cd "$(dirname "$0")/.."

[ -f build/build.ninja ] || cmake --preset release >/dev/null
ninja -C build lend-kill >&2
exec build/lend-kill "$@"
