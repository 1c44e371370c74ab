#!/usr/bin/env python3
"""Goal: keys are replaced while a memory node or a server runs: the first key of a file connects,
all are accepted, SIGHUP reads the file again, and a removed key ends its sessions.

Method: lend-mn and lend serve over UDP with a file of keys that the test changes, and clients with
files of their own.
Covers: mn/lend_mn.c, apps/common/bench_server.c, src/rpc/hangups.c,
src/rpc/keys.c, src/rpc/keyfile.c, src/rpc/sealed_sessions.c

usage: rotation.py BUILD_DIR [NAME...]      only tests whose name contains one of the names
"""
import os
import signal
import subprocess
import sys
import unittest

from programs import BUILD, LEND, TEMP, Node, lend, run_tests

PATIENCE = 50  # tries of 200 ms


def line_of(name):
    lend("keygen", TEMP / f"{name}.one")
    return (TEMP / f"{name}.one").read_text()


def write_keys(name, *lines):
    path = TEMP / name
    path.touch(0o600)
    path.write_text("".join(lines))
    return path


class Rotation(unittest.TestCase):
    def reach(self, keys):
        """Whether a client with these keys gets a session."""
        done = subprocess.run([LEND, "ping", self.address, "--count", "1", "--timeout", "200ms", "--keys", keys],
                              capture_output=True, timeout=60, check=False)
        return done.returncode == 0

    def reload(self, *lines):
        write_keys("server", *lines)
        self.process.send_signal(signal.SIGHUP)

    def wait_for(self, keys, good):
        for _ in range(PATIENCE):
            if self.reach(keys) == good:
                return
        self.fail(f"with {keys} it is not {good}")

    def replace_key(self):
        """Starts with the old key in the server's file."""
        with_old, with_new = write_keys("with_old", self.old), write_keys("with_new", self.new, self.old)
        self.assertTrue(self.reach(with_old))
        self.assertFalse(self.reach(with_new), "the first key connects")
        self.reload(self.old, self.new)
        self.wait_for(with_new, True)
        self.assertTrue(self.reach(with_old), "all are accepted")
        live = subprocess.Popen([LEND, "ping", self.address, "--count", "100000", "--interval", "10ms", "--keys", with_old],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while "reply" not in live.stdout.readline():
            self.assertIsNone(live.poll())
        self.reload(self.old, "psk what is this\n")
        self.assertTrue(self.reach(with_new), "a faulty file changes nothing")
        self.assertIsNone(live.poll())
        self.reload(self.new)
        _, why = live.communicate(timeout=20)
        self.assertEqual(live.returncode, 1)
        self.assertIn("UNAVAILABLE", why)
        self.wait_for(with_old, False)
        self.assertTrue(self.reach(with_new))

    @classmethod
    def setUpClass(cls):
        cls.old, cls.new = line_of("old"), line_of("new")

    def test_append_move_remove(self):
        with Node("udp:127.0.0.1:0", "--keys", write_keys("server", self.old)) as node:
            self.process, self.address = node.process, node.address
            self.replace_key()

    def test_server_of_two_addresses(self):
        self.process = subprocess.Popen([LEND, "serve", f"shm:rotation-{os.getpid()},udp:127.0.0.1:0", "--keys", write_keys("server", self.old)],
                                        stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().split()[1].split(",")[-1]
        try:
            self.replace_key()
        finally:
            self.process.terminate()
            self.process.communicate(timeout=20)


if __name__ == "__main__":
    if not (BUILD / "lend_seal.so").exists():
        print("this build has no lend_seal.so")
        sys.exit(77)
    os.environ.update(XDG_CONFIG_HOME=str(TEMP), LEND_LEVEL="encrypt", LEND_MODULE_DIR=str(BUILD))
    sys.exit(not run_tests(sys.argv[2:]))
