#!/usr/bin/env python3
"""Goal: an attacker that replays the datagrams of a client which proves a secret gets nothing that
the client holds, and does not disturb the client; at lend serve and at lend-mn.

Method: clients with a secret reach the programs through a relay that records their datagrams.
Another socket sends a client's CONNECT and all that followed to the server, with the session that
the server then gives it: while the client is there and after it left; unchanged, as a new attempt,
or without the proof. The relay shows the datagrams that a hostile server would get from the client.
Covers: src/core/handshake_proof.c, src/rpc/session_proof.c, mn/peers.c, cn/life.c

usage: copied.py BUILD_DIR [NAME...]      only tests whose name contains one of the names
"""
import json
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import unittest

from capture_made import ACKED, KINDS, OPS, SERVED, calls_in, crc32c
from programs import BUILD, LEND, TEMP, Node, run_tests

CONNECT, ACCEPT, REQUEST, CALLS, RETRY, PROOF = (KINDS.index(kind) + 1 for kind in "CONNECT ACCEPT REQUEST CALLS RETRY PROOF".split())
os.environ["LEND_LEVEL"] = "none"  # sealed, nothing of a copy can be changed
SECRET = dict(os.environ, LEND_SECRET="tulip and hyacinth", LEND_MODULE_DIR=str(BUILD))
ABORTED, QUIET = 10, 0.2  # a status; seconds in which all of a server's answers arrive


def port_of(address):
    return "127.0.0.1", int(address.rsplit(":", 1)[1])


class Relay:
    """Forwards datagrams between clients and a server, until the end of a with; clients[i] are
    those of one client's address."""

    def __init__(self, server):
        self.server, self.clients, self.stop = port_of(server), [], os.pipe()
        self.grew = threading.Condition()
        self.front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.front.bind(("127.0.0.1", 0))
        self.address = f"udp:127.0.0.1:{self.front.getsockname()[1]}"
        self.thread = threading.Thread(target=self.run)

    def run(self):
        back, of = {}, {}  # socket to the server by client; client and its record by socket
        while True:
            for s in select.select([self.stop[0], self.front, *of], [], [])[0]:
                if s == self.stop[0]:
                    return [s.close() for s in of]
                data, source = s.recvfrom(65536)
                if s is not self.front:
                    self.front.sendto(data, of[s][0])
                    continue
                if source not in back:
                    back[source] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                    of[back[source]] = source, []
                    self.clients.append(of[back[source]][1])
                with self.grew:
                    of[back[source]][1].append(data)
                    self.grew.notify_all()
                back[source].sendto(data, self.server)

    def wait_for(self, n):
        """The datagrams of the first client that sent this many."""
        with self.grew:
            assert self.grew.wait_for(lambda: any(len(client) >= n for client in self.clients), 20), "no client sends them"
        return next(list(client) for client in self.clients if len(client) >= n)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        os.write(self.stop[1], b"x")
        self.thread.join()
        self.front.close()
        for fd in self.stop:
            os.close(fd)


def without_report(data):
    """A client's calls without their report of received numbers, which would be those of another session."""
    if data[2] not in (REQUEST, CALLS) or not data[3] & ACKED:
        return data
    at = 44 if data[2] == REQUEST else 32
    return data[:3] + bytes([data[3] ^ ACKED]) + data[4:at] + data[at + 24:]


def sealed(data):
    return data[:-16] + struct.pack("<I12x", crc32c(data[:-16]))


