"""Shared by the tests that run the built programs: their paths, a folder of the test's own, and a
memory node.

usage of each: NAME.py BUILD_DIR [TEST...]      only tests whose name contains one of the words
"""
import atexit
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build").resolve()
LEND = str(BUILD / "lend")
TEMP = pathlib.Path(tempfile.mkdtemp(prefix=f"lend-e2e-{os.getpid()}-"))
os.environ["XDG_RUNTIME_DIR"] = os.environ["XDG_CONFIG_HOME"] = str(TEMP)  # no sockets and keys of the user
for name in ("LEND_KEYS", "LEND_SECRET", "LEND_LEVEL"):
    os.environ.pop(name, None)
if not (BUILD / "lend_seal.so").exists():
    os.environ["LEND_LEVEL"] = "none"  # built without libsodium
atexit.register(shutil.rmtree, TEMP, ignore_errors=True)


def lend(*args, code=0):
    env = dict(os.environ)
    if any("dpdk" in str(arg) for arg in args):
        env["ASAN_OPTIONS"] = "detect_leaks=0"  # DPDK's threads and memory crash the leak checker
    for _ in range(2):
        done = subprocess.run([LEND, *map(str, args)], capture_output=True, timeout=60, env=env)
        if b"__rte_panic" not in done.stderr:
            break
        print("DPDK gave up, once more:", *args)  # net_memif on a starved machine: see src/io/TRANSPORTS.md
    assert done.returncode == code, (args, done.returncode, done.stdout[-400:], done.stderr[-2000:])
    assert code or not done.stderr, (args, done.stderr[-2000:])  # including the child's last output
    return done


def lend_json(*args):
    return json.loads(lend(*args, "--json").stdout)


def slowness():
    """How many times as long as on an idle CPU work takes now. At least 1."""
    began, until = time.monotonic(), time.thread_time() + 0.02
    while time.thread_time() < until:
        pass
    return max(1, (time.monotonic() - began) / 0.02)


def key_of(name, tenant):
    """A file with one new key of a tenant; "": of none."""
    path = TEMP / name
    lend("keygen", path)
    if tenant:
        path.write_text(path.read_text().rstrip("\n") + f" tenant {tenant}\n")
    return path


def one_line(test, done):
    """A command that failed printed one line, on stderr."""
    text = done.stderr.decode()
    test.assertEqual(text.count("\n"), 1, text)
    test.assertTrue(text.startswith("lend"), text)
    test.assertEqual(done.stdout, b"")


@functools.cache
def carriers():
    checks = {c["name"]: c["ok"] for c in lend_json("doctor")["checks"]}
    return [c for c in ("shm", "udp", "dpdk:memif", "dpdk:ring") if checks[c]]


class Node:
    """A memory node of the test's own, until the end of a with."""

    def __init__(self, listen, *more):
        self.process = subprocess.Popen([BUILD / "lend-mn", "--listen", listen, "--size", "64M", *more],
                                        stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        self.address = next(w for w in line.replace(",", " ").split() if w.startswith(("shm:", "udp:", "dpdk:")))

    def stat(self):
        return lend_json("mem", "stat", "--node", self.address)

    def wait_empty(self):
        """The node's counters once it holds nothing; the last ones after as many tries as take
        seconds."""
        for _ in range(500):
            stat = self.stat()
            if not stat["pages_used"]:
                break
        assert not stat["pages_used"], stat
        return stat

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)
        self.process.stdout.close()


def run_tests(names):
    """Runs the tests of the script that was started; returns whether all passed."""
    return unittest.main(argv=[sys.argv[0], "-v", *(f"-k{name}" for name in names)], exit=False).result.wasSuccessful()
