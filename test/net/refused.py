#!/usr/bin/env python3
"""Goal: where namespaces or veth pairs are not permitted, each test of this folder is skipped with
one line that gives the reason.

Method: in PATH before the real one, an unshare that fails as the kernel lets it, and one in which
`ip link add` fails.
Covers: test/net/pair.py
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).parent
TESTS = ("calls", "foreign", "broker", "hosts", "link", "many", "mem", "queues")
REFUSAL = "unshare: unshare failed: Operation not permitted"


def run(name, fakes):
    with tempfile.TemporaryDirectory() as folder:
        for command, body in fakes.items():
            path = pathlib.Path(folder, command)
            path.write_text(f"#!/bin/sh\n{body}\n")
            path.chmod(0o755)
        env = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}")
        return subprocess.run([sys.executable, HERE / f"{name}.py", "net_af_packet"], capture_output=True, text=True, env=env)


class Refused(unittest.TestCase):
    def skipped(self, name, fakes):
        done = run(name, fakes)
        self.assertEqual(done.returncode, 77, f"{name}: {done.stdout}{done.stderr}")
        self.assertEqual((done.stdout.count("\n"), done.stderr), (1, ""), name)
        return done.stdout

    def test_unshare_is_refused(self):
        for name in TESTS:
            line = self.skipped(name, {"unshare": f"echo '{REFUSAL}' >&2; exit 1"})
            if os.geteuid() == 0 and "libdpdk" not in line:
                self.assertIn(REFUSAL, line)

    def test_veth_is_refused(self):
        self.skipped("calls", {"unshare": 'shift 2; exec "$@"', "mount": "", "ip": '[ "$2" != add ] || { echo refused >&2; exit 2; }'})


if __name__ == "__main__":
    unittest.main()
