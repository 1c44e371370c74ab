#!/usr/bin/env bash
# Builds everything, optimised, into build/; installs what the build needs first.
# usage: scripts/build.sh [PRESET [TARGET]...]      release (default) into build/, dev (sanitizers) into build-dev/
#                                                   scripts/build.sh release programs: what users run, without tests
set -eu
cd "$(dirname "$0")/.."

preset=${1:-release}
shift || true
case $preset in
release) dir=build ;;
dev) dir=build-dev ;;
*) echo "build: no such preset: $preset; release or dev" >&2 && exit 2 ;;
esac
scripts/deps.sh build
[ -f $dir/build.ninja ] || cmake --preset "$preset"
cmake --build $dir --target "${@:-all}"
