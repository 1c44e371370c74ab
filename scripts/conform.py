#!/usr/bin/env python3
"""One table of every carrier and every promise: the suites of test/io, the image chain and a memory
node. scripts/conform.sh builds and calls it.

usage: conform.py BUILD [--only CARRIER]... [--suites] [--sleeps N] [--guest] [--json]
"""
import argparse
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# The promises, in the order of the table. A suite of test/io with all of these cases is a carrier's suite.
CASES = ["order", "loss", "duplicates", "back_pressure", "zero_length", "mtu", "mtu_plus_1", "flush", "close_in_flight",
         "restart", "wait"]
# Further cases of a carrier, and the programs that run over it.
MORE = ["wait_for_room", "content", "pieces", "long_head", "stopped_peer", "unknown_sender", "clients", "both_ends",
        "ping_pong", "urgent", "traits"]
# Programs of test/e2e with cases that take a carrier: a node as process 1, its client as process 2.
GIVEN = {
    "pointer": ["mem_pointer"],  # snapshots as memory: a second endpoint of the process uses the carrier
    "lease": ["mem_lease"],  # a client that computes past its lease keeps its references
    "operations": ["mem_ops"],
    "arguments": ["mem_args", "mem_args_value", "mem_args_end"],
    "in_place": ["mem_in_place"],  # the node's pages are registered, and sent without a copy by Lend
    "one_sided": ["mem_one_sided"],  # a device reads the other end's memory
}
APPS = ["images", "memory", *GIVEN]
LIMIT = 1200  # seconds for one program; each test has its own, shorter one

# Options of lend that select a carrier. %p is a process's number, POOL a file of the run.
EAL = "--no-huge -m 192 --no-pci --no-shconf"
LEND = {
    "shm": ["--carrier", "shm"],
    "pod": ["--carrier", "shm:n%p@POOL"],
    "udp": ["--carrier", "udp"],
    "udp6": ["--carrier", "udp:[::1]:0"],
    "dpdk_ring": ["--carrier", "dpdk:ring", "--threads"],
    "dpdk_memif": ["--carrier", "dpdk:memif"],
    "dpdk_af_packet": ["--carrier", f"dpdk:net_af_packet0@10.9.0.%p:0 {EAL} --vdev=net_af_packet0,iface=p%p"],
    "dpdk_af_xdp": ["--carrier", f"dpdk:net_af_xdp0@10.9.0.%p:0 {EAL} --vdev=net_af_xdp0,iface=p%p"],
    "verbs": ["--carrier", "verbs:rxe0@10.77.0.1:0"],
    "raw": ["--carrier", f"raw:{os.environ.get('LEND_RAW')}:0"],
}
POOL_BYTES = 256 << 20
# Where a memory node listens, of those that LEND only names.
NODE = {"shm": "shm:conform%p", "udp": "udp:127.0.0.1:0", "dpdk_memif": "dpdk:memif@127.0.0.1:0"}
ABSENT_APP = {
    ("dpdk_ring", case): "rings stay within one process, and a memory node is one of its own" for case in ("memory", *GIVEN)
}
# Each process has its own device: one end of a veth pair; the other end is in a bridge, all in a new namespace.
# net_af_packet names its fanout group by process id xor interface index: distant indices keep groups of different
# processes distinct.
VETH = """set -e
ip link add br0 type bridge
ip link set br0 up
for i in 1 2 3 4 5 6 7 8; do
	ip link add p$i index $((i << 12)) type veth peer name b$i
	ip link set b$i master br0 up
	ip link set p$i up
done
exec "$@" """


def short(text):
    return " ".join(text.split())[:300]


class Absent(Exception):
    """The carrier does not have this."""


class Matrix:
    def __init__(self, build):
        self.build = build
        self.cells = {}  # (carrier, case) -> (result, reason)
        self.pool = None
        self.guest = set()  # carriers with results from a guest

    def put(self, carrier, case, result, reason=""):
        self.cells[carrier, case] = (result, short(reason))

    def carriers(self):
        """Those of LEND in its order, then the others."""
        known = {carrier: i for i, carrier in enumerate(LEND)}
        return sorted({carrier for carrier, _ in self.cells}, key=lambda c: (known.get(c, len(known)), c))

    def is_absent(self, carrier):
        return all(r == "absent" for (c, _), (r, _) in self.cells.items() if c == carrier)

    def count(self, result):
        return sum(r == result for r, _ in self.cells.values())

    def as_json(self):
        cells = [{"carrier": c, "case": k, "result": r, "reason": why, "where": "guest" if c in self.guest else "here"}
                 for (c, k), (r, why) in self.cells.items()]
        return {"pass": self.count("pass"), "fail": self.count("fail"), "absent": self.count("absent"), "cells": cells}


# The suites.

def list_suites(program):
    """Suite -> its tests."""
    text = subprocess.run([program, "--list", "--ascii"], capture_output=True, text=True, timeout=LIMIT).stdout
    suites, tests = {}, []
    for line in text.splitlines():
        if m := re.match(r"(\w+): \d+ tests?$", line):
            tests = suites[m[1]] = []
        elif m := re.match(r"\W+(\w+)$", line):
            tests.append(m[1])
    return suites


