#!/usr/bin/env bash
# Congestion on real stacks: Lend over UDP next to TCP and QUIC, through a switch between network namespaces. As root.
# usage: scripts/netbench.sh [--quick] [--json] [--only WORD]      --help: rows, judgement, examples
set -euo pipefail
cd "$(dirname "$0")/.."
for arg in "$@"; do
	[ "$arg" != --help ] && [ "$arg" != -h ] || exec scripts/netbench.py --help
done
scripts/deps.sh build test peers >&2
scripts/build.sh >&2
exec scripts/netbench.py "$@"
