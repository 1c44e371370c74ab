#!/usr/bin/env python3
"""Goal: of any other traffic at a device, each frame is counted under its kind, and calls continue.

Method: seeded frames of every kind that occurs on networks, sent by a raw socket at the other end;
the counter of that kind must rise by as many, and then calls must all end well. A kernel
reassembles fragments before a packet socket sees them.
Covers: src/io/dpdk/rx.c, src/io/eth/frame.c

usage: foreign.py KIND [NAME...]      KIND: net_af_packet or net_af_xdp
"""
import os
import random
import sys
import unittest

from pair import Pair

KIND = sys.argv[1]
SEED = int(os.environ.get("SEED", random.randrange(1 << 32)))
FRAMES = 200
CORE = ("core_rx_short", "core_rx_version", "core_rx_kind", "seal_rx_corrupt")
FOREIGN = ("io_rx_foreign",)
BAD = ("io_rx_bad",)
KINDS = {
    "random_udp": CORE,
    "empty_udp": ("seal_rx_corrupt",),
    "options": FOREIGN,
    "other_port": FOREIGN,
    "wrong_ip_checksum": ("io_rx_checksum",),
    "wrong_udp_checksum": ("io_rx_checksum",),
    "first_fragment": ("io_rx_fragment",),
    "later_fragment": ("io_rx_fragment",),
    "vlan": FOREIGN,
    "cut_ip": BAD,
    "cut_udp": BAD,
    "tcp": FOREIGN,
    "other_kind": FOREIGN + BAD,  # some are ARP or IPv6, and invalid as such
    "garbage": FOREIGN,
    "jumbo": ("io_rx_truncated",),
}
BY_KERNEL = () if KIND == "net_af_xdp" else ("first_fragment", "later_fragment")


class Foreign(unittest.TestCase):
    def calls(self, pair, server):
        pair.kernel.load("rate", server, "--count", 500, "--window", 16, "--seconds", "0.01")

    def send(self, pair, server, kind, seed):
        before = server.counters()
        pair.kernel.frames(kind, FRAMES, seed, server)
        self.calls(pair, server)
        after = server.counters()
        risen = {name: after[name] - before[name] for name in after if "_rx_" in name}
        if kind not in BY_KERNEL:
            self.assertGreaterEqual(sum(risen[name] for name in KINDS[kind]), FRAMES, risen)
        others = [n for n in ("io_rx_bad", "io_rx_checksum", "io_rx_fragment", "io_rx_truncated") if n not in KINDS[kind]]
        self.assertEqual([n for n in others if risen[n]], [], risen)

    def all_kinds(self, kinds, more="", **world):
        rng = random.Random(SEED)
        with Pair(KIND, **world) as pair:
            server = pair.dpdk.serve(more=more)
            self.calls(pair, server)
            for kind in kinds:
                with self.subTest(kind=kind, SEED=SEED):
                    self.send(pair, server, kind, rng.randrange(1 << 32))
            server.end()

    def test_kinds(self):
        self.all_kinds([kind for kind in KINDS if kind != "jumbo"])

    def test_jumbo_where_the_mtu_is_1500(self):
        if KIND == "net_af_xdp":
            self.skipTest("no frame is longer than a page there")
        self.all_kinds(["jumbo"], more="mtu=1500", mtu=9000)


if __name__ == "__main__":
    names = [f"Foreign.{n}" for n in dir(Foreign) if n.startswith("test_") and any(w in n for w in sys.argv[2:] if w[0] != "-")]
    unittest.main(argv=[sys.argv[0], *names])