def programs_of(build):
    """The programs that ctest knows: a folder may contain programs of deleted tests."""
    told = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True, timeout=LIMIT)
    tests = json.loads(told.stdout or "{}").get("tests", [])
    programs = {pathlib.Path(test["command"][0]) for test in tests if test["name"].startswith("io.") and "command" in test}
    return sorted(program for program in programs if program.exists())


def find_carriers(build):
    """(program, suite, tests) of every carrier's suite."""
    for program in programs_of(build):
        for suite, tests in sorted(list_suites(program).items()):
            if set(CASES) <= set(tests):
                yield program, suite, tests


TAP = re.compile(r"(ok|not ok) - (\w+)::(\w+)\s*(?:# SKIP (.*)|(.*))$")


def read_tap(text, suite):
    """test -> (result, reason); of a failure every message."""
    got, last = {}, None
    for line in text.splitlines():
        if m := TAP.match(line):
            verdict, where, last, skip, rest = m.groups()
            if where != suite:
                last = None
            elif skip:
                got[last] = ("absent", skip)
            else:
                rest = re.sub(r"\(\d+\.\d+s\)", "", rest or "").strip()
                got[last] = ("pass", "") if verdict == "ok" else ("fail", rest)
        elif last and got[last][0] == "fail" and (m := re.match(r"\s+Assertion failed: (.*)", line)):
            got[last] = ("fail", f"{got[last][1]} {m[1]}".strip())
    return got


def run_suite(matrix, program, suite, tests):
    try:
        done = subprocess.run([program, "--filter", f"{suite}/*", "--tap", "--jobs", "2"], capture_output=True, text=True,
                              errors="replace", timeout=LIMIT)
        got, said = read_tap(done.stdout + done.stderr, suite), f"{program.name} ended with {done.returncode}"
    except subprocess.TimeoutExpired:
        got, said = {}, f"{program.name} took longer than {LIMIT} s"
    for test in [c for c in CASES + MORE if c in tests] + [t for t in tests if t not in CASES + MORE]:
        result, reason = got.get(test, ("fail", f"no result: {said}"))
        matrix.put(suite, test, result, reason or ("failed without a word" if result == "fail" else ""))


# The programs.

def photographs(folder):
    """Three small ones, as the test of lend images makes them."""
    spec = importlib.util.spec_from_file_location("images", HERE.parent / "test" / "e2e" / "images.py")
    images = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(images)
    for i, (width, height) in enumerate(((64, 48), (640, 480), (1203, 801))):
        (folder / f"{i}.jpg").write_bytes(images.jpeg(width, height, i))


def in_veth(carrier, command):
    return ["unshare", "--net", "bash", "-c", VETH, "veth", *command] if carrier.startswith("dpdk_af") else command


