#!/usr/bin/env python3
"""Goal: several endpoints serve on one device, of one process or of two, over IPv4 and IPv6, and
none gets another's calls.

Method: a memory node with four addresses on one device, each used by a client of its own at the
same time; two servers with an EAL each on one interface; one port requested twice.
Covers: src/io/dpdk/shared_port.c, src/io/dpdk/eal.c, src/io/dpdk/open.c

usage: many.py KIND [NAME...]      KIND: net_af_packet or net_af_xdp
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from pair import BUILD, Failed, Pair

KIND = sys.argv[1]


class Many(unittest.TestCase):
    def node(self, end, addresses):
        return end.served([BUILD / "lend-mn", "--json", "--size", "64M", "--listen", ",".join(addresses), *end.with_eal()])

    def test_endpoints_of_one_process(self):
        with Pair(KIND) as pair, tempfile.TemporaryDirectory(prefix="lend-net-many-") as folder:
            six = (False, False, True, True)
            node = self.node(pair.dpdk, [pair.dpdk.listening(s) for s in six])
            self.assertEqual(len(node.addresses), 4)
            puts = []
            for i, s in enumerate(six):
                file = pathlib.Path(folder, str(i))
                file.write_bytes(os.urandom(400000))
                address = f"udp:{pair.dpdk.host(s)}:{node.port(i)}"
                puts.append((file, pair.kernel.client("put", file, "--node", address, stdout=subprocess.PIPE, text=True)))
            for file, put in puts:
                ref, _ = put.communicate(timeout=60)
                self.assertEqual(put.returncode, 0)
                pair.kernel.run(*pair.kernel.lend(["get", ref.strip(), "-o", f"{file}.out"]))
                self.assertEqual(file.read_bytes(), pathlib.Path(f"{file}.out").read_bytes())
            node.end()

    def test_two_processes(self):
        if KIND == "net_af_xdp":
            self.skipTest("a queue of an interface has one AF_XDP socket")
        with Pair(KIND) as pair:
            servers = [pair.dpdk.serve() for _ in range(2)]
            loads = [pair.kernel.client("rate", "--connect", pair.kernel.calling(s), "--count", "5000", "--window", "8",
                                        "--seconds", "0.1", "--json", stdout=subprocess.PIPE, text=True) for s in servers]
            for load in loads:
                out, _ = load.communicate(timeout=60)
                self.assertEqual(load.returncode, 0)
                self.assertIn('"errors": 0, "wrong_bytes": 0', out)
            for server in servers:
                self.assertGreater(server.end()["requests"], 5000)

    def test_one_port_for_two(self):
        with Pair(KIND) as pair:
            with self.assertRaises(Failed) as why:
                self.node(pair.dpdk, [pair.dpdk.listening(port=7000)] * 2)
            line = str(why.exception)
            self.assertIn("7000", line)
            self.assertEqual(line.count("\n"), 1, line)

    def test_device_of_another_process(self):
        if KIND != "net_af_xdp":
            self.skipTest("packet sockets share an interface")
        with Pair(KIND) as pair:
            server = pair.dpdk.serve()
            with self.assertRaises(Failed) as why:
                pair.dpdk.serve()
            self.assertEqual(str(why.exception).count("\n"), 1, str(why.exception))
            pair.kernel.load("lat", server, "--count", 100, "--seconds", "0.1")  # the first one still works
            server.end()


if __name__ == "__main__":
    names = [f"Many.{n}" for n in dir(Many) if n.startswith("test_") and any(w in n for w in sys.argv[2:] if w[0] != "-")]
    unittest.main(argv=[sys.argv[0], *names])
