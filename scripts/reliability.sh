#!/usr/bin/env bash
# Runs every search for bugs, for a given number of minutes on two cores, and prints one table of the results.
set -euo pipefail
cd "$(dirname "$0")/.."

help() {
	cat <<-EOF2
		usage: scripts/reliability.sh [--minutes M] [--quarter Q] [--json] [--build]

		Installs what is missing, builds, and then for M minutes (8 unless set; fewer than 5 are exceeded) runs, on two cores:
		  simulator    seeds of lend-sim run on one core: up to 20,000, or without end for more than 8 minutes
		  lent, named  seeds of lend-sim lent: arguments that callers lend; and named: calls by name, streams
		  planted      bugs planted in a copy of the product: each must be found
		  exhaustive   every loss, repeat and delay among the first datagrams; the models of SPIN
		  explorer     every order of events in small scopes
		  fuzzers      hostile datagrams, memory operations, API sequences and ring bytes
		  kills        clients, nodes and servers killed anywhere, and counted exactly
		  sleeps       300,000 sleeps on memif, udp, and a queue with receive interrupts, that race with what
		               wakes them; a run of fewer than 4 minutes tries 30,000
		  memcheck     a memory node and its clients under valgrind
		  coverage     branches of the pure layers that all this takes
		A run of fewer than 8 minutes does another quarter of the longest parts each day, or quarter Q, 1 to 4: it plants every
		fourth bug, and has one of coverage, fuzzers (for four times as long), models and memcheck, in this order.
		With --build it builds, and no more. Prints a table, or with --json one object. Fails on a violation, on a planted bug that was missed, and, from 4,000
		seeds on, on a pair of fault and state that no seed came by. What was found stands in build/reliability.

		examples:
		  scripts/reliability.sh                          everything; all planted bugs
		  scripts/reliability.sh --minutes 3              what continuous integration runs
		  scripts/reliability.sh --minutes 600            overnight
		  scripts/reliability.sh --json | jq .violations
	EOF2
}

minutes=8
quarter=$((1 + 10#$(date -u +%j) % 4))
json=
build_only=
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) help && exit ;;
	--minutes) minutes=$2 && shift ;;
	--quarter) quarter=$2 && shift ;;
	--json) json=--json ;;
	--build) build_only=1 ;;
	*) echo "reliability: no such option: $1; see --help" >&2 && exit 2 ;;
	esac
	shift
done

out=build/reliability
seconds=$(awk -v m="$minutes" 'BEGIN { printf "%d", m * 60 }')
# A short run uses the same seeds on every machine: a failure appears in the first run of the change that causes it.
last_seed=$((seconds > 480 ? 1 << 60 : 20000))
[ "$seconds" -lt 480 ] || quarter=0 # a long run does all
# Planted bugs, exhaustive tests, models and coverage always run to completion; the other parts share the remaining time.
rest=$((seconds > 340 ? seconds - 280 : 60))
seeds_for=$((seconds > 160 ? seconds - 100 : 60))

has_turn() { # PART: a short run does one of these four; they and their builds take longer than its other parts
	[ "$quarter" -eq 0 ] || case $1 in
	coverage) [ "$quarter" -eq 1 ] ;;
	fuzzers) [ "$quarter" -eq 2 ] ;;
	models) [ "$quarter" -eq 3 ] ;;
	memcheck) [ "$quarter" -eq 4 ] ;;
	esac
}

build() {
	scripts/deps.sh build test
	scripts/build.sh release
	! has_turn coverage || scripts/coverage.sh --build
	if has_turn fuzzers; then
		[ -f build-fuzz/build.ninja ] || cmake --preset fuzz
		cmake --build build-fuzz --target fuzzers
	fi
}

tell() {
	echo "$((SECONDS - began)) s: $*" >&2
}

part() { # NAME COMMAND...: stdout goes to NAME.json, stderr to NAME.log; NAME.failed exists after a failure
	local name=$1 since=$SECONDS
	shift
	if "$@" >"$out/$name.json" 2>"$out/$name.log"; then
		tell "$name: done in $((SECONDS - since)) s"
	else
		tell "$name: FAILED, see $out/$name.log"
		tail -n 12 "$out/$name.log" >&2
		touch "$out/$name.failed"
	fi
}

exhaustive() { # the tests of test/scen; one object for each set of masks
	ctest --test-dir build -R '^scen\.' -V --no-tests=error >"$out/scen.txt" 2>&1 || {
		cat "$out/scen.txt" >&2
		return 1
	}
	sed -n 's/^[0-9]*: *\({"exhaustive".*}\).*/\1/p' "$out/scen.txt"
}

models() {
	for model in test/model/*.pml; do
		test/model/run.sh --json "$model" "$out/model" || return 1
	done
}

sleeps() { # a lost wake-up ends a case by its timeout
	local n=$((seconds < 240 ? 30000 : 300000)) suite

	for suite in dpdk_conform:dpdk_memif dpdk_virtio:dpdk_virtio udp:udp; do
		[ -x "build/test/test_io_${suite%:*}" ] || continue
		LEND_MODULE_DIR=build LEND_CONFORM_SLEEPS=$n "build/test/test_io_${suite%:*}" --filter "${suite#*:}/wait" --tap \
			>"$out/${suite%:*}.txt" 2>&1 || {
			cat "$out/${suite%:*}.txt" >&2
			return 1
		}
		! grep -q "^ok - ${suite#*:}::wait *(" "$out/${suite%:*}.txt" || echo "{\"sleeps\": $n}"
	done
}

one_part() { # NAME
	case $1 in
	planted) part planted build/lend-sim planted --jobs 1 --json --quarter "$quarter" ;;
	simulator)
		part simulator build/lend-sim run --json --jobs 1 --no-shrink --seeds "1..$last_seed" \
			--minutes "$(awk -v s="$seeds_for" 'BEGIN { print s / 60 }')"
		tell "simulator: $(sed 's/,"calls".*//' "$out/simulator.json")"
		;;
	coverage) part coverage scripts/coverage.sh --json ;;
	kills) part kills scripts/kill.sh --json --seconds $((rest * 50 / 100)) ;;
	fuzzers) part fuzzers scripts/fuzz.sh --json --seconds $((rest * (quarter ? 140 : 35) / 100)) ;;
	explorer) part explorer build/lend-sim explore --json --seconds $((rest * 10 / 100)) ;;
	lent | named) part "$1" build/lend-sim "$1" --json --seeds 1..1000000 --seconds $((rest * 5 / 200)) ;;
	models) part models models ;;
	memcheck) part memcheck test/kill/memcheck.sh "$PWD/build" ;;
	sleeps) part sleeps sleeps ;;
	exhaustive) part exhaustive exhaustive ;;
	esac
}

# Runs two parts at a time; when one ends, the next one starts. The longest are first.
parts() {
	local name

	for name in simulator exhaustive coverage models memcheck planted kills fuzzers explorer lent named sleeps; do
		has_turn "$name" || continue
		[ "$(jobs -rp | wc -l)" -lt 2 ] || wait -n || true
		one_part "$name" &
	done
	wait
}

if [ -n "$build_only" ]; then
	build
	exit
fi
rm -rf "$out"
mkdir -p "$out"
echo "building" >&2
build >"$out/build.log" 2>&1 || {
	tail -n 30 "$out/build.log" >&2
	exit 2
}
began=$SECONDS
part speed build/lend-sim speed --json
parts
scripts/reliability.py $json --seconds $((SECONDS - began)) "$out"
