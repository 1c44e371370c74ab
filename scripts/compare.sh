#!/usr/bin/env bash
# Compares Lend with every peer that can run on this machine: one table, and Lend's performance targets.
set -euo pipefail
cd "$(dirname "$0")/.."

help() {
	cat <<-EOF
		usage: scripts/compare.sh [--by-reference] [--base BUILD] [--quick] [--json] [--only WORD]...
					[--repeats N] [--seconds S] [--results]

		Installs what is missing (gRPC, UCX, libfabric, DPDK: Debian's packages), builds, and runs the same requests through
		each library and over each of Lend's carriers: client and server on a core of their own, the runs of a row in turns
		(A B C, A B C, ...), every answer compared. Prints medians, how far the runs spread, ratios to Lend, and the table of
		targets with what was measured. Exit code 1 if a run failed or a check did not hold; a bar that is missed is said.
		  --by-reference long requests, passed by reference, next to POSIX shared memory, iceoryx2, Redis and Ray: the client
		                 writes each again, the server reads all of it; downloads Ray, and with cargo iceoryx2
		  --base BUILD   also the same runs of another build of Lend. Targets relative to 33660cf are not measured without its build:
		                 git worktree add OLD 33660cf, then cmake --preset release && cmake --build build in OLD
		  --quick        short runs, two of each: under two minutes, good for a look
		  --json         one object with every run, row and target
		  --only WORD    rows whose name has WORD, or the runs of peer WORD, beside Lend's; may be repeated
		  --repeats N    turns of each row (5)
		  --seconds S    of each run (0.5)
		  --results      stores the figures in apps/bench/results.json and renders apps/bench/RESULTS.md; not with --only

		examples:
		  scripts/compare.sh --quick
		  scripts/compare.sh --only echo64 --repeats 9
		  scripts/compare.sh --by-reference --only ref1m
		  scripts/compare.sh --only ucx --json | jq '.targets[] | select(.met == false)'
	EOF
}

reference=
for arg in "$@"; do
	case $arg in
	-h | --help) help && exit ;;
	--by-reference) reference=1 ;;
	esac
done
scripts/deps.sh build >&2
scripts/deps.sh peers >&2 || echo "compare: not every peer could be installed: those that are not here are left out" >&2
scripts/build.sh >&2
# Builds a peer (TARGET OPTION) that other builds are without.
add_peer() {
	{ cmake "$2" build && cmake --build build --target "$1"; } >&2 || echo "compare: $1 could not be built: it is left out" >&2
}
if [ -n "$reference" ]; then
	command -v cargo >/dev/null && add_peer peer_iceoryx2 -DLEND_PEER_ICEORYX2=ON
	ray=$PWD/build/ray/bin/python3
	if "$ray" -c "import ray" 2>/dev/null || { python3 -m venv build/ray && build/ray/bin/pip install -q ray; } >&2; then
		add_peer peer_ray -DLEND_PEER_RAY="$ray"
	else
		echo "compare: Ray could not be installed from PyPI: it is left out" >&2
	fi
fi
exec scripts/compare.py build "$@"
