#!/usr/bin/env bash
# Runs gRPC's interoperability tests against a Lend server, and a Lend client against stock servers. One table.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1-}" in
-h | --help)
	cat <<-EOF
		usage: scripts/interop.sh [--quick] [--json]

		In plaintext and over TLS. Clients: grpc-go's interop client and h2spec, which Go installs when it
		is here, and grpcio. Server of Lend's client: grpc-go's.
		  --quick  without 1,000 concurrent calls
		  --json   one object: cells (client, server, case, tls, result), passed, failed

		examples:
		  scripts/interop.sh --quick
		  scripts/interop.sh --json | jq '.cells[] | select(.result == "failed")'
	EOF
	exit
	;;
esac
scripts/deps.sh build test >&2
scripts/build.sh >&2
cmake --build build --target interop_server interop_client >&2
if command -v go >/dev/null; then
	for program in google.golang.org/grpc/interop/{client,server}@v1.85.0 github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible; do
		go install "$program" >&2 || echo "interop: $program could not be installed: it is left out" >&2
	done
fi
exec python3 -B test/interop/interop.py build "$@"
