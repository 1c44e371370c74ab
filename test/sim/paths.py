#!/usr/bin/env python3
"""Goal: messages keep most of the link on paths that are long, lose or reorder datagrams, or have short
buffers; many senders of short requests share it, and messages of medium length are not slow at high load.
Method: the simulator's experiments, which repeat exactly; each figure has a bound that the algorithms before
failed. Covers: src/core/loss.c, src/core/reorder.c, src/core/grant.c, src/core/cc_dctcp.c, src/core/sent_ring.c,
src/core/flight.c, src/core/host_queue.c, src/core/sched.c, src/core/rto.h, src/core/peer_window.c, src/core/request_loss.c

paths.py LEND-SIM"""
import json
import subprocess
import sys

LONG = "sharing --depth 8 --mark-kb 0"
SLOW = "sharing --senders 1 --depth 8 --mark-kb 0 --mbps 100 --step-us 1000000 --nic-speed 10"
FABRIC = "fabric --hosts 40 --racks 5 --spines 4 --load 50 --us 1000"
MIX = "fabric --load 80 --messages 20000000"
BURST = "congestion --senders 8 --messages 16 --size 1048576 --mark-kb 0 --depth"
STORM = "congestion --size 1300 --messages 64 --depth 64 --senders"

# Command, and bounds: column, least, largest. A column may be divided by another one.
ROWS = [
    (f"{LONG} --senders 1 --gbps 25 --delay-ns 250000 --step-us 100000", [("carried_percent", 90, 100)]),
    (f"{LONG} --senders 8 --gbps 100 --delay-ns 50000 --step-us 2000", [("carried_percent", 90, 100)]),
    (f"{LONG} --senders 1 --gbps 10 --delay-ns 25000 --step-us 30000 --loss-ppm 10000", [("carried_percent", 95, 100)]),
    (f"{SLOW} --delay-ns 10000000 --buffer-kb 512", [("carried_percent", 93, 100), ("drops/datagrams", 0, 0.01),
                                                              ("datagrams", 8000, 11000)]),
    (f"{SLOW} --delay-ns 10000000 --buffer-kb 512 --loss-ppm 10000", [("carried_percent", 93, 100), ("drops/datagrams", 0, 0.01)]),
    (f"{SLOW} --delay-ns 2000000 --buffer-kb 1024", [("carried_percent", 98, 100), ("queue_kb", 0, 60)]),
    (f"{SLOW} --delay-ns 2000000 --nic-speed 1 --host-queue 1", [("carried_percent", 98, 100), ("host_kb", 1, 12)]),
    (f"{LONG} --senders 1 --delay-ns 50000 --step-us 20000 --host-queue 1", [("carried_percent", 95, 100), ("host_kb", 1, 24)]),
    (f"{FABRIC} --skew-ns 1000", [("goodput_percent", 27, 100), ("repeats/datagrams", 0, 0.003)]),
    (f"{FABRIC} --jitter-ns 5000", [("goodput_percent", 27, 100), ("repeats/datagrams", 0, 0.003)]),
    (f"{MIX} --hosts 16 --racks 2 --mix w1 --us 1000", [("all_p99", 1, 1.8)]),
    (f"{MIX} --hosts 16 --racks 2 --mix w2 --us 4000", [("all_p99", 1, 2.2)]),
    (f"{MIX} --hosts 40 --racks 5 --mix w3 --us 1000", [("all_p99", 1, 2.3)]),
    (f"{MIX} --hosts 40 --racks 5 --mix w4 --us 6000 --sizes", [("p99", 1, 10)]),  # beyond 1 MiB
    (f"{STORM} 512", [("goodput_percent", 90, 100), ("drops", 0, 0), ("victim_p999_us", 0, 300)]),
    (f"{STORM} 2048", [("goodput_percent", 80, 100), ("victim_p999_us", 0, 300)]),
    ("congestion --senders 512 --size 64 --messages 64 --depth 64 --records 2052", [("completion_over_ideal", 1, 2), ("drops", 0, 0)]),
    ("congestion --senders 512 --size 65536", [("completion_over_ideal", 1, 1.06), ("drops", 0, 0)]),
    ("sharing --order 3", [("jain_settled", 0.95, 1), ("carried_percent", 99, 100)]),
    (f"{BURST} 16 --buffer-kb 256", [("completion_over_ideal", 1, 1.15)]),
    (f"{BURST} 1 --buffer-kb 64 --share 0", [("completion_over_ideal", 1, 1.15)]),
]


def value(row, name):
    above, _, below = name.partition("/")
    return float(row[above]) / (float(row[below]) if below else 1)


def run_last(command):
    words = [sys.argv[1], *command.split(), "--cc", "credit", "--json"]
    run = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    rows = json.loads(run)
    return rows["rows"][-1] if "rows" in rows else rows


def main():
    wrong = 0
    for command, bounds in ROWS:
        row = run_last(command)
        for name, least, most in bounds:
            got = value(row, name)
            ok = least <= got <= most
            wrong += not ok
            print(f"{'ok  ' if ok else 'FAIL'} {name} {got:.4g}, {least} to {most}: lend-sim {command}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
