#!/usr/bin/env python3
"""Goal: each program of the comparison sends requests, gets answers, verifies and counts, over the
first of its lanes, and over each with TLS; and refuses invalid options in one line.
Method: a short run of every program that is built; skipped (77) where none is.
Covers: apps/peers/checksum.h

usage: peers.py BUILD
"""
import json
import pathlib
import shutil
import subprocess
import sys

BUILD = pathlib.Path(sys.argv[1])
TRIES = 3  # rate x latency is off by more than 3 % if another process gets the CPU at the end


def run(program, *args):
    done = subprocess.run([program, *args], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def check(program):
    code, lanes, err = run(program, "--lanes")
    assert code == 0, (program, err)
    lanes = lanes.split()
    for lane in lanes[:1] + [one for one in lanes[1:] if one.endswith("-tls")]:
        check_lane(program, lane)


def check_lane(program, lane):
    for _ in range(TRIES):
        code, out, err = run(program, "--lane", lane, "--request", "32", "--reply", "8", "--seconds", "0.05", "--json")
        assert code == 0, (program, err)
        got = json.loads(out)
        assert got["check_order"] and got["check_work"] and got["wrong_bytes"] == got["errors"] == 0, got
        assert got["calls"] > 0 and (got["lane"], got["request"], got["reply"]) == (lane, 32, 8), got
        if got["check_in_flight"]:
            break
    assert got["check_in_flight"], got


def check_refusals(program):
    for wrong in (["--lane", "none"], ["--request", "32", "--reply", "9"], ["--window", "0"], ["extra"]):
        code, _, err = run(program, *wrong)
        assert code == 2 and len(err.splitlines()) == 1, (program, wrong, err)


programs = [one for one in sorted(BUILD.glob("peer-*")) if one.name != "peer-social-grpc"]  # of scripts/social.sh
if not programs:
    print("skipped: no program of apps/peers is built")
    sys.exit(77)
for one in programs:
    if one.name == "peer-redis" and not shutil.which("redis-server"):
        print("peer-redis: skipped, no redis-server")
        continue
    check(one)
    print(f"{one.name}: well")
check_refusals(programs[0])