def lend(matrix, carrier, *args):
    """The JSON that lend prints, or raises with its last line."""
    options = [option.replace("POOL", str(matrix.pool)) for option in LEND[carrier]]
    command = in_veth(carrier, [matrix.build / "lend", *args, *options, "--json"])
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace", timeout=LIMIT)
    if not done.stdout.strip():
        lines = done.stderr.strip().splitlines()
        raise RuntimeError(lines[-1] if lines else f"ended with {done.returncode}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def images(matrix, carrier, photos):
    """The whole chain by value and by reference; each photograph's result must equal a local run's
    byte for byte."""
    for by in ("value", "ref"):
        got = lend(matrix, carrier, "images", "--by", by, photos)
        if (got["images"], got["identical"], got["errors"], got["pages_used_after"]) != (3, 3, 0, 0):
            raise RuntimeError(f"--by {by}: {got['identical']} of {got['images']} identical, {got['errors']} errors, "
                               f"{got['pages_used_after']} pages left")


def memory(matrix, carrier):
    """Put, get and release at a memory node; returns what was measured."""
    got = lend(matrix, carrier, "mem", "lat", "--seconds", "0.3")
    if got["wrong_bytes"] or got["pages_used_after"] or not got["rounds"]:
        raise RuntimeError(f"{got['rounds']} rounds, {got['wrong_bytes']} wrong bytes, {got['pages_used_after']} pages left")


def given(matrix, carrier, suite):
    """The tests of a program of GIVEN. Raises Absent if it skips all of them."""
    address, _, eal = NODE.get(carrier, LEND[carrier][1]).replace("POOL", str(matrix.pool)).partition(" ")
    env = dict(os.environ, LEND_TEST_LISTEN=address.replace("%p", "1"))
    if eal:
        env |= {"LEND_TEST_EAL": eal.replace("%p", "1"), "LEND_EAL": eal.replace("%p", "2")}
    command = in_veth(carrier, [matrix.build / "test" / f"test_e2e_{suite}", "--filter", "*/*_given", "--jobs", "1", "--tap"])
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace", timeout=LIMIT, env=env)
    got = {test: cell for test, cell in read_tap(done.stdout + done.stderr, suite).items() if test.endswith("_given")}
    if got and all(result == "absent" for result, _ in got.values()):
        raise Absent(next(iter(got.values()))[1])
    bad = [f"{test}: {reason or result}" for test, (result, reason) in got.items() if result != "pass"]
    if bad or not got:
        raise RuntimeError(" ".join(bad) or f"test_e2e_{suite} ended with {done.returncode} and no result")


def run_app(matrix, carrier, case, photos):
    if case == "images":
        images(matrix, carrier, photos)
    elif case == "memory":
        memory(matrix, carrier)
    else:
        for suite in GIVEN[case]:
            given(matrix, carrier, suite)


def run_apps(matrix, carrier, photos):
    for case in APPS:
        absent = ABSENT_APP.get((carrier, case))
        if carrier not in LEND:
            absent = "a row of the suite's only"
        elif matrix.is_absent(carrier):
            absent = matrix.cells[carrier, "order"][1]
        elif case == "images" and not photos:
            absent = "lend was built without libturbojpeg"
        if absent:
            matrix.put(carrier, case, "absent", absent)
            continue
        try:
            run_app(matrix, carrier, case, photos)
            matrix.put(carrier, case, "pass")
        except Absent as lacks:
            matrix.put(carrier, case, "absent", str(lacks))
        except (RuntimeError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
            matrix.put(carrier, case, "fail", str(error))


# The whole run.

def run_here(build, only, suites):
    matrix = Matrix(build)
    with tempfile.TemporaryDirectory(prefix="lend-conform-") as folder:
        photos, matrix.pool = pathlib.Path(folder, "photos"), pathlib.Path(folder, "pool")
        photos.mkdir()
        matrix.pool.touch(mode=0o600)
        os.truncate(matrix.pool, POOL_BYTES)
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)
        photographs(photos)
        has_images = b"images " in subprocess.run([build / "lend", "bench", "--help"], capture_output=True).stdout
        for program, suite, tests in find_carriers(build):
            if only and suite not in only:
                continue
            run_suite(matrix, program, suite, tests)
            if not suites:
                run_apps(matrix, suite, photos if has_images else None)
    return matrix


def run_guest(matrix):
    """Carriers that this machine lacks completely, run in a guest."""
    lacking = [c for c in matrix.carriers() if matrix.is_absent(c)]
    if not lacking:
        return
    command = [HERE / "guest.sh", "--limit", "1800", "--", sys.executable, __file__, matrix.build, "--json"]
    for carrier in lacking:
        command += ["--only", carrier]
    env = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}  # run_here() has removed its folder
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, errors="replace", env=env)
    if done.returncode == 125 or not done.stdout.strip():
        print("conform: no guest: what this machine lacks stays absent", file=sys.stderr)
        return
    for cell in json.loads(done.stdout.strip().splitlines()[-1])["cells"]:
        matrix.put(cell["carrier"], cell["case"], cell["result"], cell["reason"])
    matrix.guest = {c for c in lacking if not matrix.is_absent(c)}


def names_of(matrix):
    """carrier -> its heading."""
    return {c: c.replace("_", "-") + "*" * (c in matrix.guest) for c in matrix.carriers()}


def cases_of(matrix):
    cases = list(dict.fromkeys(case for _, case in matrix.cells))
    return [c for c in cases if c not in APPS] + [c for c in cases if c in APPS]


def summary(matrix):
    return f"{matrix.count('pass')} pass, {matrix.count('fail')} fail, {matrix.count('absent')} absent"


def print_table(matrix):
    carriers, cases, names, notes = matrix.carriers(), cases_of(matrix), names_of(matrix), []
    width = max(map(len, cases), default=4)
    print(" " * width, *names.values(), sep="  ")
    for case in cases:
        row = []
        for carrier in carriers:
            result, reason = matrix.cells.get((carrier, case), ("absent", "no such case"))
            text = {"pass": "ok", "fail": "FAIL", "absent": "-"}[result]
            if reason:
                if reason not in notes:
                    notes.append(reason)
                text += f" {notes.index(reason) + 1}"
            row.append(text.ljust(len(names[carrier])))
        print(case.replace("_", " ").ljust(width), *row, sep="  ")
    print("\n" + summary(matrix))
    if matrix.guest:
        print("* in a guest (scripts/guest.sh)")
    for i, note in enumerate(notes):
        print(f"{i + 1:3}  {note}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--only", action="append", metavar="CARRIER", help="this carrier; may be repeated")
    parser.add_argument("--suites", action="store_true", help="without the programs: no images, no memory")
    parser.add_argument("--sleeps", type=int, metavar="N", help="how often the cases about waiting sleep")
    parser.add_argument("--guest", action="store_true", help="carriers that this machine lacks, in a guest")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.sleeps:
        os.environ["LEND_CONFORM_SLEEPS"] = str(args.sleeps)
    matrix = run_here(args.build.resolve(), args.only, args.suites)
    if args.guest:
        run_guest(matrix)
    if args.json:
        print(json.dumps(matrix.as_json()))
    else:
        print_table(matrix)
    if not matrix.cells:
        print("conform: no carrier's tests are built: scripts/build.sh", file=sys.stderr)
    return 1 if matrix.count("fail") or not matrix.cells else 0


if __name__ == "__main__":
    sys.exit(main())
