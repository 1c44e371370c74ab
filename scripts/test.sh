#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test; the layer and format checks are tests too.
set -euo pipefail
cd "$(dirname "$0")/.."

help() {
	cat <<-EOF
		usage: scripts/test.sh [--quick] [CTEST_OPTION]...

		Runs every test with the release preset and with the dev preset (sanitizers, slow checks), then 8 minutes of
		scripts/reliability.sh.
		  --quick   the release preset only, and no more
		Other options go to ctest; with any of them it ends with the tests.

		examples:
		  scripts/test.sh                        everything
		  scripts/test.sh --quick -R 'unit'      unit tests, optimised
		  scripts/test.sh -R 'io\\.' --verbose    one folder with each test's output
	EOF
}

presets="release dev"
rest=()
for arg in "$@"; do
	case $arg in
	-h | --help) help && exit ;;
	--quick) presets=release ;;
	*) rest+=("$arg") ;;
	esac
done

summary=$(mktemp)
log=$(mktemp)
trap 'rm -f "$summary" "$log"' EXIT
failed=0
scripts/deps.sh build test
for preset in $presets; do
	echo "== $preset: build"
	scripts/build.sh "$preset"
	echo "== $preset: test"
	ctest --preset "$preset" --no-tests=error ${rest[@]+"${rest[@]}"} 2>&1 | tee "$log" || failed=1
	echo "== $preset" >>"$summary"
	sed -n '/tests passed/,$p' "$log" >>"$summary"
done
if [ "$presets" != release ] && [ ${#rest[@]} -eq 0 ]; then
	echo "== reliability"
	scripts/reliability.sh --minutes 8 >"$log" || failed=1
	echo "== reliability" >>"$summary"
	cat "$log" >>"$summary"
fi
cat "$summary"
exit $failed
