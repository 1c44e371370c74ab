#!/usr/bin/env python3
"""Goal: where /dev/shm is as small as in a container (64 MiB), or smaller, each command does its
work or ends with one line that gives the reason; none is killed by SIGBUS.

Method: runs itself in a mount namespace with a tmpfs of either size at /dev/shm; skipped with one
line where that is not permitted.
Covers: src/sys/shared_arena.c, src/sys/mapfile.c, mn/memory.c, src/io/shm/rendezvous.c

usage: small_shm.py BUILD_DIR [TEST...]
"""
import os
import pathlib
import signal
import subprocess
import sys
import unittest

INSIDE = "LEND_TEST_SMALL_SHM"
SHM = pathlib.Path("/dev/shm")


def enter():
    """Restarts this program in a namespace of its own; returns where none can be made."""
    for how in (["-m"], ["-Urm"]):
        if subprocess.run(["unshare", *how, "mount", "-t", "tmpfs", "none", SHM], capture_output=True).returncode == 0:
            os.environ[INSIDE] = "1"
            os.execvp("unshare", ["unshare", *how, sys.executable, "-B", *sys.argv])


if __name__ == "__main__" and INSIDE not in os.environ:
    if sys.platform == "linux":
        enter()
    print("skipped: a mount namespace needs root or user namespaces")
    sys.exit(77)

from images import jpeg  # noqa: E402
from programs import BUILD, LEND, TEMP, Node, lend_json  # noqa: E402

RUNS = (
    ("lat", "--seconds", "0.1"),
    ("bw", "--size", "8M", "--seconds", "0.1"),
    ("connect", "--seconds", "0.1"),
    ("connect", "--burst", "2000", "--processes", "3"),
    ("load", "--rate", "1000", "--size", "1M", "--seconds", "0.1"),
    ("wait", "--busy", "2", "--seconds", "0.2"),
    ("mem-lat", "--seconds", "0.1", "--pool"),
    ("chain", "--hops", "3", "--size", "1M", "--by", "node", "--seconds", "0.1"),
    ("chain", "--hops", "3", "--size", "8M", "--by", "value", "--seconds", "0.1"),
    ("doctor",),
)


class Small:
    def setUp(self):
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.size}", "none", SHM], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", SHM], check=True)

    def ends(self, *args, code=None):
        """Ends by itself: 0 without output on stderr, or 1 with one line, which is returned."""
        done = subprocess.run([str(a) for a in args], capture_output=True, text=True, timeout=60)
        self.assertIn(done.returncode, (0, 1) if code is None else (code,), (args, done.stderr))
        self.assertEqual(done.stderr.count("\n"), done.returncode, (args, done.stderr))
        return done.stderr

    def test_a_node_too_large_for_it(self):
        for listen in ("shm:small", "pool:small"):
            for memory in (SHM, SHM / "pages"):
                said = self.ends(BUILD / "lend-mn", "--listen", listen, "--size", "65M", "--memory", memory, code=1)
                self.assertRegex(said, rf"\Alend-mn: {memory}: no room for \d+ bytes: [^\n]*; ask for less[^\n]*\n\Z")
        self.assertEqual((SHM / "pages").stat().st_size, 0)

    def test_a_node_in_memory(self):
        """Its pages are not in /dev/shm, whatever its size."""
        data = TEMP / "data"
        data.write_bytes(os.urandom(1 << 20) * 24)
        with Node("shm:small,pool:also") as node:
            for at in (node.address, "pool:also"):
                ref = subprocess.run([LEND, "put", data, "--node", at], capture_output=True, check=True, text=True).stdout
                got = subprocess.run([LEND, "get", ref.strip()], capture_output=True, check=True).stdout
                self.assertEqual(got, data.read_bytes())

    def test_commands(self):
        for args in RUNS:
            with self.subTest(args=args):
                self.ends(LEND, *args)

    def test_photographs(self):
        if not {c["name"]: c["ok"] for c in lend_json("doctor")["checks"]}["images"]:
            self.skipTest("built without libturbojpeg")
        photos = TEMP / "photos"
        photos.mkdir(exist_ok=True)
        (photos / "p.jpg").write_bytes(jpeg(1203, 801, 1))
        for by in ("value", "ref"):
            self.ends(LEND, "images", "--by", by, photos)
        self.ends(LEND, "demo", "--quick", "--report", TEMP / "demo.html", photos, code=0)

    def serve(self):
        pod = SHM / "pod"
        with open(os.open(pod, os.O_CREAT | os.O_RDWR, 0o600), "wb") as file:
            file.truncate(256 << 20)
        server = subprocess.Popen([LEND, "serve", "--listen", f"shm:server@{pod}"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.send_signal, signal.SIGTERM)
        self.assertIn(str(pod), server.stdout.readline())
        return server, f"shm:server@{pod}"


class Container(Small, unittest.TestCase):
    size = "64M"

    def test_a_pod_with_holes(self):
        server, at = self.serve()
        for size in ("64", "4M"):
            self.ends(LEND, "bw", "--connect", at, "--size", size, "--count", "20", code=0)
        self.assertIsNone(server.poll())

    def test_a_broker(self):
        broker = subprocess.Popen([BUILD / "lend-broker", "--name", f"small{os.getpid()}", "--device", "udp:127.0.0.1:0"],
                                  stdout=subprocess.PIPE, text=True)
        self.assertTrue(broker.stdout.readline())
        self.ends(LEND, "lat", "--carrier", f"broker:small{os.getpid()}", "--count", "100", code=0)
        broker.send_signal(signal.SIGTERM)
        self.assertEqual(broker.wait(), 0)
        broker.stdout.close()


class Tiny(Small, unittest.TestCase):
    size = "1M"

    def test_a_pod_without_room_for_a_link(self):
        server, at = self.serve()
        for _ in range(2):
            self.assertRegex(self.ends(LEND, "lat", "--connect", at, code=1), r"no room for \d+ bytes: .*; ask for less")
        self.assertIsNone(server.poll())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + [f"-k{name}" for name in sys.argv[2:]], verbosity=2)
