#!/usr/bin/env python3
"""Goal: programs call, put and get through memory that hosts share, and a killed server can be
replaced at once.

Method: a file instead of the memory, and the built programs around it; bytes are compared. Two
hosts: test/guest.
Covers: src/io/shm/multihost.c, src/io/shm/multihost_link.c, src/io/shm/multihost_memory.c

usage: multihost.py BUILD_DIR
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build").resolve()


def run(program, *args):
    done = subprocess.run([BUILD / program, *args], capture_output=True, timeout=60)
    assert done.returncode == 0, (args, done.stderr)
    return done.stdout


class Pod(unittest.TestCase):
    def setUp(self):
        self.file = tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="lend-pod-")
        self.file.truncate(64 << 20)
        self.server = None

    def tearDown(self):
        if self.server:
            self.stop(signal.SIGTERM)
        self.file.close()

    def at(self, name):
        return f"shm:{name}@{self.file.name}"

    def start(self, program, *args):
        self.server = subprocess.Popen([BUILD / program, *args], stdout=subprocess.PIPE, text=True)
        self.assertIn(self.file.name, self.server.stdout.readline())

    def stop(self, how):
        self.server.send_signal(how)
        self.server.wait()
        self.server.stdout.close()

    def test_calls(self):
        self.start("lend", "serve", "--listen", self.at("server"))
        for command, size in (("lat", "64"), ("rate", "4K"), ("bw", "3M")):
            got = json.loads(run("lend", command, "--connect", self.at("server"), "--size", size, "--count", "20", "--json"))
            self.assertEqual((got["errors"], got["wrong_bytes"]), (0, 0))

    def test_pages_and_a_killed_node(self):
        whole = os.urandom(3 << 20)
        path = pathlib.Path(self.file.name + ".data")
        self.addCleanup(path.unlink)
        path.write_bytes(whole)
        for _ in range(3):
            self.start("lend-mn", "--listen", self.at("mem"), "--size", "16M")
            ref = run("lend", "put", path, "--node", self.at("mem")).decode().strip()
            self.assertTrue(ref.endswith(self.at("mem")))
            self.assertEqual(run("lend", "get", ref), whole)
            self.stop(signal.SIGKILL)
        self.start("lend-mn", "--listen", self.at("mem"), "--size", "16M")

    def test_a_chain(self):
        got = json.loads(run("lend", "chain", "--by", "node", "--hops", "3", "--size", "1M", "--seconds", "0.2",
                             "--carrier", self.at("hop%p"), "--json"))
        self.assertEqual((got["errors"], got["wrong_bytes"]), (0, 0))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
