#!/usr/bin/env python3
"""Goal: a device with several queues gives every endpoint of a process exactly its own datagrams,
complete: by the device's flow rules where the driver supports them, else sorted in software.

Method: one server with several addresses on the device, a kernel's client for each of them, all at
once; the programs compare every byte. The number of datagrams that arrived in another endpoint's
queue shows which of the two sorted them: few with rules (net_tap has them, where the kernel has
cls_flower), most without.
Covers: src/io/dpdk/flow.c, src/io/dpdk/shared_port.c, src/io/dpdk/port_burst.c

usage: queues.py KIND [--rules] [NAME...]      KIND: net_af_packet or net_tap; --rules: the driver
must make them
"""
import json
import os
import subprocess
import sys
import unittest

from pair import BUILD, DEV, End, Pair, absent

KIND = sys.argv[1]
RULES = "--rules" in sys.argv
QUEUES = 4
CALLS = int(os.environ.get("LEND_NET_CALLS", "2000"))  # fewer under emulation


def tap():
    """A namespace with a tap device: DPDK is one end of it and the kernel the other."""
    end = End(1, True, "net_tap")
    end.eal = f"--no-huge -m 192 --no-pci --no-shconf --vdev=net_tap0,iface={DEV},mac={end.mac}"
    return end


class Queues(unittest.TestCase):
    def serve(self, end, n, queues=QUEUES):
        first, others = end.listening(more=f"queues={queues}"), end.listening()
        return end.served([BUILD / "lend", "serve", "--json", "--listen", ",".join([first] + [others] * (n - 1)), *end.with_eal()])

    def call_all(self, serving, ip, client, n):
        """The server's counters after each of its addresses was called."""
        loads = [client.popen([BUILD / "lend", "rate", "--json", "--count", str(CALLS), "--window", "8", "--sleep", "--seconds", "0.1",
                               "--size", str(100 + i), "--connect", f"udp:{ip}:{serving.port(i)}"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for i in range(n)]
        for load in loads:
            out, err = load.communicate(timeout=100)
            self.assertEqual((load.returncode, err), (0, ""))
            got = json.loads(out)
            self.assertEqual((got["calls"], got["errors"], got["wrong_bytes"]), (CALLS, 0, 0))
        counters = serving.end()
        self.assertGreater(counters["requests"], n * CALLS)
        self.assertEqual((counters["io_rx_bad"], counters["io_rx_truncated"], counters["seal_rx_corrupt"]), (0, 0, 0))
        print(f"{KIND} {self._testMethodName[5:]}: {counters['io_rx_handed']} of {counters['rx_datagrams']} handed over")
        return counters

    def on_a_tap(self, n, queues=QUEUES):
        end = tap()
        try:
            serving = self.serve(end, n, queues)
            end.ip("link", "set", DEV, "address", "02:00:00:00:00:09")  # both have the driver's address
            end.ip("addr", "add", "10.77.0.9/24", "dev", DEV)
            return self.call_all(serving, end.ip4, end, n)
        finally:
            end.close()

    def test_as_many_queues_as_endpoints(self):
        if KIND == "net_tap":
            counters = self.on_a_tap(QUEUES - 1)  # the first queue stays shared
        else:
            with Pair(KIND, queues=QUEUES) as pair:
                counters = self.call_all(self.serve(pair.dpdk, QUEUES), pair.dpdk.ip4, pair.kernel, QUEUES)
        if RULES:
            self.assertLess(counters["io_rx_handed"] * 4, counters["rx_datagrams"])  # an endpoint rarely polls all queues
        elif KIND == "net_af_packet":
            self.assertGreater(counters["io_rx_handed"], 0)

    def test_more_endpoints_than_queues(self):
        if KIND == "net_tap":
            self.on_a_tap(4, queues=2)  # a rule for one of them
        else:
            with Pair(KIND, queues=2) as pair:
                self.call_all(self.serve(pair.dpdk, 4, 2), pair.dpdk.ip4, pair.kernel, 4)

    def test_queues_that_net_tap_counts_too_high(self):
        """It reports 16, and more than 4 overflow its stack."""
        if KIND == "net_tap":
            self.on_a_tap(2, queues=8)


if __name__ == "__main__":
    if KIND == "net_tap" and subprocess.run(["test", "-c", "/dev/net/tun"]).returncode != 0:
        absent("no /dev/net/tun")
    names = [f"Queues.{n}" for n in dir(Queues) if n.startswith("test_") and any(w in n for w in sys.argv[2:] if w[0] != "-")]
    unittest.main(argv=[sys.argv[0], *names])
