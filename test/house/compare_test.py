#!/usr/bin/env python3
"""Goal: scripts/compare.py reports the programs' numbers: medians and ratios of turns at one
distance, targets met and missed, every self check that failed, every program that failed or is
missing.
Method: a folder of programs that print what a plan says, turn after turn; the expected output is
known.
Covers: scripts/compare.py, scripts/compare_show.py

usage: compare_test.py REPO
"""
import json
import pathlib
import subprocess
import sys
import tempfile

REPO = pathlib.Path(sys.argv[1])
RUN = {"p50_us": 1.0, "p99_us": 2.0, "calls_per_s": 1e6, "gbit_per_s": 1.0, "cycles_per_call": 100, "one_thread": False,
       "check_in_flight": True, "check_order": True, "check_work": True, "wrong_bytes": 0, "line_ns_before": 80, "line_ns_after": 80}
# Turn n of a lane prints file n, or the last one there is.
FAKE = """#!/bin/sh
n=0
[ ! -f "$0.$2.turn" ] || read -r n <"$0.$2.turn"
echo $((n + 1)) >"$0.$2.turn"
while [ ! -f "$0.$2.$n" ] && [ $n -gt 0 ]; do n=$((n - 1)); done
[ -f "$0.$2.$n" ] && file=$0.$2.$n || file=$0.default
read -r line <"$file"
case $line in {*) echo "$line" ;; *) echo "$line" >&2 && exit 1 ;; esac
"""
UCX = "round trip over shm, of UCX's"
FAR = {"line_ns_before": 400, "line_ns_after": 420}
MIXED = {"line_ns_before": 80, "line_ns_after": 420}


def compare(plan, *args):
    """The exit code, the output, and the object; the programs of plan follow it, run by run and
    lane by lane."""
    with tempfile.TemporaryDirectory() as folder:
        build = pathlib.Path(folder)
        for program, lanes in plan.items():
            path = build / f"peer-{program}"
            path.write_text(FAKE)
            path.chmod(0o755)
            pathlib.Path(f"{path}.default").write_text(json.dumps(RUN) + "\n")
            for lane, runs in lanes.items():
                for n, run in enumerate(runs):
                    text = run if isinstance(run, str) else json.dumps({**RUN, **run})
                    pathlib.Path(f"{path}.{lane}.{n}").write_text(text + "\n")
        args = [build if arg == "BUILD" else arg for arg in args]
        done = subprocess.run([REPO / "scripts/compare.py", build, "--only", "echo64", "--seconds", "0.01", *args],
                              capture_output=True, text=True, timeout=60)
        if done.returncode == 2:
            return done.returncode, done.stderr, None
        got = json.loads(done.stdout) if "--json" in args else {}
        return done.returncode, done.stdout + done.stderr, got


def line(got, peer, lane):
    return next(row for row in got["rows"] if (row["peer"], row["lane"]) == (peer, lane))


def target(got, words):
    return next(t for t in got["targets"] if words in t["what"])


def check_figures():
    """Twice as slow as UCX in one turn, then 1.5 and three times: the median counts; the far turn
    and the mixed one do not."""
    lend = [{"p50_us": us, **where} for us, where in ((1.0, {}), (1.5, {}), (9.0, FAR), (9.0, MIXED), (3.0, {}))]
    ucx = [{"p50_us": us} for us in (0.5, 1.0, 0.1, 0.1, 1.0)]
    code, _, got = compare({"lend": {"shm": lend}, "ucx": {"posix": ucx}}, "--json", "--repeats", "5")
    assert code == 0 and not got["failures"], got
    posix, shm = line(got, "ucx", "posix"), line(got, "lend", "shm")
    assert (shm["median"], shm["other_mode"], posix["median"]) == (1.5, 2, 0.5), got
    assert posix["lend_is_better"] == 0.5 and shm["lend_is_better"] is None, got
    assert (target(got, UCX)["measured"], target(got, UCX)["met"]) == (2, False), got
    assert target(got, "gRPC's polled")["met"] is None and {"grpc", "kernel"} <= set(got["absent"]), got
    assert target(got, UCX)["mode"] == "near" and len(got["rows"]) == 5, got
    code, out, _ = compare({"lend": {"shm": [{"p50_us": 0.84}]}, "ucx": {}}, "--repeats", "1")
    assert code == 0 and " 0.84 x      met, cores near" in out and "not built here: grpc" in out, out


def check_faults():
    """A check that fails twice is tried a third time; one that always fails is an error."""
    twice = [{"check_in_flight": False}, {"check_in_flight": False}, {}]
    code, _, got = compare({"lend": {"shm": twice}}, "--json", "--repeats", "1")
    assert code == 0 and not got["failures"], got
    for wrong, words in (({"check_in_flight": False}, "check_in_flight"), ({"check_order": False}, "check_order"),
                         ({"check_work": False}, "check_work"), ({"wrong_bytes": 3}, "3 wrong bytes"),
                         ("no such device: plug one in", "plug one in")):
        code, out, got = compare({"lend": {"shm": [wrong]}, "ucx": {}}, "--json", "--repeats", "2")
        assert code == 1 and all("echo64, lend shm" in f and words in f for f in got["failures"]), out
        assert got["failures"] and line(got, "ucx", "posix")["median"] == 1, got
    assert line(got, "lend", "shm")["median"] is None and len(got["failures"]) == 1, got
    code, out, _ = compare({})
    assert code == 2 and "scripts/build.sh" in out, out


def check_base():
    """Another build of Lend, here the same folder: its turns follow those of the first."""
    cycles = [{"cycles_per_call": n, "one_thread": True} for n in (100, 400)]
    code, _, got = compare({"lend": {"ring": cycles}}, "--json", "--repeats", "1", "--only", "call32x64", "--base", "BUILD")
    assert code == 0 and target(got, "32 B calls: cycles, of 33660cf's")["measured"] == 0.25, got
    assert line(got, "base", "ring")["cycles_per_call"] == 400, got


def check_by_reference():
    """Other runs, targets of their own: a loan that takes three times iceoryx2's time misses one."""
    plan = {"lend_ref": {"loan": [{"p50_us": 3.0}]}, "iceoryx2": {"shm": [{"p50_us": 1.0}]}, "lend": {}}
    code, _, got = compare(plan, "--json", "--repeats", "1", "--by-reference", "--only", "ref16m_ends")
    assert code == 0 and {row["shape"] for row in got["rows"]} == {"ref16m_ends"} and "posix" in got["absent"], got
    assert (target(got, "iceoryx2")["measured"], target(got, "iceoryx2")["met"]) == (3, False), got
    assert len(got["targets"]) == 2 and target(got, "POSIX")["met"] is None, got
    assert line(got, "iceoryx2", "shm")["lend_is_better"] == 1 / 3, got


check_figures()
check_faults()
check_base()
check_by_reference()
