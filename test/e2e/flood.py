#!/usr/bin/env python3
"""Goal: a server with a key answers no scanner, keeps no state for forged CONNECTs, and never sends
more than it got; lend flood sends them to the loopback only.

Method: runs lend flood against lend serve over UDP, with the server's key and with others.
Covers: apps/sealed/flood.c, apps/sealed/flood_send.c, apps/sealed/flood_watch.c, src/rpc/shake.c,
src/core/cookie.c

usage: flood.py BUILD_DIR [NAME...]      only tests whose name contains one of the names
"""
import os
import subprocess
import sys
import unittest

from programs import BUILD, LEND, TEMP, lend, lend_json, one_line, run_tests

KINDS = ("no_mac1", "wrong_mac1", "replayed", "no_cookie", "bad_cookie")


class Flood(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for name in "server", "other":
            lend("keygen", TEMP / name)
        os.environ.update(LEND_LEVEL="encrypt", LEND_KEYS=str(TEMP / "server"))
        cls.server = subprocess.Popen([LEND, "serve", "udp:127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
        cls.address = cls.server.stdout.readline().split()[1]

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        cls.server.communicate(timeout=20)

    def test_no_answer_without_the_key(self):
        for kinds, keys in (("no_mac1,wrong_mac1", "server"), ("noise", "server"), (",".join(KINDS), "other")):
            told = lend_json("flood", self.address, "--rate", 5000, "--seconds", 0.3, "--kinds", kinds, "--keys", TEMP / keys)
            self.assertGreater(told["sent"], 500)
            self.assertEqual({k for k in ("noise", *KINDS) if told[k]}, set(kinds.split(",")))
            self.assertEqual(told["answers"], 0)

    def test_no_state_and_no_amplification(self):
        told = lend_json("flood", self.address, "--rate", 10000, "--seconds", 1.2, "--watch", "--calls", 500)
        self.assertTrue(all(told[k] > 500 for k in KINDS), told)
        self.assertEqual(told["noise"], 0)
        self.assertGreater(told["answers"], 0, "a holder of the key is asked for its cookie")
        self.assertLess(told["answer_bytes_per_byte"], 1)
        self.assertEqual(told["server_sessions"], 1)
        self.assertLess(told["server_grown_bytes"], 1 << 20)
        self.assertGreater(told["goodput_before"], 0)
        self.assertGreater(told["goodput_during"], 0)

    def test_other_destinations_are_refused(self):
        for address in ("udp:10.0.0.1:7", "udp:128.0.0.1:7", "udp:[fd00::1]:7", "udp:0.0.0.0:7", "udp:127.0.0.1", "shm:x", "x"):
            one_line(self, lend("flood", address, code=2))
        one_line(self, lend("flood", code=2))
        one_line(self, lend("flood", self.address, "--kinds", "no_mac1,other", code=2))


if __name__ == "__main__":
    if not (BUILD / "lend_seal.so").exists():
        print("this build has no lend_seal.so")
        sys.exit(77)
    os.environ.update(XDG_CONFIG_HOME=str(TEMP), LEND_MODULE_DIR=str(BUILD))
    sys.exit(not run_tests(sys.argv[2:]))
