#!/usr/bin/env python3
"""Packets per second of lend and of dpdk-testpmd over the same kind of device, in turns on one machine.

usage: scripts/veth.py [--repeats N] [--seconds S] [--kind net_af_xdp|net_af_packet] [--json]

Two processes at the ends of a veth pair poll, on a CPU each, and both receive and send. testpmd makes packets at one end
(flowgen) and sends them back from the other (macswap); lend makes calls of 64 bytes, one packet each way, and compares
every reply. The frames are equally long. Counted are packets that the answering end gets per second; the figure is the
median of the ratios.
Needs root, a build with DPDK and dpdk-testpmd (Debian: dpdk); exit code 77 without.

examples:
  scripts/veth.py                              a minute, and a table
  scripts/veth.py --repeats 9 --json           {"lend_pps", "testpmd_pps", "ratio", ...}
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
os.environ.setdefault("LEND_BUILD", str(ROOT / "build"))
sys.path.insert(0, str(ROOT / "test" / "net"))
sys.dont_write_bytecode = True
from pair import Pair, absent  # noqa: E402

IN_FLIGHT, FRAME = 128, 166  # bytes of a 64-byte call with all headers and its checksum


def cpus():
    mine = sorted(os.sched_getaffinity(0))
    return mine[0], mine[-1]


def tell(testpmd, text):
    testpmd.stdin.write(text + "\n")
    testpmd.stdin.flush()


def start_testpmd(end, cpu, mode):
    eal = end.eal.split() + ["--lcores", f"0@{cpu},1@{cpu}", "--file-prefix", f"veth-{os.getpid()}-{end.number}"]
    options = ["--", "-i", f"--forward-mode={mode}", f"--txpkts={FRAME}", "--no-flush-rx", "--total-num-mbufs=4096"]
    testpmd = end.popen(["stdbuf", "-oL", "dpdk-testpmd", *eal, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT, text=True, bufsize=1)
    tell(testpmd, "show port summary 0")  # testpmd answers when it is up
    for line in testpmd.stdout:
        if "Number of available ports" in line:
            return testpmd
    sys.exit("dpdk-testpmd did not come up")


def received(testpmd):
    """The packets that it has received so far, and the time."""
    tell(testpmd, "show port stats 0")
    for line in testpmd.stdout:
        found = re.search(r"RX-packets: (\d+)", line)
        if found:
            return int(found[1]), time.monotonic()
    sys.exit("dpdk-testpmd ended")


def run_testpmd(kind, seconds):
    with Pair(kind, dpdk=2) as pair:
        a, b = (start_testpmd(*one) for one in zip(pair.ends, cpus(), ("flowgen", "macswap")))
        for one in b, a:
            tell(one, "start")
        time.sleep(0.3)  # warms up
        first, began = received(b)
        time.sleep(seconds)  # is measured
        last, ended = received(b)
        for one in a, b:
            one.stdin.close()
        return (last - first) / (ended - began)


def run_lend(kind, seconds):
    with Pair(kind, dpdk=2) as pair:
        server = pair.ends[0].serve(args=["--spin", "--cpu", str(cpus()[1])])
        got = pair.ends[1].load("rate", server, "--window", "32", "--sessions", str(IN_FLIGHT // 32), "--seconds", str(seconds))
        server.end()
        return got["calls_per_s"]


def main():
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, add_help=False)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--kind", choices=("net_af_xdp", "net_af_packet"), default="net_af_xdp")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.help:
        print(__doc__.strip())
        return
    if not shutil.which("dpdk-testpmd"):
        absent("no dpdk-testpmd (Debian: dpdk)")
    rounds = []
    for i in range(args.repeats):
        order = (run_testpmd, run_lend) if i % 2 else (run_lend, run_testpmd)
        got = {run: run(args.kind, args.seconds) for run in order}
        lend, testpmd = got[run_lend], got[run_testpmd]
        rounds.append((lend, testpmd, lend / testpmd))
        if not args.json:
            print(f"lend {lend:9.0f}   testpmd {testpmd:9.0f}   {100 * lend / testpmd:4.0f} %", flush=True)
    lend, testpmd, ratio = (statistics.median(column) for column in zip(*rounds))
    if args.json:
        print(json.dumps({"kind": args.kind, "repeats": args.repeats, "lend_pps": round(lend), "testpmd_pps": round(testpmd),
                          "ratio": round(ratio, 3), "ratios": [round(r[2], 3) for r in rounds]}))
    else:
        print(f"medians: lend {lend:.0f} packets/s each way, testpmd {testpmd:.0f}: {100 * ratio:.0f} %")


main()
