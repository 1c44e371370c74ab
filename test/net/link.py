#!/usr/bin/env python3
"""Goal: calls survive a link that goes down and comes back; a device that disappears ends calls,
not programs; a server that was killed is replaced on the same interface.

Method: the link is taken down when a number of calls have been served, and up again when they have
stopped; every call ends well. Then the interface is deleted under both kinds of program, and a
server is killed with its queues full.
Covers: src/io/dpdk/port_state.c, src/io/dpdk/port.c, src/io/dpdk/eal_poll.c

usage: link.py KIND [NAME...]      KIND: net_af_packet or net_af_xdp
"""
import json
import subprocess
import sys
import time
import unittest

from pair import DEV, Pair, wait_for

KIND = sys.argv[1]
CALLS = 100000


class Link(unittest.TestCase):
    def start(self, server, client, count=CALLS):
        serving = server.serve()
        calling = client.client("rate", "--connect", client.calling(serving), "--count", str(count), "--window", "16",
                                "--seconds", "0.1", "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_for(lambda: serving.counters()["requests"] > 3000, "the first calls")
        return serving, calling

    def stopped(self, serving):
        before = serving.counters()["requests"]
        time.sleep(0.05)  # more than the calls in flight need to end, and many are still to be made
        return serving.counters()["requests"] == before

    def down_and_up(self, pair, server, client):
        serving, calling = self.start(server, client)
        for downs, end in enumerate(pair.ends, 1):  # either end down: no carrier at both
            end.ip("link", "set", DEV, "down")
            wait_for(lambda: self.stopped(serving), "no calls over a link that is down")
            if server.dpdk:
                wait_for(lambda: serving.counters()["io_link_down"] == downs, "the link's state was looked at")
            self.assertIsNone(calling.poll())
            end.ip("link", "set", DEV, "up")
            before = serving.counters()["requests"]
            wait_for(lambda: serving.counters()["requests"] > before + 3000 or calling.poll() is not None, "calls again")
        out, err = calling.communicate(timeout=60)
        self.assertEqual((calling.returncode, err), (0, ""))
        got = json.loads(out)
        self.assertEqual((got["calls"], got["errors"], got["wrong_bytes"]), (CALLS, 0, 0))
        serving.end()

    def test_server_sees_it(self):
        with Pair(KIND) as pair:
            self.down_and_up(pair, pair.dpdk, pair.kernel)

    def test_client_sees_it(self):
        with Pair(KIND) as pair:
            self.down_and_up(pair, pair.kernel, pair.dpdk)

    def deleted(self, pair, server, client):
        serving, calling = self.start(server, client, 1 << 30)
        pair.kernel.ip("link", "del", DEV)
        calling.terminate() if client.dpdk else None
        _, err = calling.communicate(timeout=60)
        self.assertTrue(serving.alive(), serving.said())
        self.assertGreater(serving.counters()["requests"], 3000)
        serving.end()
        return calling.returncode, err

    def test_server_loses_its_device(self):
        with Pair(KIND) as pair:
            code, err = self.deleted(pair, pair.dpdk, pair.kernel)
            self.assertEqual((code, err.count("\n")), (1, 1), err)

    def test_killed_server_is_replaced(self):
        with Pair(KIND) as pair:
            serving, calling = self.start(pair.dpdk, pair.kernel, 1 << 30)
            serving.kill()
            calling.kill()
            again = pair.dpdk.serve(port=int(serving.port()))
            pair.kernel.load("rate", again, "--count", 1000, "--window", 16, "--seconds", "0.1")
            again.end()


if __name__ == "__main__":
    names = [f"Link.{n}" for n in dir(Link) if n.startswith("test_") and any(w in n for w in sys.argv[2:] if w[0] != "-")]
    unittest.main(argv=[sys.argv[0], *names])
