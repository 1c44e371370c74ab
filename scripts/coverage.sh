#!/usr/bin/env bash
# Measures clang's branch coverage of the pure layers, by the tests that simulate the machine.
set -euo pipefail
cd "$(dirname "$0")/.."

help() {
	cat <<-EOF2
		usage: scripts/coverage.sh [--seeds N] [--json] [--build]

		Builds the preset coverage (into build-cov/), runs its unit, scenario, replay and simulator tests (of
		which one is 300 seeds) and more seeds up to N, and prints the branch coverage of src/core, src/wire and
		mn/store: a table by file, and each branch that was never taken. The failing arm of a LEND_CHECK is no
		branch.
		  --seeds N   seeds of the simulator, if more than 300
		  --json      one object: {"branches","branches_taken","branch_coverage_percent"}
		  --build     builds, and no more

		examples:
		  scripts/coverage.sh                       table and what is missing
		  scripts/coverage.sh --json | jq .branch_coverage_percent
	EOF2
}

seeds=300
json=
build_only=
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) help && exit ;;
	--seeds) seeds=$2 && shift ;;
	--json) json=--json ;;
	--build) build_only=1 ;;
	*) echo "coverage: no such option: $1; see --help" >&2 && exit 2 ;;
	esac
	shift
done

scripts/deps.sh build test >&2
[ -f build-cov/build.ninja ] || cmake --preset coverage >&2
cmake --build build-cov --target covered -j 2 >&2
[ -z "$build_only" ] || exit 0

raw=$PWD/build-cov/profile
rm -rf "$raw"
mkdir "$raw"
export LLVM_PROFILE_FILE="$raw/%p-%m.profraw" # in-place merging loses data when tests end at the same time
failed=0
ctest --test-dir build-cov -R '^(unit|scen|fuzz|sim)\.' -E '\.planted$' --no-tests=error -j 2 --output-on-failure >"$raw/ctest.log" 2>&1 || {
	cat "$raw/ctest.log" >&2
	failed=1
}
if [ -x build-cov/lend-sim ] && [ "$seeds" -gt 300 ]; then
	build-cov/lend-sim run --quiet --seeds 301.."$seeds" >"$raw/sim.log" 2>&1 || {
		cat "$raw/sim.log" >&2
		failed=1
	}
fi
llvm-profdata merge -sparse -o "$raw/all.profdata" "$raw"/*.profraw
objects=()
for program in build-cov/test/test_{unit,scen,fuzz,sim}_* build-cov/test/fuzz_* build-cov/lend-sim; do
	[ ! -f "$program" ] || objects+=(-object "$program")
done
llvm-cov export -format=text -skip-expansions -instr-profile "$raw/all.profdata" "${objects[@]}" >"$raw/all.json"
scripts/coverage.py $json "$raw/all.json"
exit $failed
