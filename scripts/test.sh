#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test; the layer and format checks are tests too.
set -euo pipefail
cd "$(dirname "$0")/.."

help() {
	cat <<-EOF
		usage: scripts/test.sh [--quick | --guest] [CTEST_OPTION]...

		Runs every test with the release preset and with the dev preset (sanitizers, slow checks), then
		scripts/reliability.sh for some 3 minutes. What comes next is built while tests run.
		  --quick   the release preset only, and no more
		  --guest   the release preset's tests that boot a guest (some minutes), and no more; their results and the day
		            are written into test/guest/README.md
		Other options go to ctest; with any of them it ends with the tests.

		examples:
		  scripts/test.sh                        everything
		  scripts/test.sh --quick -R 'unit'      unit tests, optimised
		  scripts/test.sh -R 'io\\.' --verbose    one folder with each test's output
		  scripts/test.sh --guest               soft-RoCE, emulated NICs, memory between two hosts
	EOF
}

# New rows replace the rows of the same tests in the table of the last run.
write_guest_table() {
	local page=test/guest/README.md row
	[ -d build/guest ] || return 0
	{
		sed '/<!-- last -->/q' "$page"
		echo "| test | result | took | | day |"
		echo "|---|---|---|---|---|"
		{
			for row in build/guest/*.row; do
				sed "s/\$/ $(date -u +%F) |/" "$row"
			done
			sed '1,/<!-- last -->/d; /<!-- end -->/,$d; /^| test |/d; /^|---/d' "$page"
		} | sort -s -u -t '|' -k 2,2
		sed -n '/<!-- end -->/,$p' "$page"
	} >build/guest.md
	cp build/guest.md "$page"
	sed -n '/^| test/,/<!-- end -->/p' "$page" | sed '$d'
}

presets="release dev"
guest=false
rest=()
for arg in "$@"; do
	case $arg in
	-h | --help) help && exit ;;
	--quick) presets=release ;;
	--guest) guest=true ;;
	*) rest+=("$arg") ;;
	esac
done

if $guest; then
	scripts/deps.sh build test guest
	scripts/build.sh release
	rm -rf build/guest
	failed=0
	LEND_GUEST=1 ctest --preset release -L guest --no-tests=error ${rest[@]+"${rest[@]}"} || failed=1
	write_guest_table
	exit $failed
fi
summary=$(mktemp)
log=$(mktemp)
built=$(mktemp)
builder=
trap '[ -z "$builder" ] || kill -- "-$builder" 2>/dev/null || true; rm -f "$summary" "$log" "$built"' EXIT
failed=0

# Builds the programs of the next tests while the current tests run, at the lowest priority: many tests wait more than they
# compute. The build has its own session, so that one kill ends all of it. The kernel may divide CPU time between sessions
# first (autogroups), so the session's priority is lowered as well.
begin_building() { # COMMAND...
	# shellcheck disable=SC2016 # the inner shell's own
	setsid nice -n 19 bash -c '{ echo 19 >/proc/self/autogroup; } 2>/dev/null || true; exec "$@"' - "$@" >"$built" 2>&1 &
	builder=$!
}

end_building() {
	local status=0
	# This script waits for the build now: restore its priority, where the kernel permits it.
	{ renice -n 0 -g "$builder" && echo 0 >"/proc/$builder/autogroup"; } >/dev/null 2>&1 || true
	wait "$builder" || status=$?
	builder=
	cat "$built"
	return $status
}

build_after() { # PRESET: starts the build for the step after this preset's tests
	if [ "$1 $presets" = "release release dev" ]; then
		begin_building scripts/build.sh dev
	elif [ "$1" = dev ] && [ "$whole" = yes ]; then
		begin_building scripts/reliability.sh --build
	fi
}

scripts/deps.sh build test
whole=$([ "$presets" != release ] && [ ${#rest[@]} -eq 0 ] && echo yes || true)
for preset in $presets; do
	# A whole run does these once: exhaustive tests, models, memcheck, the explorer and the seeds of the optimised simulator
	# in reliability.sh, which it ends with; with sanitizers, tests between network namespaces and long tests of protocols;
	# without, those of the sources and of programs that measure.
	also=()
	[ "$whole" != yes ] || case $preset in
	release) also=(-E '^(scen|model|net)\.|^sim\.(explore|seeds)$|^kill\.(fail_nth|memcheck)$|^e2e\.(apps|capture|mem_ops|mem_pointer_end|operate|rpc_hoard_raw|small_shm|social_drills)$|^io\.(dpdk_veth|multihost_hostile|shm_handshake)$') ;;
	dev) also=(-E '^(house|interop)\.|^scen\.exhaustive_|^e2e\.(bench_.*|copied|images|install|load|social)$') ;;
	esac
	echo "== $preset: build"
	if [ -n "$builder" ]; then
		end_building || exit
	else
		scripts/build.sh "$preset"
	fi
	build_after "$preset"
	echo "== $preset: test"
	# Three at once on two CPUs: many tests wait more than they compute.
	ctest --preset "$preset" -j 3 --no-tests=error ${also[@]+"${also[@]}"} ${rest[@]+"${rest[@]}"} 2>&1 | tee "$log" || failed=1
	echo "== $preset" >>"$summary"
	sed -n '/tests passed/,$p' "$log" >>"$summary"
done
if [ "$whole" = yes ]; then
	echo "== reliability"
	end_building || true # a failed build prints its own error
	scripts/reliability.sh --minutes 3 >"$log" || failed=1
	echo "== reliability" >>"$summary"
	cat "$log" >>"$summary"
fi
cat "$summary"
exit $failed
