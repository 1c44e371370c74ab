#!/usr/bin/env python3
"""Goal: operating a memory node follows its manuals: configured by a file, queried and drained over
its admin socket, scraped by Prometheus, stopped without cutting a reply; and the manuals and
unit files are valid.

Method: runs the built programs; each mistake in the file ends the start with one line that has the
place. promtool and systemd-analyze check the rest where they are installed. mandoc reads the
manuals in house.man.
Covers: mn/config.c, mn/config_file.c, mn/admin.c, mn/admin_commands.c, mn/worker_query.c,
mn/metrics.c, mn/notify.c, mn/fdstore.c, mn/tenants.c, src/cli/cli.c, src/cli/option_table.c

usage: operate.py BUILD_DIR SOURCE_DIR [NAME...]      only tests whose name contains one of the
names
"""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

BUILD, SOURCE = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
LEND, MN = str(BUILD / "lend"), str(BUILD / "lend-mn")
WHERE = tempfile.mkdtemp(prefix="lend-operate-")
NAME = f"shm:operate{os.getpid()}"


def run(*args, code=0, text=None):
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True, timeout=60, input=text)
    if done.returncode != code:
        raise AssertionError(f"{args} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done


def file(text, name="mn.yaml"):
    path = os.path.join(WHERE, name)
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)
    return path


