#!/usr/bin/env bash
# Installs what is missing, builds, and measures the social network by value and by reference; writes social.html.
# usage: scripts/social.sh [OPTION]...      passed on to scripts/social_arms.py; see scripts/social_arms.py --help
set -eu
cd "$(dirname "$0")/.."

scripts/deps.sh build social
scripts/build.sh release lend lend-mn lend-social lend_seal peer_social_grpc ||
	scripts/build.sh release lend lend-mn lend-social lend_seal # without gRPC: one arm less
exec python3 scripts/social_arms.py build "$@"
