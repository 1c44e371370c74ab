#!/bin/sh
# Checks a model in all states of each of its scopes, and that each negative control fails.
# usage: run.sh [--json] MODEL WORKDIR
# In the model's first comment: "scope: OPTIONS, what" and "control: OPTIONS, what is broken".
set -eu
json=
[ "$1" = --json ] && json=yes && shift
model=$(realpath "$1")
name=$(basename "$model" .pml)
mkdir -p "$2"
cd "$2"
states=0
controls=0

# Searches all states of one variant, or until the first error. $1: options, $2: the compiler's
search() {
	# shellcheck disable=SC2086 # options are words
	spin -a $1 "$model" >spin.log && ${CC:-cc} -w $2 -DSAFETY -DNOFAIR -DCOLLAPSE -DMEMLIM=2000 -o pan pan.c
	./pan -m200000 -w22 >pan.log 2>&1 || true
}
lines() { sed -n "s/^ \* $1: *\([^,]*\), .*/\1/p" "$model"; }
why() { sed -n 's/^pan:1: \(.*\) (at depth.*/\1/p' pan.log; }
say() { [ "$json" ] || echo "$@"; }

lines scope >scopes
while read -r options; do
	[ "$options" = - ] && options=
	search "$options" -O2
	if ! grep -q 'errors: 0' pan.log || grep -q 'not completed\|too small' pan.log; then
		cat pan.log
		echo "$name $options: the model fails"
		exit 1
	fi
	n=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' pan.log | awk '{ printf "%d", $1 }')
	say "$name $options: $n states"
	states=$((states + n))
done <scopes

lines control >controls
while read -r options; do
	search "$options" -O0 # most end soon: compiling takes most of the time
	if [ -z "$(why)" ]; then
		cat pan.log
		echo "$name $options: passes, and must not"
		exit 1
	fi
	say "$name $options: $(why)"
	controls=$((controls + 1))
done <controls
[ $controls -ge 4 ] || { echo "$name: only $controls negative controls"; exit 1; }

if [ "$json" ]; then
	echo "{\"model\":\"$name\",\"states\":$states,\"controls\":$controls}"
else
	echo "$name: $states states in all, $controls negative controls"
fi
