#!/bin/sh
# figures - draws every figure in src/core/figures again: an SVG file of each experiment on
# congestion, all algorithms in one figure, and its numbers as a CSV file, which git ignores.
#
#   scripts/figures.sh [--quick] [--only NAME] [--jobs N] [--build DIR] [FOLDER]
#
# FOLDER is src/core/figures by default. --quick: the same figures of small networks for a
# short time; their values are meaningless, they only show that every step works.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build
jobs=$(nproc)
only=.
quick=
folder=
while [ $# -gt 0 ]; do
	case $1 in
	--quick) quick=1 ;;
	--only) only=$2; shift ;;
	--jobs) jobs=$2; shift ;;
	--build) build=$2; shift ;;
	-*) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | sed '$d' >&2; exit 2 ;;
	*) folder=$1 ;;
	esac
	shift
done
folder=${folder:-$root/src/core/figures}
sim=$build/lend-sim
[ -x "$sim" ] || { echo "$sim: not there; build it first: ninja -C $build lend-sim" >&2; exit 1; }
mkdir -p "$folder"

# Per line: NAME and the experiment's arguments.
if [ "$quick" ]; then
	cat <<-END
	incast-4mb congestion --senders 4,16,48
	incast-16mb congestion --senders 4,16 --buffer-kb 16384
	load fabric --hosts 16 --mix w4 --load 20,60 --us 150
	mixes fabric --hosts 16 --mix w1,w2,w3,w4,w5 --load 60 --us 150 --messages 1000
	large fabric --hosts 64 --racks 4 --spines 1 --mix w3 --load 10,20 --us 60 --peers 4
	large-flow fabric --hosts 64 --racks 4 --spines 2 --spread 0 --mix w3 --load 10,20 --us 60 --peers 4
	failure fabric --hosts 16 --racks 4 --fail 4 --detect-us 20 --mix w3 --load 60 --us 200
	sharing sharing --senders 3 --step-us 200
	END
else
	cat <<-END
	incast-4mb congestion --senders 8,32,128,512,1024,2048,4096
	sharing sharing
	load fabric --mix w4 --load 10,30,50,70,80,90,95 --us 1500
	mixes fabric --mix w1,w2,w3,w4,w5 --load 80 --us 1500 --messages 100000
	failure fabric --fail 9 --mix w4 --load 65 --us 3600 --detect-us 100
	incast-16mb congestion --senders 8,32,128,512,1024,2048,4096 --buffer-kb 16384
	large fabric --hosts 1024 --spines 2 --mix w4 --load 5,10,15,20 --us 300 --peers 16
	large-flow fabric --hosts 1024 --spines 2 --spread 0 --mix w4 --load 5,10,15,20 --us 300 --peers 16
	END
fi | grep -E "^[a-z0-9-]*$only" |
	sed "s|^\([^ ]*\) \(.*\)|'$sim' \2 --csv --plot '$folder/\1.svg' >'$folder/\1.csv' \&\& echo \1|" |
	xargs -d '\n' -P "$jobs" -I{} sh -c '{} || exit 255'
