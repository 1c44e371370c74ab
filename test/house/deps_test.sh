#!/usr/bin/env bash
# Goal: scripts/deps.sh installs exactly the missing packages, does not call apt when nothing is
# missing, and uses sudo only when it is not root. Method: its commands are replaced by ones that
# log their calls. Covers: scripts/deps.sh
# usage: deps.sh REPO
set -eu
deps=$1/scripts/deps.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export CALLS=$tmp/calls MISSING="" WHO=0

fake() { # NAME BODY
	printf '#!/bin/sh\n%s\n' "$2" >"$tmp/bin/$1"
	chmod +x "$tmp/bin/$1"
}
mkdir "$tmp/bin"
# shellcheck disable=SC2016 # expanded by the fakes
{
	fake dpkg-query 'for name; do :; done; case " $MISSING " in *" $name "*) exit 1 ;; esac; printf installed'
	fake apt-get 'echo "apt-get $*" >>"$CALLS"'
	fake sudo 'echo sudo >>"$CALLS"; exec "$@"'
	fake id 'echo "$WHO"'
}
expect() { # WANT GROUP...: the expected calls of apt and sudo, without options
	want=$1
	shift
	: >"$CALLS"
	PATH=$tmp/bin:$PATH "$deps" "$@" >"$tmp/out" 2>&1 || echo "failed: $(cat "$tmp/out")" >>"$CALLS"
	got=$(sed -E 's/ -(q|y|o [^ ]*|-[a-z-]*)//g; s/ -(q|y)//g' "$CALLS" | tr '\n' ';')
	[ "$got" = "$want" ] || {
		echo "deps $*: calls '$got', not '$want'"
		exit 1
	}
}

expect "" build test demo social tidy guest interop peers
MISSING="ninja-build mate-backgrounds"
expect "apt-get update;apt-get install ninja-build;" build
expect "apt-get update;apt-get install ninja-build mate-backgrounds;" build demo
expect "" test
WHO=1000
expect "sudo;apt-get update;sudo;apt-get install ninja-build;" build
expect "failed: deps: no such group: nope; one of build test demo social tidy guest interop peers;" nope
