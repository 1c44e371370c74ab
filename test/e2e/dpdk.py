#!/usr/bin/env python3
"""Goal: a memory node over DPDK's memif, of one worker and of two, survives clients that are killed
at any moment, and keeps nothing of theirs.
Method: kill -9 at seeded times from the start of the process to the end of its work; then the pages
are counted.
Covers: src/io/dpdk/memif.c, src/io/dpdk/memif_rendezvous.c
usage: dpdk.py BUILD
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import time

BUILD = sys.argv[1]
SECONDS = 20  # a lease is shorter
KILLS = 6  # of each kind of node


def lend(*args):
    return subprocess.run([f"{BUILD}/lend", *args], capture_output=True, text=True, timeout=60)


def stat(address):
    done = lend("mem", "stat", "--node", address, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def kill_some(node, address, rng):
    killed = 0
    for _ in range(KILLS):
        client = subprocess.Popen([f"{BUILD}/lend", "put", f"{BUILD}/lend", "--node", address, "--ttl", "100ms"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            client.wait(rng.uniform(0.1, 0.7))
        except subprocess.TimeoutExpired:
            killed += 1
        client.kill()
        client.wait()
        assert node.poll() is None, f"the node died: {node.returncode}"
    return killed


def run(seed, workers):
    node = subprocess.Popen([f"{BUILD}/lend-mn", "--listen", "dpdk:memif@127.0.0.1:0", "--size", "256M",
                             "--workers", str(workers)],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        address = next(w for w in node.stdout.readline().split() if w.startswith("dpdk:"))
        killed = kill_some(node, address, random.Random(seed))
        end = time.monotonic() + SECONDS + 30
        while stat(address)["pages_used"] > 0:
            assert time.monotonic() < end, f"pages are left: {stat(address)}"
        print(f"{workers} workers: killed {killed} of {KILLS} in mid-work, no page left")
    finally:
        node.terminate()
        assert node.wait(timeout=30) == 0


if not os.path.exists(f"{BUILD}/lend_io_dpdk.so"):
    print("not on this machine: lend_io_dpdk.so was not built (libdpdk-dev)")
    sys.exit(77)
SEED = int(os.environ.get("SEED", random.randrange(1 << 32)))
print("SEED", SEED)
with tempfile.TemporaryDirectory() as folder:
    os.environ["XDG_RUNTIME_DIR"] = os.environ["XDG_CONFIG_HOME"] = folder
    run(SEED, 1)
    run(SEED + 1, 2)
