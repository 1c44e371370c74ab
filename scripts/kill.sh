#!/usr/bin/env bash
# Builds what kills processes and runs it: every store of every operation as a fault point, and random
# deaths over shm and udp; after each death an exact count. Options go to build/lend-kill.
# usage: scripts/kill.sh [--seconds N] [--json] [--seed N] ...      see --help
set -eu
cd "$(dirname "$0")/.."

[ -f build/build.ninja ] || cmake --preset release >/dev/null
ninja -C build lend-kill >&2
exec build/lend-kill "$@"
