#!/usr/bin/env python3
"""Goal: an idle process uses no CPU time, whatever happened to it before: a client that left, a
pool that was mapped, a scrape, a request at the admin socket, a process limit without a free
file descriptor.

Method: runs the built programs and reads their CPU clocks over a window. A process that is still
busy with the event itself gets more windows; one that spins fails each of them.
Covers: src/rpc/sleep.c, mn/admin.c, mn/metrics.c, mn/accept.c

usage: idle.py BUILD_DIR [NAME...]      only tests whose name contains one of the names
"""
import contextlib
import os
import pathlib
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

BUILD = pathlib.Path(sys.argv[1]).resolve()
LEND, MN = str(BUILD / "lend"), str(BUILD / "lend-mn")
WHERE = tempfile.mkdtemp(prefix="lend-idle-")
NAME = f"idle{os.getpid()}"
WINDOW_S, WINDOWS = 0.25, 12
SHARE = 0.004  # of a core: 20 ms in 5 s
BLIND_SHARE = 0.02  # where a carrier has nothing to sleep on


def cpu_s(pid):
    return time.clock_gettime((~pid << 3) | 2)  # the value that clock_getcpuclockid() returns


class Program:
    """A server, until the end of a with."""

    def __init__(self, *args):
        self.process = subprocess.Popen([str(a) for a in args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        self.line = self.process.stdout.readline()
        if not re.search(" at |ready", self.line):
            raise AssertionError(f"{args}: {self.line}{self.process.stderr.read()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def limit(self, free):
        """Limits it to few descriptors, or permits many again."""
        top = max(int(fd) for fd in os.listdir(f"/proc/{self.pid}/fd"))
        resource.prlimit(self.pid, resource.RLIMIT_NOFILE, (top + 1 + free, 4096))


def has(option):
    done = subprocess.run([MN, "--listen", "shm:" + NAME, option, "/nonexistent/x"], capture_output=True, text=True, timeout=20)
    return "not in this build" not in done.stderr


class Idle(unittest.TestCase):
    def assert_idle(self, pid, after, share=SHARE):
        used = []
        for _ in range(WINDOWS):
            began, clock = cpu_s(pid), time.monotonic()
            time.sleep(WINDOW_S)
            used.append((cpu_s(pid) - began) / (time.monotonic() - clock))
            if used[-1] < share:
                return
        self.fail(f"{after}: {', '.join(f'{100 * u:.1f}' for u in used)} % of a core")

    def put(self, node):
        subprocess.run([LEND, "put", sys.argv[0], "--node", node, "--ttl", "1m"], check=True, capture_output=True, timeout=30)

    def node(self, *options):
        return Program(MN, "--listen", f"pool:{NAME}", "--size", "16M", *options)

    def needs(self, option):
        if not has(option):
            self.skipTest(f"{option} is not in this build")

    def test_node_after_a_client_over_shm(self):
        with self.node() as node:
            self.assert_idle(node.pid, "start")
            self.put(f"shm:{NAME}")
            self.assert_idle(node.pid, "a client left")

    def test_node_after_a_client_of_its_pool(self):
        with self.node() as node:
            self.put(f"pool:{NAME}")
            self.assert_idle(node.pid, "a pool was mapped and left")

    def test_node_after_a_scrape(self):
        self.needs("--metrics")
        with self.node("--metrics", "0") as node:
            url = re.search(r"http:\S+", node.process.stdout.readline())[0]
            urllib.request.urlopen(url, timeout=10).close()
            self.assert_idle(node.pid, "a scrape")

    def test_node_after_a_question(self):
        self.needs("--admin")
        admin = WHERE + "/admin"
        with self.node("--admin", admin) as node:
            subprocess.run([LEND, "mem", "ls", "--admin", admin], check=True, capture_output=True, timeout=30)
            self.assert_idle(node.pid, "a question at the admin socket")

    def test_server_that_sleeps_by_time(self):
        pool = pathlib.Path(WHERE, "pool")
        pool.touch(mode=0o600)
        os.truncate(pool, 16 << 20)
        with Program(LEND, "serve", "--listen", f"shm:{NAME}@{pool}") as server:
            self.assert_idle(server.pid, "start", BLIND_SHARE)

    def without_descriptors(self, server, kind, address):
        """More connections than it has descriptors for; then the limit is raised."""
        server.limit(0)
        with contextlib.ExitStack() as callers:
            for _ in range(8):
                caller = callers.enter_context(socket.socket(socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX, kind))
                caller.setblocking(False)
                caller.connect_ex(address)
            self.assert_idle(server.pid, f"no descriptor was free for {address}")
            server.limit(64)

    def door(self, end=""):
        return next(str(path) for path in pathlib.Path(WHERE).rglob(NAME + end))

    def test_server_without_descriptors(self):
        with Program(LEND, "serve", "--listen", f"shm:{NAME}") as server:
            self.without_descriptors(server, socket.SOCK_SEQPACKET, self.door())
            subprocess.run([LEND, "lat", "--connect", f"shm:{NAME}", "--seconds", "0.1"], check=True, capture_output=True,
                           timeout=30)

    def test_pool_without_descriptors(self):
        with self.node() as node:
            self.without_descriptors(node, socket.SOCK_SEQPACKET, self.door(".pool"))
            self.put(f"pool:{NAME}")

    def test_admin_without_descriptors(self):
        self.needs("--admin")
        admin = WHERE + "/admin"
        with self.node("--admin", admin) as node:
            self.without_descriptors(node, socket.SOCK_STREAM, admin)
            subprocess.run([LEND, "mem", "ls", "--admin", admin], check=True, capture_output=True, timeout=30)

    def test_metrics_without_descriptors(self):
        self.needs("--metrics")
        with self.node("--metrics", "0") as node:
            url = re.search(r"http:\S+:(\d+)\S+", node.process.stdout.readline())
            self.without_descriptors(node, socket.SOCK_STREAM, ("127.0.0.1", int(url[1])))
            urllib.request.urlopen(url[0], timeout=10).close()

    def test_node_of_two_workers(self):
        with Program(MN, "--listen", f"shm:{NAME}", "--size", "16M", "--workers", "2") as node:
            self.put(f"shm:{NAME}")
            self.assert_idle(node.pid, "a client over shm left")


if __name__ == "__main__":
    os.environ["XDG_RUNTIME_DIR"] = os.environ["XDG_CONFIG_HOME"] = WHERE
    names = sys.argv[2:]
    try:
        ok = unittest.main(argv=[sys.argv[0], *(f"-k{n}" for n in names)], exit=False).result.wasSuccessful()
    finally:
        shutil.rmtree(WHERE, ignore_errors=True)
    sys.exit(not ok)
