#!/usr/bin/env bash
# Goal: README's first command works on a minimal Debian.
# Method: scripts/bare.sh --demo. It downloads and builds for minutes, so it is skipped unless
# LEND_BARE=1.
# Covers: scripts/deps.sh, scripts/bare.sh
# usage: LEND_BARE=1 bare.sh REPO
set -eu
[ "${LEND_BARE:-}" = 1 ] || {
	echo "downloads a minimal Debian and builds in it: LEND_BARE=1 scripts/test.sh --quick -R bare"
	exit 77
}
exec "$1/scripts/bare.sh" --demo
