#!/usr/bin/env bash
# Feeds hostile bytes to the targets of test/fuzz under libFuzzer, ASan and UBSan.
set -euo pipefail
cd "$(dirname "$0")/.."

help() {
	cat <<-EOF
		usage: scripts/fuzz.sh [--seconds N] [--json] [--merge] [TARGET]...

		Builds test/fuzz/fuzz_TARGET.c into build-fuzz/ and runs each TARGET (all, if none is named) for its share of N seconds.
		  --seconds N  in total; 60 unless set
		  --json       one object on stdout instead of the table
		  --merge      afterwards, takes what reached new code into test/fuzz/corpus

		hostile: datagrams to a live core, operations to a store, calls of the API. In the line of all, decodes of wire and
		false marks of shm are not added, being so cheap.

		An input that finds something is kept in build-fuzz/found, the line that replays it is printed, and the exit code is 1.

		examples:
		  scripts/fuzz.sh                       a minute of everything
		  scripts/fuzz.sh --seconds 3600 input  an hour of hostile datagrams
	EOF
}

seconds=60
json=
merge=
targets=()
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) help && exit ;;
	--seconds) seconds=$2 && shift ;;
	--json) json=1 ;;
	--merge) merge=1 ;;
	-*) help >&2 && exit 2 ;;
	*) targets+=("$1") ;;
	esac
	shift
done
if [ ${#targets[@]} -eq 0 ]; then
	for file in test/fuzz/fuzz_*.c; do
		file=${file##*/fuzz_}
		targets+=("${file%.c}")
	done
fi
dir=build-fuzz
mkdir -p $dir/found

build() {
	command -v clang >/dev/null || scripts/deps.sh test
	[ -f $dir/build.ninja ] || cmake --preset fuzz
	cmake --build $dir --target fuzzers
}

weight() { # share of the time: a target with more states gets more
	case $1 in
	input) echo 8 ;;
	store) echo 5 ;;
	api | shm) echo 2 ;;
	*) echo 1 ;;
	esac
}

number() { # KEY FILE: value of KEY in the last object of a target's output; 0 if missing
	sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" "$2" | tail -n 1 | grep . || echo 0
}

run() { # TARGET SECONDS: 0 when nothing was found
	mkdir -p "$dir/corpus/$1"
	"$dir/fuzz_$1" -max_total_time="$2" -max_len=1024 -len_control=0 -timeout=25 -artifact_prefix="$dir/found/$1-" \
		"$dir/corpus/$1" "test/fuzz/corpus/$1" >"$dir/$1.out" 2>"$dir/$1.log"
}

tell_found() { # TARGET
	file=$(sed -n 's/.*Test unit written to //p' "$dir/$1.log" | tail -n 1)
	{
		grep -m 5 -E 'check failed|runtime error|ERROR: AddressSanitizer|^/.*: .*\(|^[^ ]*\.c:[0-9]+:' "$dir/$1.log" ||
			tail -n 5 "$dir/$1.log"
		echo "found by $1; all of it: $dir/$1.log; replay: $dir/fuzz_$1 $file"
	} >&2
}

build >"$dir/build.log" 2>&1 || {
	tail -n 30 "$dir/build.log" >&2
	exit 2
}
weights=0
for target in "${targets[@]}"; do
	weights=$((weights + $(weight "$target")))
done
execs=0 hostile=0 datagrams=0 violations=0 parts=
[ -n "$json" ] || printf '%-8s %8s %12s %14s %s\n' target seconds executions hostile found
for target in "${targets[@]}"; do
	share=$((seconds * $(weight "$target") / weights))
	[ $share -gt 0 ] || share=1
	found=0
	run "$target" $share || found=1
	n=$(number execs "$dir/$target.out") h=$(number hostile "$dir/$target.out")
	[ "$target" != input ] || datagrams=$h
	case $target in input | store | api) hostile=$((hostile + h)) ;; esac
	execs=$((execs + n)) violations=$((violations + found))
	parts="$parts${parts:+,}\"$target\":{\"seconds\":$share,\"execs\":$n,\"hostile\":$h,\"violations\":$found}"
	[ -n "$json" ] || printf '%-8s %8s %12s %14s %s\n' "$target" $share "$n" "$h" $found
	[ $found -eq 0 ] || tell_found "$target"
	if [ -n "$merge" ]; then
		"$dir/fuzz_$target" -merge=1 -use_counters=0 "test/fuzz/corpus/$target" "$dir/corpus/$target" >"$dir/merge.log" 2>&1
	fi
done
if [ -n "$json" ]; then
	echo "{\"seconds\":$seconds,\"execs\":$execs,\"hostile\":$hostile,\"hostile_datagrams\":$datagrams,\"violations\":$violations,\"targets\":{$parts}}"
else
	printf '%-8s %8s %12s %14s %s\n' all "$seconds" $execs $hostile $violations
fi
[ $violations -eq 0 ]
