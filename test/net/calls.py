#!/usr/bin/env python3
"""Goal: a DPDK device and a kernel's UDP socket interoperate: every call ends well, every byte is
right.

Method: lend serve at one end of a veth pair, lend rate and lend bw at the other, both ways round
and DPDK at both; the replies are compared byte by byte by the programs, the counters afterwards
here.
Covers: src/io/dpdk/carrier.c, src/io/dpdk/neigh.c, src/io/dpdk/peer.c, src/io/dpdk/addr.c,
src/io/eth/neighbours.c, src/io/eth/addr.c

usage: calls.py KIND [--million] [NAME...]      KIND: net_af_packet or net_af_xdp
"""
import json
import os
import sys
import unittest

from pair import BUILD, Failed, Pair, behind, kernel_has_vlan

KIND = sys.argv[1]
MANY = 1000000 if "--million" in sys.argv else 50000
CALLS = int(os.environ.get("LEND_NET_CALLS", "5000"))  # fewer under emulation
BRIEF = ("--seconds", "0.1")  # a tenth of it warms up
# Clients that sleep: on a busy machine, one that polls may not be scheduled for longer than a
# session lives.
SMALL = ("--window", 32, "--sessions", 2, "--sleep", *BRIEF)
LONG = ("--size", "200K", "--window", 4, "--count", CALLS // 50, *BRIEF)
JUMBO = 3500 if KIND == "net_af_xdp" else 9000  # an XDP frame is at most one page


class Calls(unittest.TestCase):
    def check(self, pair, server, client, six=False, more="", calls=CALLS):
        """Short and long calls; nothing that arrived was dropped."""
        serving = server.serve(six)
        got = client.load("rate", serving, "--count", calls, *SMALL, six=six, more=more)
        self.assertEqual(got["calls"], calls)
        client.load("bw", serving, *LONG, six=six, more=more)
        counters = serving.end()
        self.assertGreater(counters["requests"], calls + CALLS // 50)
        self.assertEqual((counters["io_rx_bad"], counters["io_rx_truncated"], counters["seal_rx_corrupt"]), (0, 0, 0))
        print(f"{KIND} {self._testMethodName[5:]}: {got['calls_per_s']:.0f} calls/s, p50 {got['p50_us']:.0f} us")

    def both_ways(self, six=False, calls=CALLS, **world):
        with Pair(KIND, **world) as pair:
            self.check(pair, pair.dpdk, pair.kernel, six, calls=calls)
            self.check(pair, pair.kernel, pair.dpdk, six, calls=calls)

    def test_both_ways(self):
        self.both_ways(calls=MANY)

    def test_ipv6(self):
        self.both_ways(six=True)

    def test_vlan(self):
        with Pair(KIND, vlan=5, dpdk=2) as pair:
            self.check(pair, *pair.ends)
            self.check(pair, *pair.ends, six=True)

    def test_vlan_of_the_kernel(self):
        if not kernel_has_vlan():
            self.skipTest("this kernel has no 8021q")
        self.both_ways(vlan=4094)
        self.both_ways(six=True, vlan=4094)

    def test_neighbours_that_are_configured(self):
        """With a static neighbour entry no ARP request is sent, and none would be answered."""
        with Pair(KIND) as pair:
            pair.kernel.ip("link", "set", "lend0", "arp", "off")
            pair.kernel.introduce()
            self.check(pair, pair.dpdk, pair.kernel)
            self.check(pair, pair.kernel, pair.dpdk, more=f"mac={pair.kernel.mac}")

    def test_dpdk_at_both_ends(self):
        with Pair(KIND, dpdk=2) as pair:
            self.check(pair, *pair.ends)

    def test_names_of_other_devices(self):
        """An address is used as the other host prints it; its device has another name."""
        pair = Pair(KIND, dpdk=2)
        pair.ends[1].kind = next(kind for kind in ("net_af_packet", "net_af_xdp") if kind != KIND)
        with pair:
            a, b = pair.ends
            for server, client, at in ((a, b, a.listening()), (b, a, f"dpdk:any@{b.ip4}:0")):
                serving = server.served([BUILD / "lend", "serve", "--json", "--listen", at, *server.with_eal()])
                self.assertIn(f"dpdk:{server.device}@{server.ip4}:", serving.address)
                for to in (serving.address, serving.address.replace(server.device, "any")):
                    got = json.loads(client.run(*client.lend(["rate", "--json", "--count", 500, *SMALL, "--connect", f"{to}?from={client.ip4}"])))
                    self.assertEqual((got["calls"], got["errors"], got["wrong_bytes"]), (500, 0, 0))
                serving.end()

    def test_behind_a_router(self):
        """A host on another net, through the kernel end, which only forwards."""
        with Pair(KIND) as pair, behind(pair.kernel) as far:
            serving = far.served([BUILD / "lend", "serve", "--json", "--listen", f"udp:{far.ip4}:0"])
            to = f"dpdk:{pair.dpdk.device}@{far.ip4}:{serving.port()}?from={pair.dpdk.ip4}"
            self.assertIn("via=", pair.dpdk.run(*pair.dpdk.lend(["lat", "--connect", to]), code=1, stderr=True))
            to += f"&via={pair.kernel.ip4}"
            got = json.loads(pair.dpdk.run(*pair.dpdk.lend(["rate", "--json", "--count", CALLS, *SMALL, "--connect", to])))
            self.assertEqual((got["calls"], got["errors"], got["wrong_bytes"]), (CALLS, 0, 0))
            self.assertGreater(serving.end()["requests"], CALLS)

    def test_jumbo(self):
        self.both_ways(mtu=JUMBO)

    def test_longer_than_a_page(self):
        if KIND == "net_af_packet":
            self.skipTest("packet sockets can")
        with Pair(KIND, mtu=9000) as pair, self.assertRaises(Failed) as why:
            pair.dpdk.serve()
        line = str(why.exception)
        self.assertRegex(line, "MTU of 9000: ip link set lend0 mtu 3500")
        self.assertEqual(line.count("\n"), 1, line)


if __name__ == "__main__":
    names = [f"Calls.{n}" for n in dir(Calls) if n.startswith("test_") and any(w in n for w in sys.argv[2:] if w[0] != "-")]
    unittest.main(argv=[sys.argv[0], *names])
