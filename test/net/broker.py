#!/usr/bin/env python3
"""Goal: processes serve and call over a DPDK device that a broker has open, transparently for
another host's kernel; a broker or server that is killed is replaced at once.

Method: lend-broker at one end of a veth pair, its device with several queues, and two lend serve
behind it that are called at once; lend rate and lend bw at the kernel's end and the other way
round; every reply is compared by the programs, the broker's own count afterwards here.
Covers: src/broker/broker.c, src/broker/main.c, src/broker/broker_client.c, src/broker/broker_forward.c,
src/io/broker/carrier.c, src/io/broker/link.c

usage: broker.py KIND      KIND: net_af_packet or net_af_xdp
"""
import concurrent.futures
import json
import subprocess
import sys
import unittest

from pair import BUILD, Pair

KIND = sys.argv[1]
# Clients that sleep: on a busy machine, one that polls may not be scheduled for longer than a
# session lives.
SMALL = ("--window", 32, "--sleep", "--seconds", "0.1", "--count", 3000)
LONG = ("--size", "200K", "--window", 4, "--seconds", "0.1", "--count", 50)


class Hostd(unittest.TestCase):
    def test_both_ways(self):
        with Pair(KIND, queues=4) as pair:
            end = pair.dpdk
            broker = end.popen([BUILD / "lend-broker", "--name", "nic", "--json", "--device", end.listening(), *end.with_eal()],
                               stdout=subprocess.PIPE, text=True)
            self.assertEqual(broker.stdout.readline(), "ready broker:nic\n")
            first, second = (self.serve(end) for _ in range(2))
            with concurrent.futures.ThreadPoolExecutor(2) as at_once:
                for load in [at_once.submit(pair.kernel.load, "rate", server, *SMALL) for server in (first, second)]:
                    load.result()
            first.kill()
            pair.kernel.load("bw", self.serve(end), *LONG)
            pair.kernel.load("rate", second, *SMALL)
            there = pair.kernel.serve()
            address = f"broker:nic/dpdk:{end.device}@{pair.kernel.ip4}:{there.port()}"
            got = json.loads(end.run(*end.lend(["bw", "--connect", address, "--json", *LONG])))
            self.assertEqual((got["errors"], got["wrong_bytes"]), (0, 0))
            broker.terminate()
            count = json.loads(broker.stdout.read())
            self.assertEqual((count["attached"], count["bad"]), (4, 0), count)
            self.assertGreater(min(count["from_clients"], count["to_clients"]), 9000)

    def serve(self, end):
        return end.served([BUILD / "lend", "serve", "--json", "--listen", "broker:nic"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
