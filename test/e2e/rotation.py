#!/usr/bin/env python3
"""Goal: keys are replaced while a memory node serves: the first key of a file connects, all are
accepted, SIGHUP reads the file again, and a removed key ends its sessions.

Method: lend-mn over UDP with a file of keys that the test changes, and clients with files of their
own.
Covers: mn/lend_mn.c, src/rpc/keys.c, src/rpc/keyfile.c, src/rpc/sealed_sessions.c

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
        """Whether a client with these keys gets a session, and its first line of error."""
        done = subprocess.run([LEND, "ping", self.node.address, "--count", "1", "--timeout", "200ms", "--keys", keys],
                              capture_output=True, timeout=60, check=False)
        return done.returncode == 0

    def reload(self, *lines):
        write_keys("server", *lines)
        self.node.process.send_signal(signal.SIGHUP)

    def wait_for(self, keys, good):
        for _ in range(PATIENCE):
            if self.reach(keys) == good:
                return
        self.fail(f"with {keys} it is not {good}")

    def test_append_move_remove(self):
        old, new = line_of("old"), line_of("new")
        with_old, with_new = write_keys("with_old", old), write_keys("with_new", new, old)
        with Node("udp:127.0.0.1:0", "--keys", write_keys("server", old)) as self.node:
            self.assertTrue(self.reach(with_old))
            self.assertFalse(self.reach(with_new), "the first key connects")
            self.reload(old, new)
            self.wait_for(with_new, True)
            self.assertTrue(self.reach(with_old), "all are accepted")
            live = subprocess.Popen([LEND, "ping", self.node.address, "--count", "100000", "--interval", "10ms", "--keys", with_old],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            while "reply" not in live.stdout.readline():
                self.assertIsNone(live.poll())
            self.reload(old, "psk what is this\n")
            self.assertTrue(self.reach(with_new), "a faulty file changes nothing")
            self.assertIsNone(live.poll())
            self.reload(new)
            _, why = live.communicate(timeout=20)
            self.assertEqual(live.returncode, 1)
            self.assertIn("UNAVAILABLE", why)
            self.wait_for(with_old, False)
            self.assertTrue(self.reach(with_new))


if __name__ == "__main__":
    if not (BUILD / "lend_seal.so").exists():
        print("this build has no lend_seal.so")
        sys.exit(77)
    os.environ.update(XDG_CONFIG_HOME=str(TEMP), LEND_LEVEL="encrypt", LEND_MODULE_DIR=str(BUILD))
    sys.exit(not run_tests(sys.argv[2:]))