class Stranger:
    """Sends a client's datagrams to a server as its own. how: copied; anew (as another attempt);
    unproven (also without the proof)."""

    def __init__(self, server, datagrams, how):
        self.how, self.session, self.cookie, self.got = how, None, None, []
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as self.socket:
            self.socket.connect(port_of(server))
            self.socket.settimeout(QUIET)
            for data in datagrams:
                if data[2] == CONNECT and not self.session:
                    self.connect(data)
                elif data[2] != CONNECT and self.session and not (data[2] == PROOF and how == "unproven"):
                    data = without_report(data)
                    self.socket.send(sealed(data[:8] + self.session + data[16:]))
            self.listen()
        self.accepted = self.session is not None
        self.replies = [(call, block[0]) for data in self.got for call, flags, block, _ in calls_in(data) if flags & SERVED]

    def connect(self, data):
        if self.how != "copied":
            data = data[:32] + os.urandom(8) + data[40:]
        if self.how == "unproven":
            data = data[:48] + bytes(16) + data[64:]
        self.socket.send(sealed(data))
        self.listen()
        if self.cookie and not self.session:
            self.socket.send(sealed(data[:96] + self.cookie + data[120:]))
            self.listen()

    def listen(self):
        """Waits until the server stops answering; a dead one refuses."""
        try:
            while data := self.socket.recv(65536):
                self.got.append(data)
                if data[2] == ACCEPT:
                    self.session = data[40:48]
                elif data[2] == RETRY:
                    self.cookie = data[48:72]
        except TimeoutError:
            pass


class Copied(unittest.TestCase):
    def setUp(self):
        done = subprocess.run([LEND, "keygen", str(TEMP / f"key-{self.id()}")], capture_output=True,
                              text=True, env=SECRET, timeout=60)
        if "libsodium" in done.stderr:
            self.skipTest(done.stderr.strip())

    def lend(self, *args):
        done = subprocess.run([LEND, *map(str, args)], capture_output=True, env=SECRET, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def check_none(self, stranger):
        self.assertEqual(stranger.replies, [], f"{stranger.how}: a stranger is answered")

    def start(self, *args):
        process = subprocess.Popen([LEND, *args], stdout=subprocess.PIPE, text=True, env=SECRET)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait, 60)
        self.addCleanup(process.kill)
        return process

    def test_serve(self):
        address = self.start("serve", "--listen", "udp:127.0.0.1:0").stdout.readline().split()[1]
        with Relay(address) as relay:
            client = self.start("lat", "--connect", relay.address, "--seconds", "2", "--json")
            datagrams = relay.wait_for(200)
            self.check_none(Stranger(address, datagrams, "copied"))
            anew = Stranger(address, datagrams, "anew")
            got = json.loads(client.communicate(timeout=60)[0])
            self.assertEqual((got["errors"], got["wrong_bytes"]), (0, 0))
            self.check_none(Stranger(address, datagrams, "copied"))
            for stranger in (anew, Stranger(address, datagrams, "anew")):
                self.assertTrue(stranger.accepted)
                self.check_none(stranger)

    def check_memory(self, stranger, datagrams):
        """In a session of its own, without the proof, it may open a life, but in the client's it is
        ABORTED."""
        ops = {call: OPS[payload[0] - 1][0] for d in datagrams for call, flags, _, payload in calls_in(d) if not flags & SERVED}
        statuses = {(ops[call], status) for call, status in stranger.replies}
        self.assertLessEqual({("HELLO", 0), ("PUT", ABORTED), ("GET", ABORTED)}, statuses)
        self.assertEqual({status for op, status in statuses if op != "HELLO"}, {ABORTED})

    def test_memory_node(self):
        secret = TEMP / "secret"
        secret.write_text(SECRET["LEND_SECRET"])
        with Node("udp:127.0.0.1:0", "--quota", f"secret={secret}:48M,net:1M") as node, Relay(node.address) as relay:
            client = self.start("mem", "lat", "--node", relay.address, "--seconds", "4", "--json")
            datagrams = relay.wait_for(400)
            datagrams = datagrams[:30] + datagrams[-200:]  # the last are operations that the node still knows
            self.check_none(Stranger(node.address, datagrams, "copied"))
            anew = Stranger(node.address, datagrams, "anew")
            self.assertTrue(anew.accepted)
            self.check_none(anew)
            self.check_memory(Stranger(node.address, datagrams, "unproven"), datagrams)
            self.assertIsNone(client.poll(), "the client left while strangers tried")
            got = json.loads(client.communicate(timeout=60)[0])
            self.assertEqual((got["wrong_bytes"], got["pages_used_after"], client.returncode), (0, 0, 0))


if __name__ == "__main__":
    sys.exit(not run_tests(sys.argv[2:]))
