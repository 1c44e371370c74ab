#!/usr/bin/env bash
# Checks every carrier against every promise, as one table: order, loss, duplicates, sizes, backpressure, waiting, ...
set -euo pipefail
cd "$(dirname "$0")/.."

help() {
	cat <<-EOF
		usage: scripts/conform.sh [--guest] [--json] [--only CARRIER]... [--suites] [--sleeps N]

		Builds, runs the conformance suite (test/io) of every carrier, the image chain and a memory node over each, and
		prints carriers x promises: ok, FAIL, or - where the machine or the carrier lacks it; reasons below. Exit code 1
		if a cell failed.
		  --guest    carriers that this machine lacks are tried in a guest (scripts/guest.sh): soft-RoCE for verbs
		  --json     one object: {"pass","fail","absent","cells":[{"carrier","case","result","reason","where"}...]}
		  --only C   this carrier; may be repeated
		  --suites   without the programs: no image chain, no memory node
		  --sleeps N the cases about waiting sleep N times, racing with what wakes them (3,000)

		examples:
		  scripts/conform.sh                           the table
		  scripts/conform.sh --guest --json | jq .fail
		  scripts/conform.sh --only udp --only udp6 --suites --sleeps 300000
	EOF
}

for arg in "$@"; do
	case $arg in
	-h | --help) help && exit ;;
	esac
done
scripts/deps.sh build test >&2
scripts/build.sh >&2
exec scripts/conform.py build "$@"
