#!/usr/bin/env bash
# Installs what is missing, builds, and runs the demo: by value against by reference, on photographs.
# usage: scripts/demo.sh [OPTION]... [DIR]      passed on to `lend demo`; see `lend demo --help`
set -eu
cd "$(dirname "$0")/.."

scripts/deps.sh build demo
scripts/build.sh release programs
exec build/lend demo "$@"
