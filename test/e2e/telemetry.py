#!/usr/bin/env python3
"""Goal: dpdk-telemetry.py reads endpoints, sessions and a memory node's numbers, without root, also while the endpoint sleeps; they
agree with what happened.

Method: a memory node and a benchmark server over memif, each as another user if this is root. Debian's dpdk-telemetry.py
(dpdk-dev) is used where it is installed; else the same socket is read here.
Covers: src/io/dpdk/telemetry.c, src/rpc/describe.c, mn/node_worker.c

usage: telemetry.py BUILD_DIR
"""
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv[1]).resolve()
EAL = "--no-huge -m 192 --no-pci --no-shconf --telemetry --file-prefix"
SCRIPT = shutil.which("dpdk-telemetry.py")
USER = {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}


def environment(folder):
    return dict(os.environ, RUNTIME_DIRECTORY=folder, XDG_RUNTIME_DIR=folder, XDG_CONFIG_HOME=folder, HOME=folder)


class Server:
    def __init__(self, folder, prefix, *args):
        self.folder, self.prefix = folder, prefix
        self.process = subprocess.Popen([str(a) for a in args] + ["--eal", f"{EAL} {prefix}"], stdout=subprocess.PIPE, text=True,
                                        env=environment(folder), **USER)
        line = self.process.stdout.readline()
        self.address = re.search(r"(?:at|ready) (\S+)", line)[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate()

    def ask(self, *commands):
        """The values of commands, each in the line that dpdk-telemetry.py prints for it."""
        if SCRIPT:
            done = subprocess.run([SCRIPT, "-f", self.prefix], input="\n".join([*commands, "quit\n"]), capture_output=True, text=True,
                                  env=environment(self.folder), timeout=60, **USER)
            lines = done.stdout.splitlines()
        else:
            lines = self.ask_socket(commands)
        replies = [json.loads(line) for line in lines if line.startswith('{"/lend')]
        return [reply[command.split(",")[0]] for command, reply in zip(commands, replies, strict=True)]

    def ask_socket(self, commands):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.connect(f"{self.folder}/dpdk/{self.prefix}/dpdk_telemetry.v2")
            s.recv(1024)
            for command in commands:
                s.send(command.encode())
                yield s.recv(16 << 10).decode()


class Telemetry(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lend-tel-", ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.chmod(self.folder, 0o700)
        if USER:
            os.chown(self.folder, USER["user"], USER["group"])

    def node(self):
        return Server(self.folder, "node", BUILD / "lend-mn", "--listen", "dpdk:memif@127.0.0.1:0", "--size", "4M")

    def lend(self, *args):
        return subprocess.run([str(a) for a in (BUILD / "lend", *args)], capture_output=True, text=True, env=environment(self.folder),
                              timeout=60, **USER)

    def test_node(self):
        with self.node() as node:
            endpoints, sessions, numbers = node.ask("/lend/endpoints", "/lend/sessions", "/lend/node")
            self.assertEqual((endpoints["0"]["address"], endpoints["0"].get("sessions", 0)), (node.address, 0))
            self.assertEqual((sessions["0"], numbers["0"]["pages_total"], numbers["0"]["pages_used"]), ({}, 1024, 0))
            pathlib.Path(self.folder, "file").write_bytes(bytes(10000))
            done = self.lend("put", pathlib.Path(self.folder, "file"), "--node", node.address, "--ttl", "60")
            self.assertEqual(done.returncode, 0, done.stderr)
            endpoints, numbers = node.ask("/lend/endpoints,0", "/lend/node")
            self.assertEqual(numbers["0"]["pages_used"], 3)
            self.assertGreater(endpoints["0"]["requests"], 0)
            self.assertEqual(node.ask("/lend/endpoints,7", "/lend/node,x,y"), [{}, numbers])

    def test_sessions(self):
        with Server(self.folder, "serve", BUILD / "lend", "serve", "--listen", "dpdk:memif@127.0.0.1:0") as server:
            client = subprocess.Popen([str(a) for a in (BUILD / "lend", "bench", "lat", "--connect", server.address, "--seconds", "60")],
                                      stdout=subprocess.DEVNULL, env=environment(self.folder), **USER)
            try:
                sessions = {}
                while client.poll() is None and not any(s["rx"] > 100 for s in sessions.values()):
                    sessions = server.ask("/lend/sessions")[0]["0"]
                self.assertIsNone(client.poll(), "the client ended before its session was seen")
                first, session = next(iter(sessions.items()))
                self.assertEqual(session["up"], 1)
                self.assertNotIn(first, server.ask(f"/lend/sessions,0,{first}")[0]["0"])
            finally:
                client.kill()
                client.wait()


if __name__ == "__main__":
    if not (BUILD / "lend_io_dpdk.so").exists():
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
