#!/usr/bin/env python3
"""Goal: put and get move a file to a memory node and back, references and keys stay hidden from
other users, and each failure is one line that names the fix.

Method: runs the built programs over shm and udp, with files, folders and references that are wrong
in each way.
Covers: cn/ref_values.c, src/wire/memref.c, src/rpc/keys.c, src/sys/rundir.c

usage: apps_refs.py BUILD_DIR [NAME...]      only tests whose name contains one of the names
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from programs import BUILD, LEND, TEMP, Node, lend, lend_json, one_line, run_tests

SHORT = ["--seconds", "0.2"]


class References(unittest.TestCase):
    def test_put_and_get(self):
        for listen in (f"shm:apps-{os.getpid()}-put", "udp:127.0.0.1:0"):
            with Node(listen) as node:
                for size in (0, 1, 4096, 1 << 20, (5 << 20) + 3):
                    with self.subTest(listen=listen, size=size):
                        self.round_trip(node, size)

    def round_trip(self, node, size):
        source, copy = TEMP / "source", TEMP / "copy"
        source.write_bytes(os.urandom(size))
        ref = lend("put", source, "--node", node.address, "--ttl", "10m").stdout.decode().strip()
        self.assertTrue(ref.startswith("lend1:"))
        lend("get", ref, "-o", copy)
        self.assertEqual(copy.read_bytes(), source.read_bytes())
        self.assertEqual(lend("get", ref).stdout, source.read_bytes())
        copy.unlink()

    def test_a_pipe_is_written_to(self):
        """The output may be a device or a pipe, which no file may replace."""
        pipe, source, copy = TEMP / "pipe", TEMP / "source", TEMP / "copy"
        source.write_bytes(os.urandom(3 << 20))
        os.mkfifo(pipe)
        with Node(f"shm:apps-{os.getpid()}-pipe") as node:
            ref = lend("put", source, "--node", node.address).stdout.decode().strip()
            with copy.open("wb") as out, subprocess.Popen(["cat", pipe], stdout=out):
                lend("get", ref, "-o", pipe)
        self.assertTrue(pipe.is_fifo())
        self.assertEqual(copy.read_bytes(), source.read_bytes())
        pipe.unlink()
        copy.unlink()

    def test_a_reference_that_is_not_in_argv(self):
        """From standard input, or the first line of a file; and each mistake in that gives one line."""
        source, ref, none = TEMP / "source", TEMP / "ref", TEMP / "none"
        source.write_bytes(os.urandom(5000))
        with Node(f"shm:apps-{os.getpid()}-argv") as node:
            good = lend("put", source, "--node", node.address).stdout
            for text in (good, b" \t" + good, b"", b"x" * 2000, b"\n", b" \n", b"\0" * 2000):
                ref.write_bytes(text)
                for args in (["-"], ["--ref-file", ref]):
                    with ref.open("rb") as stdin:
                        done = subprocess.run([LEND, "get", *args], stdin=stdin, capture_output=True, timeout=60)
                    self.assertEqual(done.returncode, 0 if good in text else 2, done.stderr)
                    self.assertEqual(done.stdout, source.read_bytes() if done.returncode == 0 else b"")
                    self.assertEqual(done.stderr.count(b"\n"), int(done.returncode != 0), done.stderr)
        for path, why in ((none, b"No such file"), (TEMP, b"Is a directory")):
            done = lend("get", "--ref-file", path, code=1)
            one_line(self, done)
            self.assertIn(why, done.stderr)
        one_line(self, lend("get", "-", "--ref-file", ref, code=2))

    def test_a_node_that_is_full(self):
        with Node(f"shm:apps-{os.getpid()}-full") as node:
            source = TEMP / "large"
            source.write_bytes(os.urandom(80 << 20))
            done = lend("put", source, "--node", node.address, code=1)
            one_line(self, done)
            self.assertIn(b"RESOURCE_EXHAUSTED", done.stderr)
            self.assertEqual(node.wait_empty()["spaces"], 0)
            self.round_trip(node, 3 << 20)

    def test_a_node_that_is_gone(self):
        node = Node(f"shm:apps-{os.getpid()}-gone")
        source = TEMP / "orphan"
        source.write_bytes(b"o" * 5000)
        ref = lend("put", source, "--node", node.address).stdout.decode().strip()
        node.process.kill()
        node.__exit__()
        one_line(self, lend("get", ref, "-o", TEMP / "never", code=1))
        one_line(self, lend("chain", "--by", "node", "--node", node.address, *SHORT, code=1))
        self.assertFalse(list(TEMP.glob("never*")))

    def test_put_expires(self):
        with Node(f"shm:apps-{os.getpid()}-ttl") as node:
            source = TEMP / "short-lived"
            source.write_bytes(b"x" * 10000)
            ref = lend("put", source, "--node", node.address, "--ttl", "50ms").stdout.decode().strip()
            for _ in range(200):
                if node.stat()["pages_used"] == 0:
                    break
            self.assertEqual(node.stat()["pages_used"], 0)
            done = lend("get", ref, "-o", TEMP / "never", code=1)
            one_line(self, done)
            self.assertFalse(list(TEMP.glob("never*")), "a failed get leaves no file")

    def test_forged_reference(self):
        with Node(f"shm:apps-{os.getpid()}-forged") as node:
            source = TEMP / "secret"
            source.write_bytes(b"s" * 5000)
            ref = lend("put", source, "--node", node.address).stdout.decode().strip()
            at = ref.index("@") - 4
            forged = ref[:at] + ("A" if ref[at] != "A" else "B") + ref[at + 1:]
            done = lend("get", forged, code=1)
            one_line(self, done)

    @unittest.skipUnless((BUILD / "lend_seal.so").exists(), "built without libsodium")
    def test_keygen(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "new" / "keys"
            self.assertIn(str(path).encode(), lend("keygen", path).stdout)
            self.assertEqual(path.stat().st_mode & 0o777, 0o600)
            self.assertRegex(path.read_text(), r"^psk [0-9a-f]{16} [0-9a-f]{64}\n$")
            one_line(self, lend("keygen", path, code=1))
            lend("lat", *SHORT, "--keys", path)
            path.chmod(0o644)
            one_line(self, lend("lat", *SHORT, "--keys", path, code=1))
            one_line(self, lend("keygen", path, "surplus", code=2))

    @unittest.skipUnless((BUILD / "lend_seal.so").exists(), "built without libsodium")
    def test_keygen_without_a_name(self):
        with tempfile.TemporaryDirectory() as home, mock.patch.dict(os.environ, HOME=home):
            for name in ("LEND_KEYS", "XDG_CONFIG_HOME"):
                os.environ.pop(name, None)
            lend("keygen")
            made = (pathlib.Path(home) / ".config/lend/keys").read_text()
            one_line(self, lend("keygen", code=1))
            self.assertEqual((pathlib.Path(home) / ".config/lend/keys").read_text(), made)
            lend("lat", *SHORT)
            found = {c["name"]: c["found"] for c in lend_json("doctor")["checks"]}
            self.assertIn("endpoints prove psk " + made.split()[1], found["keys"])
            del os.environ["HOME"]
            lend("lat", *SHORT)
            done = lend("keygen", code=1)
            one_line(self, done)
            self.assertIn(b"HOME is not set; name the file", done.stderr)

    @unittest.skipUnless((BUILD / "lend_seal.so").exists(), "built without libsodium")
    def test_keygen_where_nothing_can_be_made(self):
        for path in ("/proc/keys-of-a-test", LEND + "/keys"):
            done = lend("keygen", path, code=1)
            one_line(self, done)
            self.assertIn(b"name a file in a folder that can be written", done.stderr)

    def test_a_home_that_cannot_be_read(self):
        """As after su without a new HOME: a file at its path has the effect of another user's folder."""
        with mock.patch.dict(os.environ, HOME=LEND):
            for name in ("LEND_KEYS", "XDG_CONFIG_HOME"):
                os.environ.pop(name, None)
            done = lend("serve", "--listen", "udp:127.0.0.1:0", code=1)
            one_line(self, done)
            self.assertIn(b"set HOME, or LEND_KEYS", done.stderr)
            checks = {c["name"]: c for c in lend_json("doctor")["checks"]}
            self.assertEqual((checks["keys"]["ok"], checks["udp"]["fix"]), (False, "fix the keys above"))


if __name__ == "__main__":
    sys.exit(not run_tests(sys.argv[2:]))
