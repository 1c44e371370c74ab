#!/usr/bin/env bash
# Runs gRPC's interoperability tests against a Lend server, and a Lend client against stock servers. One table.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1-}" in
-h | --help)
	cat <<-EOF
		usage: scripts/interop.sh [--quick] [--soak SECONDS] [--client NAME]... [--json]

		Clients: grpc-go, grpc-java, grpc-ruby, grpc-js, grpc-c++, grpcio (Debian's and 1.85), grpcurl, ghz, h2spec. What is
		not here is downloaded to build/interop, or by Go to its own folder, if its registry can be reached; else its cases
		are skipped, by name. Servers of Lend's client, whose name is lend: grpc-go, grpc-java, grpc-ruby, grpc-c++, grpcio 1.85,
		grpc-js. grpc-run: programs of gRPC C++ under lend grpc-run.
		  --quick           two clients for each case, nothing downloaded but Go's programs, no long cases; under a minute
		  --soak SECONDS    calls of all kinds for so long, in plaintext and over TLS; 600, with --quick none
		  --client NAME     this client alone; may be repeated
		  --json            one object: cells (client, server, case, tls, result), passed, failed, skipped

		examples:
		  scripts/interop.sh --quick
		  scripts/interop.sh --soak 60 --client grpc-java
		  scripts/interop.sh --json | jq '.cells[] | select(.result == "failed")'
	EOF
	exit
	;;
esac
cache=$PWD/build/interop

fetch() { # FILE COMMAND...: runs the command, which makes the file
	[ -e "$1" ] && return
	echo "interop: ${1#"$PWD"/}: downloading" >&2
	"${@:2}" >&2 || echo "interop: ${1#"$PWD"/} could not be downloaded: its cases are skipped" >&2
}

go_program() { # PACKAGE@VERSION
	name=${1%@*}
	fetch "$(go env GOPATH)/bin/${name##*/}" go install "$1"
}

java_classes() {
	cat >"$cache/pom.xml" <<-EOF
		<project><modelVersion>4.0.0</modelVersion><groupId>lend</groupId><artifactId>interop</artifactId><version>1</version><dependencies>
		<dependency><groupId>io.grpc</groupId><artifactId>grpc-interop-testing</artifactId><version>1.62.2</version></dependency>
		</dependencies></project>
	EOF
	mvn -q -B -f "$cache/pom.xml" dependency:build-classpath -Dmdep.outputFile="$cache/java.classpath" -Dmdep.includeScope=runtime
}

python_package() {
	python3 -m venv "$cache/python" && "$cache/python/bin/pip" install -q grpcio==1.85.0
}

scripts/deps.sh build test >&2
scripts/build.sh >&2
cmake --build build --target interop_server interop_client lend >&2
if command -v go >/dev/null; then
	go_program google.golang.org/grpc/interop/client@v1.85.0
	go_program google.golang.org/grpc/interop/server@v1.85.0
	go_program github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible
fi
case " $* " in
*" --quick "*) ;;
*)
	mkdir -p "$cache"
	(scripts/deps.sh interop) >&2 || echo "interop: Debian's packages could not be installed: their cases are skipped" >&2
	cmake build >/dev/null
	cmake --build build --target grpcpp_client grpcpp_server >&2 || echo "interop: no gRPC C++: its cases are skipped" >&2
	if command -v go >/dev/null; then
		go_program github.com/bojand/ghz/cmd/ghz@v0.93.0
		go_program github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3
	fi
	command -v mvn >/dev/null && fetch "$cache/java.classpath" java_classes
	command -v npm >/dev/null && fetch "$cache/node_modules/@grpc/grpc-js" npm install --silent --no-save --prefix "$cache" @grpc/grpc-js
	fetch "$cache/python/bin/pip" python_package
	;;
esac
exec python3 -B test/interop/interop.py build "$@"
