#!/usr/bin/env bash
# Installs what is missing, builds, and runs one unmodified gRPC C++ program without and with `lend grpc-run`.
# usage: scripts/grpc-demo.sh [--seconds S] [--out FILE]      writes lend-grpc-demo.svg
set -eu
cd "$(dirname "$0")/.."

scripts/deps.sh build peers
scripts/build.sh release programs
exec python3 -B scripts/grpc_demo.py build "$@"
