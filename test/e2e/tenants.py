#!/usr/bin/env python3
"""Goal: the keys of a file belong to tenants: a bound reference is refused in sessions of another
tenant, quotas count per tenant, and only the tenant of the node's first key reads its statistics.

Method: lend-mn over UDP with keys of two tenants, and lend put, get and top with each of them.
Covers: mn/tenants.c, mn/store/space.c, src/rpc/keys.c, src/rpc/session_proof.c, apps/tools/put.c

usage: tenants.py BUILD_DIR [NAME...]      only tests whose name contains one of the names
"""
import json
import os
import subprocess
import sys
import unittest

from programs import BUILD, LEND, TEMP, Node, key_of, lend, run_tests


class Tenants(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.key = {name: key_of(name, tenant) for name, tenant in
                   (("own", "red"), ("second", "red"), ("blue", "blue"), ("none", ""))}
        cls.all = TEMP / "all"
        cls.all.touch(0o600)
        cls.all.write_text("".join(path.read_text() for path in cls.key.values()))
        cls.data = TEMP / "data"
        cls.data.write_bytes(os.urandom(3 << 20))

    def put(self, node, who, *more, code=0):
        return lend("put", self.data, "--node", node.address, "--keys", self.key[who], *more, code=code)

    def get(self, ref, who, code=0):
        done = lend("get", ref, "-o", TEMP / "copy", "--keys", self.key[who], code=code)
        if not code:
            self.assertEqual((TEMP / "copy").read_bytes(), self.data.read_bytes())
        return done

    def test_bound_references(self):
        for quota in (), ("--quota", "each:64M"):
            with Node("udp:127.0.0.1:0", "--keys", self.all, *quota) as node:
                bound = self.put(node, "own", "--bound").stdout.decode().strip()
                free = self.put(node, "own").stdout.decode().strip()
                for who in "own", "second":
                    self.get(bound, who)
                for who in "blue", "none":
                    self.assertIn(b"PERMISSION_DENIED", self.get(bound, who, code=1).stderr)
                    self.get(free, who)

    def test_bound_without_a_tenant(self):
        with Node("udp:127.0.0.1:0", "--keys", self.all) as node:
            self.assertIn(b"FAILED_PRECONDITION", self.put(node, "none", "--bound", code=1).stderr)

    def test_quotas(self):
        with Node("udp:127.0.0.1:0", "--keys", self.all, "--quota", "tenant=blue:2M") as node:
            self.assertIn(b"RESOURCE_EXHAUSTED", self.put(node, "blue", code=1).stderr)
            self.put(node, "own")

    def test_statistics(self):
        with Node("udp:127.0.0.1:0", "--keys", self.all) as node:
            for who, good in ("own", True), ("second", True), ("blue", False), ("none", False):
                done = subprocess.run([LEND, "top", node.address, "--once", "--interval", "10ms", "--json", "--keys", self.key[who]],
                                      capture_output=True, timeout=60, check=False)
                self.assertEqual(done.returncode, 0 if good else 1, (who, done.stderr))
                if good:
                    session = json.loads(done.stdout)["endpoints"][0]["sessions"][0]
                    self.assertEqual((session["level"], session["forged"]), (2, 0))
                    self.assertTrue(0 < session["key_age_s"] < 60, session)
                else:
                    self.assertEqual((done.stderr.count(b"\n"), b"LEND_SECRET" in done.stderr), (1, True), done.stderr)


if __name__ == "__main__":
    if not (BUILD / "lend_seal.so").exists():
        print("this build has no lend_seal.so")
        sys.exit(77)
    os.environ.update(XDG_CONFIG_HOME=str(TEMP), LEND_LEVEL="encrypt", LEND_MODULE_DIR=str(BUILD))
    sys.exit(not run_tests(sys.argv[2:]))
