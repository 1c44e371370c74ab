#!/usr/bin/env python3
"""Goal: a memory node behind a DPDK device serves a kernel's UDP clients, and the other way round,
with correct bytes, as copies and as mapped memory.

Method: files of sizes around a page and of a few MiB are put and got again, concurrently too; then
nothing is left there.
Covers: src/io/dpdk/carrier.c, src/io/dpdk/tx.c, src/io/dpdk/rx.c

usage: mem.py KIND [NAME...]      KIND: net_af_packet or net_af_xdp
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

from pair import BUILD, Pair

KIND = sys.argv[1]
SIZES = (1, 4095, 4096, 4097, 300001, 3 << 20)


class Mem(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="lend-net-mem-")
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return pathlib.Path(self.folder.name, name)

    def put_and_get(self, client, address):
        for size in SIZES:
            self.path("in").write_bytes(os.urandom(size))
            ref = client.run(*client.lend(["put", self.path("in"), "--node", address, "--ttl", "60s"])).strip()
            client.run(*client.lend(["get", ref, "-o", self.path("out")]))
            self.assertEqual(self.path("in").read_bytes(), self.path("out").read_bytes(), size)

    def crowd(self, client, address):
        """Four at once, a process each."""
        for i in range(4):
            self.path(f"c{i}").write_bytes(os.urandom(500000 + i))
        puts = [client.client("put", self.path(f"c{i}"), "--node", address, stdout=subprocess.PIPE, text=True) for i in range(4)]
        for i, put in enumerate(puts):
            ref, _ = put.communicate(timeout=60)
            self.assertEqual(put.returncode, 0)
            client.run(*client.lend(["get", ref.strip(), "-o", self.path("out")]))
            self.assertEqual(self.path(f"c{i}").read_bytes(), self.path("out").read_bytes())

    def check(self, server, client):
        node = server.served([BUILD / "lend-mn", "--json", "--size", "64M", "--lease", "2000", "--listen", server.listening(),
                              *server.with_eal()])
        address = client.calling(node)
        self.put_and_get(client, address)
        if not client.dpdk:
            self.crowd(client, address)
        lat = json.loads(client.run(*client.lend(["mem-lat", "--node", address, "--seconds", "0.2", "--json"])))
        self.assertTrue(lat["pointers"])
        self.assertEqual(lat["wrong_bytes"], 0)
        stat = json.loads(client.run(*client.lend(["mem", "stat", "--node", address, "--json"])))
        self.assertGreater(stat["pages_used"], 0)  # until --ttl, or its owner's lease, runs out
        self.idle(node)
        node.end()

    def idle(self, node):
        """A node on a device sleeps until frames arrive. A busy machine gets more windows."""
        clock, share = (~node.process.pid << 3) | 2, 1.0
        for _ in range(12):
            before = time.clock_gettime(clock)
            time.sleep(0.25)
            share = min(share, (time.clock_gettime(clock) - before) / 0.25)
            if share <= 0.02:
                return
        self.fail(f"an idle node uses {share:.1%} of a core")

    def test_node_on_dpdk(self):
        with Pair(KIND) as pair:
            self.check(pair.dpdk, pair.kernel)

    def test_client_on_dpdk(self):
        with Pair(KIND) as pair:
            self.check(pair.kernel, pair.dpdk)


if __name__ == "__main__":
    names = [f"Mem.{n}" for n in dir(Mem) if n.startswith("test_") and any(w in n for w in sys.argv[2:] if w[0] != "-")]
    unittest.main(argv=[sys.argv[0], *names])