class Node:
    """lend-mn with these arguments, until the end of a with."""

    def __init__(self, *args):
        self.process = subprocess.Popen([MN, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.line = self.process.stdout.readline()
        if " at " not in self.line:
            raise AssertionError(f"{args}: {self.line}{self.process.stderr.read()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=20)
        if self.process.returncode:
            raise AssertionError(f"lend-mn ended with {self.process.returncode}: {err}")
        return out


def needs(part):
    """Whether this build has an optional part; its absence is one clear line."""
    done = subprocess.run([MN, "--listen", NAME, part, "/nonexistent/x"], capture_output=True, text=True, timeout=20)
    if "not in this build" in done.stderr:
        raise unittest.SkipTest(done.stderr.strip())


class Config(unittest.TestCase):
    def setUp(self):
        needs("--config")

    def test_every_option(self):
        names = re.findall(r"--([a-z-]+)", run(MN, "--help").stdout)
        values = {"listen": NAME, "size": "16M", "memory": "memfd", "page": "64K", "lease": "5000", "id": "7", "clients": "9",
                  "capture": WHERE + "/c.pcapng", "capture-limit": "1M", "json": "true", "drain": "10",
                  "keep": "false", "pin": "off", "workers": "1", "eal": '""'}
        optional = {"admin": WHERE + "/a", "metrics": "0"}
        for name, value in optional.items():
            if subprocess.run([MN, "--listen", NAME, f"--{name}", "/nonexistent/x"], capture_output=True, text=True,
                              timeout=20).stderr.count("not in this build") == 0:
                values[name] = value
        self.assertLessEqual(set(values), set(names))
        path = file("".join(f"{name}: {value}\n" for name, value in values.items()))
        with Node("--config", path) as node:
            self.assertRegex(node.line, r"serving 16777216 bytes at .* on (small|transparent huge|reserved huge) pages\n")
            out = node.end()
        self.assertEqual(json.loads(out.splitlines()[-1])["pages_total"], 256)

    def test_the_command_line_counts_more(self):
        path = file(f"listen: {NAME}\nsize: 16M\njson: true\n")
        for args in (["--config", path, "--size", "32M"], ["--size", "32M", "--config", path]):
            with Node(*args) as node:
                self.assertIn("serving 33554432 bytes", node.line)

    def test_mistakes(self):
        for text, line, word in ((f"listen: {NAME}\nsize: lots\n", 2, "give a size"),
                                 (f"listen: {NAME}\n\nsizes: 1G\n", 3, "sizes"),
                                 (f"listen: {NAME}\njson: perhaps\n", 2, "true or false"),
                                 (f"listen: {NAME}\nmemory: paper\n", 2, "memfd"),
                                 (f"listen: {NAME}\npage: 12K\n", 2, "power of two"),
                                 (f"listen: {NAME}\npage: 4M\n", 2, "2097152"),
                                 (f"listen: {NAME}\nsize: [1, 2]\n", 2, ""),
                                 (f"listen: {NAME}\nconfig: other.yaml\n", 2, "config")):
            path = file(text)
            error = run(MN, "--config", path, code=2).stderr
            self.assertEqual(error.count("\n"), 1, error)
            self.assertIn(f"{path}:{line}: ", error)
            self.assertIn(word, error)
        self.assertIn("No such file", run(MN, "--config", WHERE + "/none", code=2).stderr)
        self.assertIn("no address to serve at", run(MN, "--config", file("size: 16M\n"), code=2).stderr)


class Admin(unittest.TestCase):
    def setUp(self):
        needs("--admin")
        self.path = WHERE + "/admin"

    def lend(self, *args, code=0):
        return run(LEND, "mem", *args, "--admin", self.path, code=code)

    def test_ls_top_evict(self):
        data = file("x" * 10000, "data")
        with Node("--listen", NAME, "--size", "16M", "--workers", "2", "--admin", self.path) as node:
            refs = [run(LEND, "put", data, "--node", NAME, "--ttl", "10m").stdout.strip() for _ in range(5)]
            objects = json.loads(self.lend("ls", "--json").stdout)["objects"]
            self.assertEqual([o["bytes"] for o in objects], [10000] * 5)
            self.assertEqual(len(json.loads(self.lend("ls", "--json", "--limit", "3").stdout)["objects"]), 3)
            self.assertIn("raise --limit", self.lend("ls", "--limit", "3").stdout)
            self.assertIn("lease ms", self.lend("top").stdout)
            for o in objects:
                self.lend("evict", f"{o['worker']}:{o['slot']}:{o['serial']}")
            for ref in refs:
                self.assertIn("NOT_FOUND", run(LEND, "get", ref, "-o", "/dev/null", code=1).stderr)
            self.assertIn("not there", self.lend("evict", "0:1:1", code=1).stderr)
            self.assertIn("give", self.lend("evict", "nobody", code=2).stderr)
            self.assertEqual(os.stat(self.path).st_mode & 0o777, 0o600)
            node.end()
        self.assertFalse(os.path.exists(self.path))

    def test_the_node_and_its_socket_are_words(self):
        """--node and --admin, which the other tests use, are aliases."""
        data = file("x" * 10000, "data")
        with Node("--listen", NAME, "--size", "16M", "--workers", "2", "--admin", self.path):
            run(LEND, "put", data, NAME)
            (row,) = json.loads(run(LEND, "mem", "ls", self.path, "--json").stdout)["objects"]
            self.assertEqual(json.loads(run(LEND, "mem", "stat", NAME, "--json").stdout)["refs"], 1)
            workers = json.loads(run(LEND, "mem", "stat", self.path, "--json").stdout)["workers"]
            self.assertEqual(sum(w["refs"] for w in workers), 1)
            self.assertEqual(run(LEND, "mem", "stat", self.path).stdout.count("pages_total"), 2)
            run(LEND, "mem", "evict", self.path, f"{row['worker']}:{row['slot']}:{row['serial']}")
            self.assertEqual(json.loads(run(LEND, "mem", "stat", "--node", NAME, "--json").stdout)["refs"], 0)

    def test_top_tells_who_holds(self):
        with Node("--listen", NAME, "--size", "16M", "--admin", self.path):
            with subprocess.Popen([LEND, "mem-lat", "--node", NAME, "--seconds", "20"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as client:
                clients = []
                while not clients and client.poll() is None:
                    clients = json.loads(self.lend("top", "--json").stdout)["clients"]
                self.assertEqual(len(clients), 1)
                self.assertRegex(clients[0]["process"], "^[0-9a-f]{32}$")
                self.assertGreater(clients[0]["lease_ms"], 0)
                self.lend("evict", clients[0]["process"])
                client.kill()

    def test_another_user_gets_no_answer(self):
        """Also where the socket's mode permits a connect, as on systems that do not check it."""
        if os.geteuid():
            self.skipTest("only root can become another user")
        os.chmod(WHERE, 0o755)
        with Node("--listen", NAME, "--size", "16M", "--admin", self.path):
            os.chmod(self.path, 0o777)
            self.assertIn(b"clients", self.asked_by(0))
            self.assertEqual(self.asked_by(65534), b"")

    def asked_by(self, user):
        """The socket's answer to this user: the kernel reports the connecting user."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(20)
            os.seteuid(user)
            try:
                s.connect(self.path)
            finally:
                os.seteuid(0)
            try:
                s.sendall(b'{"do":"top"}\n')
                return s.recv(4096)
            except (BrokenPipeError, ConnectionResetError):
                return b""

    def test_only_a_socket_is_replaced(self):
        kept = file("precious", "kept")
        got = run(MN, "--listen", NAME, "--size", "16M", "--admin", kept, code=1)
        self.assertIn("not a socket", got.stderr)
        with open(kept) as f:
            self.assertEqual(f.read(), "precious")
        with socket.socket(socket.AF_UNIX) as killed:
            killed.bind(self.path)
        with Node("--listen", NAME, "--size", "16M", "--admin", self.path):
            got = run(MN, "--listen", NAME + "2", "--size", "16M", "--admin", self.path, code=1)
            self.assertIn("in use", got.stderr)
            self.lend("ls")

    def test_bad_lines_get_an_error(self):
        with Node("--listen", NAME, "--size", "16M", "--admin", self.path):
            for line in (b"hello\n", b"{}\n", b'{"do":7}\n', b'{"do":"fly"}\n', b'{"do":"evict","process":"zz"}\n',
                         b'{"do":"evict","process":"abc"}\n', b'{"do":"evict","process":"' + b"0" * 31 + b'"}\n',
                         b'{"do":"evict","worker":99,"slot":1,"serial":1}\n', b"[" * 3000 + b"\n"):
                with socket.socket(socket.AF_UNIX) as s:
                    s.connect(self.path)
                    s.sendall(line)
                    self.assertIn("error", json.loads(s.makefile().readline()))
            with socket.socket(socket.AF_UNIX) as s:  # a line without end, and a client that sends nothing
                s.connect(self.path)
                s.sendall(b"x" * 4096)
                self.assertEqual(s.recv(1), b"")
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(self.path)
                self.assertEqual(len(json.loads(self.lend("ls", "--json").stdout)["objects"]), 0)


class Metrics(unittest.TestCase):
    def test_text(self):
        needs("--metrics")
        with Node("--listen", NAME, "--size", "16M", "--workers", "2", "--metrics", "0") as node:
            url = re.search(r"http:\S+", node.process.stdout.readline())[0]
            run(LEND, "put", file("x" * 10000, "data"), "--node", NAME, "--ttl", "10m")
            with urllib.request.urlopen(url, timeout=10) as reply:
                self.assertIn("version=0.0.4", reply.headers["Content-Type"])
                text = reply.read().decode()
            with self.assertRaises(urllib.error.HTTPError) as lost:
                urllib.request.urlopen(url + "s", timeout=10)
            lost.exception.close()
            node.end()
        self.assertEqual(text.count('lend_mem_pages{worker="'), 2)
        self.assertEqual(sum(int(v) for v in re.findall(r"^lend_mem_refs\{.*\} (\d+)$", text, re.M)), 1)
        names = re.findall(r"^# TYPE (\S+) counter$", text, re.M)
        self.assertTrue(all(name.endswith("_total") for name in names))
        if not shutil.which("promtool"):
            self.skipTest("promtool is not installed: scripts/deps.sh test")
        self.assertEqual(run("promtool", "check", "metrics", text=text).stdout, "")

    def test_only_this_host_unless_said(self):
        """A listener at 0.0.0.0 would answer at any address of the host, as at 127.0.0.2."""
        needs("--metrics")
        for where, everywhere in (("0", False), ("127.0.0.1:0", False), ("0.0.0.0:0", True)):
            with Node("--listen", NAME, "--size", "16M", "--metrics", where) as node:
                port = int(re.search(r"http:\S+:(\d+)/", node.process.stdout.readline())[1])
                for host, answers in (("127.0.0.1", True), ("127.0.0.2", everywhere)):
                    with socket.socket() as s:
                        s.settimeout(10)
                        self.assertEqual(s.connect_ex((host, port)) == 0, answers, (where, host))
                node.end()

    def test_bad_addresses(self):
        needs("--metrics")
        for at in ("here", "1.2.3:80", "127.0.0.1:66000", "127.0.0.1:"):
            self.assertIn("give PORT or IP:PORT", run(MN, "--listen", NAME, "--metrics", at, code=1).stderr)


def make_cgroup(limit):
    """A memory cgroup below this process's own, or None where it may make none."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            above, name = f"/sys/fs/cgroup/memory{path}", "memory.limit_in_bytes"
        elif not controllers:
            above, name = f"/sys/fs/cgroup{path}", "memory.max"
        else:
            continue
        folder = pathlib.Path(above, f"lend-operate{os.getpid()}")
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            folder.joinpath(name).write_text(str(limit))
            return folder
        except OSError:
            folder.rmdir()
    return None


class Memory(unittest.TestCase):
    def start_in(self, folder, size):
        """Output on stderr of a node of that size, until it serves and is ended."""
        enter = f"echo $$ >{folder}/cgroup.procs && exec \"$@\""
        node = subprocess.Popen(["sh", "-c", enter, "sh", MN, "--listen", NAME, "--size", size],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        node.stdout.readline()
        node.terminate()
        return node.communicate(timeout=20)[1]

    def test_a_size_beyond_the_cgroup(self):
        folder = make_cgroup(256 << 20)
        if not folder:
            self.skipTest("no memory cgroup can be made here")
        try:
            self.assertEqual(self.start_in(folder, "64M"), "")
            line = self.start_in(folder, "300M")
        finally:
            folder.rmdir()
        self.assertRegex(line, r"^lend-mn: --size 300 MiB: its cgroup may use 256 MiB .*smaller --size")
        self.assertEqual(line.count("\n"), 1, line)


class Mistakes(unittest.TestCase):
    def test_a_line_and_exit_code_2(self):
        for program, listen in ((MN, ["--listen", NAME]), (BUILD / "lend-broker", ["--name", "x", "--device", "udp:127.0.0.1:0"]),
                                (LEND, ["lat"])):
            for args, word in ((["--bogus"], "--bogus"), (["--json=3"], "--json=3"), (["--size"], "--size"), (["a", "b"], "a")):
                with self.subTest(program=program, args=args):
                    done = run(program, *listen, *args, code=2)
                    self.assertRegex(done.stderr, rf"\A[^\n]*lend[^\n]*: {word}: [^\n]+\n\Z")
                    self.assertEqual(done.stdout, "")
        for program in (MN, BUILD / "lend-broker"):
            self.assertEqual(run(program, code=2).stderr.count("\n"), 1)
        for program, listen in ((MN, ["--listen", NAME]), (BUILD / "lend-broker", ["--name", "x", "--device", "udp:127.0.0.1:0"])):
            self.assertRegex(run(program, *listen, "--numa", "777", code=2).stderr,
                             r"\Alend[a-z-]*: --numa 777: no such NUMA node with memory; there are: 0[^\n]*\n\Z")
        for nowhere in ("", ",", " , "):
            self.assertIn("no address to serve at", run(MN, "--listen", nowhere, code=2).stderr)
            self.assertIn("no address", run(LEND, "serve", "--listen", nowhere, code=2).stderr)
        self.assertIn("can be written", run(MN, "--listen", NAME, "--memory", WHERE + "/none/f", code=1).stderr)
        for size in ("1", "8191", "2T"):  # less than a page for each of two; more pages than a store can have
            self.assertRegex(run(MN, "--listen", NAME, "--size", size, "--workers", "2", code=1).stderr,
                             r"\Alend-mn: --size \d+: give 4096 to [^\n]*--page\n\Z")
        self.assertRegex(run(MN, "--listen", NAME, "--size", "lots", code=2).stderr, r"\Alend-mn: --size lots: give [^\n]*\n\Z")

    def test_versions_and_help_are_no_mistakes(self):
        for program in ("lend", "lend-mn", "lend-broker"):
            self.assertRegex(run(BUILD / program, "--version").stdout, rf"\A{program} [0-9.]+\n\Z")
            self.assertIn("--help", run(BUILD / program, "--help").stdout)


class Manuals(unittest.TestCase):
    def test_they_speak_of_what_is_there(self):
        for program, page in ((MN, "mn/man/lend-mn.8"), (BUILD / "lend-broker", "src/broker/man/lend-broker.8")):
            options = set(re.findall(r"^ +(?:-\w, |    )--([a-z-]+)", run(program, "--help").stdout, re.M))
            said = set(re.findall(r"(?:^\.It Fl |Fl \w , )-([a-z-]+)", (SOURCE / page).read_text(), re.M))
            self.assertEqual(said, options - {"help", "version"}, page)
        said = " , ".join(re.findall(r"^\.It Cm (.*)", (SOURCE / "apps/man/lend.1").read_text(), re.M)).split(" , ")
        self.assertEqual(sorted(said), sorted(re.findall(r"^  ([\w-]+)  ", run(LEND, "--help").stdout + run(LEND, "bench", "--help").stdout, re.M)))

    def test_examples(self):
        needs("--config")
        text = re.search(r"literal.*?\n(.*?)\.Ed", (SOURCE / "mn/man/lend.yaml.5").read_text(), re.S)[1]
        for name, lines in (("page", text), ("installed", (SOURCE / "mn/mn.yaml").read_text()), ("user", (SOURCE / "mn/mn.user.yaml").read_text())):
            path = file(lines, name + ".yaml")
            error = run(MN, "--config", path, "--listen", NAME, code=1).stderr  # keep: there is no service manager here
            self.assertIn("NOTIFY_SOCKET", error)

    def test_units(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("systemd-analyze is not installed")
        for name in ("lend-mn.service.in", "lend-mn.user.service.in"):
            text = (SOURCE / "mn" / name).read_text()
            text = text.replace("@LEND_BINDIR@", str(BUILD)).replace("@LEND_SYSCONFDIR@", "/etc")
            unit = file(text, name.replace(".in", ""))
            done = run("systemd-analyze", "verify", "--man=no", *(["--user"] if "user" in name else []), unit)
            self.assertEqual([line for line in done.stderr.splitlines() if WHERE in line], [])


if __name__ == "__main__":
    os.environ["XDG_RUNTIME_DIR"] = os.environ["XDG_CONFIG_HOME"] = WHERE
    os.environ.pop("NOTIFY_SOCKET", None)
    names = sys.argv[3:]
    try:
        ok = unittest.main(argv=[sys.argv[0], *(f"-k{n}" for n in names)], exit=False).result.wasSuccessful()
    finally:
        shutil.rmtree(WHERE, ignore_errors=True)
    sys.exit(not ok)
