#!/usr/bin/env python3
"""Goal: every subcommand of lend follows its --help, for people and for programs, and fails with
one line.

Method: runs the built programs for a fraction of a second each over the carriers that this machine
has, reads their JSON, and queries the memory node after each run that used one for pages in use.
Covers: cn/client.c, mn/lend_mn.c, src/broker/main.c

usage: apps.py BUILD_DIR [NAME...]      only tests whose name contains one of the names
"""
import contextlib
import ctypes
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

from programs import BUILD, LEND, TEMP, Node, carriers, lend, lend_json, one_line, run_tests

PR_CAPBSET_DROP, CAP_NET_RAW = 24, 13
SHORT = ["--seconds", "0.2"]
LOAD_FIELDS = {"calls_per_s", "p50_us", "p99_us", "mean_us", "max_us", "in_flight", "errors", "wrong_bytes",
               "check_in_flight", "check_order", "bytes_moved_per_call"}


def resnet50():
    """Parameters of each layer with its normalization, in the order of the forward step."""
    sizes, last = [3 * 64 * 49 + 2 * 64], 64
    for width, blocks in (64, 3), (128, 4), (256, 6), (512, 3):
        for block in range(blocks):
            sizes += [last * width + 2 * width, 9 * width * width + 2 * width, 4 * width * width + 8 * width]
            sizes += [4 * last * width + 8 * width] * (block == 0)
            last = 4 * width
    return sizes + [2048 * 1000 + 1000]


def transformer(first, last, width=768):
    """The same of a model of twelve blocks."""
    square = width * width
    return [first] + [3 * square + 5 * width, square + width, 4 * square + 6 * width, 4 * square + width] * 12 + [last]


def is_running(pid):
    """Whether a process exists and is no zombie; it may end at any moment."""
    try:
        return ") Z " not in pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def children_of(pid):
    """The processes that a process has started, each with the words of its program's and subcommand's names."""
    for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            words = pathlib.Path(f"/proc/{child}/cmdline").read_text().split("\0")
            yield int(child), "-".join(word for word in words[:2] if not word.startswith("--")).split("-")


class Commands(unittest.TestCase):
    def check_load(self, got):
        self.assertLessEqual(LOAD_FIELDS, got.keys())
        self.assertGreater(got["calls"], 0)
        self.assertEqual((got["errors"], got["wrong_bytes"]), (0, 0))
        self.assertTrue(got["check_order"])
        self.assertLessEqual(got["p50_us"], got["p99_us"])
        self.assertLessEqual(got["p99_us"], got["max_us"])

    def test_lat(self):
        for carrier in carriers():
            for size in (0, 64, 5000):
                with self.subTest(carrier=carrier, size=size):
                    got = lend_json("lat", "--carrier", carrier, "--size", size, *SHORT)
                    self.check_load(got)
                    self.assertEqual(got["in_flight"], 1)
                    self.assertGreaterEqual(got["bytes_moved_per_call"], 2 * size)
                    self.assertIn(got["distance_before"], ("near", "far", "one CPU"))

    def test_an_address_as_carrier(self):
        name = f"shm:apps-{os.getpid()}-%p"
        for command in (["lat"], ["chain", "--by", "node", "--hops", 2, "--size", "8K"], ["mem", "lat"]):
            got = lend_json(*command, "--carrier", name, *SHORT)
            self.assertEqual((got["carrier"], got["wrong_bytes"]), (name, 0))

    def test_a_carrier_has_one_name(self):
        """The older spelling, with a dash, is understood too."""
        if "dpdk:memif" in carriers():
            got = lend_json("bench", "lat", "--carrier", "dpdk-memif", *SHORT)
            self.assertEqual((got["carrier"], got["wrong_bytes"]), ("dpdk:memif", 0))

    def test_load(self):
        """Calls complete under each overload, all others end RESOURCE_EXHAUSTED or DEADLINE_EXCEEDED. At the highest rate
        the process has no time to draw each arrival."""
        for carrier in ("shm", "udp"):
            for rate, deadline in ((2000, "1s"), (5000000, "1s"), (100000000, "100ms")):
                with self.subTest(carrier=carrier, rate=rate):
                    got = lend_json("load", "--carrier", carrier, "--one-thread", "--rate", rate, "--deadline", deadline, "--seconds", "0.2")
                    for check in ("check_offered", "check_ends", "check_order"):
                        self.assertTrue(got[check], got)
                    self.assertEqual((got["errors"], got["carrier"], got["size"]), (0, carrier, 64))
                    self.assertGreater(got["completed_per_s"], 0)
                    if rate == 2000:
                        self.assertEqual(got["expired"] + got["exhausted"], 0, got)
                    else:
                        self.assertGreater(got["expired"] + got["exhausted"], 0, got)

    def test_rate(self):
        for carrier in carriers():
            for more in ([], ["--one-thread"]):
                with self.subTest(carrier=carrier, more=more):
                    got = lend_json("rate", "--carrier", carrier, "--window", 32, "--sessions", 4, *more, *SHORT)
                    self.check_load(got)
                    self.assertEqual(got["in_flight"], 128)
                    self.assertGreater(got["cycles_per_call"], 0)
                    self.assertEqual(got["one_thread"], bool(more) or carrier == "dpdk:ring")

    def test_a_server_that_takes_fewer_calls(self):
        with subprocess.Popen([LEND, "serve", "--listen", "udp:127.0.0.1:0"], stdout=subprocess.PIPE, text=True) as server:
            try:
                done = subprocess.run([LEND, "rate", "--window", "256", "--json", *SHORT, "--connect", server.stdout.readline().split()[1]],
                                      capture_output=True, text=True, timeout=30, check=True)
            finally:
                server.terminate()
        got = json.loads(done.stdout)
        self.assertEqual((got["in_flight"], got["window"], got["check_in_flight"]), (128, 256, True), got)
        self.assertRegex(done.stderr, r"^lend rate: udp:\S+ takes 128 calls of a session at once: give --window 128, and more --sessions\n$")

    def test_bw(self):
        for carrier in carriers():
            with self.subTest(carrier=carrier):
                got = lend_json("bw", "--carrier", carrier, "--size", "1M", *SHORT)
                self.check_load(got)
                self.assertGreaterEqual(got["bytes_moved_per_call"], 1 << 20)
                want = 8e-9 * got["size"] * got["calls_per_s"]
                self.assertAlmostEqual(got["gbit_per_s"], want, delta=0.01 * want + 0.01)

    def test_a_sweep_by_size(self):
        """Also sizes on both sides of a buffer that small requests share, and a largest size between two powers."""
        for command, size in ("lat", 9000), ("rate", 5000), ("bw", 70000):
            plot = TEMP / f"{command}.svg"
            got = lend_json("bench", command, "--sweep", "--size", size, "--carrier", "udp", "--plot", plot, "--seconds", "0.2")
            self.assertEqual([row["size"] for row in got["sizes"]], [2**i for i in range(1, (size - 1).bit_length())] + [size])
            self.assertEqual((got["errors"], got["wrong_bytes"], got["carrier"]), (0, 0, "udp"))
            for row in got["sizes"]:
                self.assertGreater(row["calls"], 0)
                self.assertLessEqual(row["p50_us"], row["p99_us"])
                self.assertAlmostEqual(row["gbit_per_s"], 8e-9 * row["size"] * row["calls_per_s"], delta=0.002 + 0.01 * row["gbit_per_s"])
            text = plot.read_text()
            self.assertEqual(text.count("<circle"), len(got["sizes"]) * (1 + (command == "lat")))
            self.assertNotRegex(text, 'href|src=')
        one_line(self, lend("bench", "bw", "--plot", "x.svg", code=2))
        one_line(self, lend("bench", "lat", "--sweep", "--size", 3, code=2))

    def test_priority(self):
        for carrier in carriers():
            with self.subTest(carrier=carrier):
                got = lend_json("priority", "--carrier", carrier, "--one-thread", "--bulk", "8M", "--every", "20us", "--rounds", 1,
                                "--seconds", 0.5)
                self.assertEqual((got["carrier"], got["bulk"], got["wrong_bytes"]), (carrier, 8 << 20, 0))
                for phase in ("unloaded", "loaded", "fifo"):
                    self.assertGreater(got["calls_" + phase], 0)
                    self.assertLessEqual(got["p50_us_" + phase], got["p99_us_" + phase])
                self.assertGreater(got["bulk_percent_of_off"], 0)
                # Bytes, because times depend on the machine's load. Without priorities both are equal.
                self.assertLess(2 * got["kb_meanwhile_loaded"], got["kb_meanwhile_fifo"])

    def test_training(self):
        """Model, its published number of parameters, and the layers with parameters."""
        for model, parameters, sizes in (("resnet50", 25557032, resnet50()), ("vit-b16", 86567656, transformer(742656, 1536 + 769000)),
                                         ("gpt2", 124439808, transformer(39383808, 1536))):
            self.assertEqual(sum(sizes), parameters)
            scale = parameters // 400000
            shape = ("bench", "training", "--model", model, "--scale", scale, "--slice", "8K", "--link", 50, "--rounds", 2)
            done = subprocess.run([LEND, *map(str, shape), "--json"], capture_output=True, text=True)
            if "no link can be made" in done.stderr:
                self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
                self.skipTest(done.stderr)
            got = json.loads(done.stdout)
            self.assertEqual((done.returncode, done.stderr, got["wrong_bytes"]), (0, "", 0))
            self.assertEqual((got["layers"], got["parameters"]), (len(sizes), sum(-(-n // scale) for n in sizes)))
            self.assertGreater(got["bound_ms"], max(got["compute_ms"], got["transfer_ms"]))
            self.assertLess(got["bound_ms"], got["iteration_ms"])
            self.assertLess(got["bound_ms_fifo"], got["iteration_ms_fifo"])
            self.assertLess(got["bound_ratio"], 0.9)
            for _ in range(5):  # other processes may delay an iteration
                if model == "gpt2" or got["ratio"] <= 0.93:  # its first layer is a third of it
                    break
                got = lend_json(*shape)
            else:
                self.fail(f"priorities do not shorten an iteration: {got}")
        one_line(self, lend("bench", "training", "--slice", 4097, code=2))
        one_line(self, lend("bench", "training", "--model", "gpt2", "--slice", "4K", code=2))

    def test_deadlines(self):
        got = lend_json("deadlines", "--seconds", 1)
        self.assertGreater(got["calls"], 10)  # on any machine, however busy
        for how in ("fifo", "deadline"):
            self.assertLessEqual(got["missed_soon_" + how] + got["missed_later_" + how], got["calls"])
        refused = subprocess.run([LEND, "deadlines", "--carrier", "dpdk:ring"], capture_output=True, text=True)
        self.assertEqual((refused.returncode, refused.stderr.count("\n")), (2, 1), refused.stderr)

    def test_wait(self):
        got = lend_json("wait", "--idle", 20, *SHORT)
        self.assertEqual((got["carrier"], got["idle_sessions"], got["wrong_bytes"]), ("shm", 20, 0))
        self.assertGreater(min(got["slept_p50_us"], got["polled_p50_us"], got["hybrid_p50_us"]), 0)
        self.assertGreater(got["wake_bare_us"], 0)
        self.assertLess(got["idle_server_percent"], 50)

    def test_wait_next_to_busy_threads(self):
        for _ in range(5):  # other tests may run on these CPUs
            got = lend_json("wait", "--busy", 2, "--seconds", "0.4")
            self.assertEqual((got["busy"], got["carrier"]), (2, "shm"))
            self.assertLessEqual(got["p50_us"], got["p99_us"])
            self.assertAlmostEqual(got["p99_over_eventfd"], got["p99_us"] / got["eventfd_p99_us"], delta=0.01 + 0.001 * got["p99_over_eventfd"])
            if got["p50_us"] < 10 * got["eventfd_p50_us"]:
                return
        self.fail(f"calls lose their time slices: {got}")

    def test_start(self):
        got = lend_json("start", "--count", 10)
        self.assertEqual(got["starts"], 10)
        self.assertGreater(got["start_p50_us"], max(got["exec_us"], got["open_us"], got["connect_us"], got["call_us"]) / 2)
        refused = subprocess.run([LEND, "start", "--child", f"shm:nobody-{os.getpid()}"], capture_output=True, text=True)
        self.assertEqual((refused.returncode != 0, refused.stderr.count("\n")), (True, 1), refused.stderr)

    def test_connect(self):
        got = lend_json("connect", "--seconds", "0.4")
        self.assertEqual((got["carrier"], got["in_flight"], got["errors"]), ("shm", 32, 0))
        for figure in ("connect", "first_reply", "zero_rtt_reply"):
            self.assertGreater(got[f"{figure}_p50_us"], 0)
            self.assertLessEqual(got[f"{figure}_p50_us"], got[f"{figure}_p99_us"])
        self.assertGreater(min(got["connects_per_s"], got["attach_p50_us"]), 0)
        self.assertGreaterEqual(min(got["first_reply_trips"] / 2, got["zero_rtt_reply_trips"]), 1)

    def test_a_burst_of_sessions(self):
        for carrier, sessions, processes in (("shm", 2000, 1), ("udp", 2000, 1), ("udp", 250, 4)):
            with self.subTest(carrier=carrier, processes=processes):
                got = lend_json("connect", "--burst", sessions, "--processes", processes, "--carrier", carrier)
                self.assertEqual((got["up"], got["failed"]), (sessions * processes, 0))
                self.assertGreater(got["seconds"], 0)

    def test_a_burst_that_fails(self):
        """Where no session comes up, and where some do, one line gives the reason."""
        done = lend("connect", "--burst", 5, "--processes", 2, "--connect", f"shm:apps-{os.getpid()}-none", code=1)
        one_line(self, done)
        self.assertIn(b"no session came up: shm:", done.stderr)
        with subprocess.Popen([LEND, "serve", "--listen", "udp:127.0.0.1:0", "--sessions", "20"], stdout=subprocess.PIPE, text=True) as server:
            done = lend("connect", "--burst", 300, "--json", "--connect", server.stdout.readline().split()[1], code=1)
            got = json.loads(done.stdout)
            self.assertEqual(got["up"] + got["failed"], 300)
            self.assertGreater(min(got["up"], got["failed"]), 0)
            self.assertRegex(done.stderr, rb"\Alend connect: \d+ calls failed, the first one: RESOURCE_EXHAUSTED; [^\n]*--sessions\n\Z")
            server.terminate()

    def test_elastic(self):
        """Workers and functions reply through a broker and without; a worker that is no worker ends the run with one line."""
        got = lend_json("elastic", "--carrier", "udp", "--workers", 3, "--rounds", 2, "--values", 33, "--size", 5000, "--function-size", 70001)
        self.assertEqual((got["gets"], got["functions"], got["errors"], got["wrong_bytes"]), (2 * 2 * 3 * 32, 2 * 2, 0, 0))
        for way in ("broker", "own"):
            self.assertGreater(got[f"{way}_function_us"], max(got[f"{way}_attach_us"], got[f"{way}_fetch_us"]))  # medians
        self.assertGreater(min(got["spike_ratio"], got["function_ratio"], got["attach_ratio"]), 0)
        for name in ("elastic-worker", "elastic-function"):
            for ref, code in (("12", 2), ("lend1:" + "A" * 86 + "@shm:x", 2), ("lend1:" + "A" * 16 + "AQ" + "A" * 68 + "@pigeon", 1)):
                one_line(self, lend(name, "--ref", ref, "--size", 9, "--caller", "shm:nobody", code=code))

    def test_elastic_without_its_broker(self):
        """The broker is killed while workers start and end: the run ends, and its last line has the reason."""
        with subprocess.Popen([LEND, "elastic", "--carrier", "udp", "--workers", "2", "--rounds", "100"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as run:
            found = {}
            while len(found) < 2 and run.poll() is None:  # until the first workers start
                found = {words[-1]: pid for pid, words in children_of(run.pid) if words[-1] in ("broker", "worker")}
            os.kill(found["broker"], signal.SIGKILL)
            out, err = run.communicate(timeout=60)
            self.assertEqual((run.returncode, out), (1, ""), err)
            self.assertRegex(err.splitlines()[-1], "broker|worker|function")

    def test_broker(self):
        """Both ends at a broker; the server is killed, and another one serves at once."""
        name = f"broker-{os.getpid()}"
        with subprocess.Popen([BUILD / "lend-broker", "--name", name, "--device", "udp:127.0.0.1:0", "--json"],
                              stdout=subprocess.PIPE, text=True) as broker:
            self.assertEqual(broker.stdout.readline(), f"ready broker:{name}\n")
            for how in (subprocess.Popen.kill, subprocess.Popen.terminate):
                with subprocess.Popen([LEND, "serve", "--listen", f"broker:{name}"], stdout=subprocess.PIPE, text=True) as server:
                    address = server.stdout.readline().split()[1]
                    self.assertTrue(address.startswith(f"broker:{name}/udp:127.0.0.1:"), address)
                    got = lend_json("lat", "--connect", address, *SHORT)
                    self.assertEqual((got["errors"], got["wrong_bytes"]), (0, 0))
                    how(server)
            broker.terminate()
            counts = json.loads(broker.stdout.read())
            self.assertEqual((counts["attached"], counts["bad"]), (4, 0))
            self.assertGreater(min(counts["from_clients"], counts["to_clients"]), 100)

    @unittest.skipUnless("dpdk:memif" in carriers(), "no dpdk:memif here")
    def test_broker_of_memif(self):
        """Both ends choose the level of memif, whether or not there is a broker between them and their device."""
        name = f"memif-{os.getpid()}"
        with subprocess.Popen([BUILD / "lend-broker", "--name", name, "--device", "dpdk:memif@127.0.0.1:0"], stdout=subprocess.PIPE, text=True) as broker:
            broker.stdout.readline()
            for listen in (f"broker:{name}", "dpdk:memif@127.0.0.1:0"):
                with subprocess.Popen([LEND, "serve", "--listen", listen], stdout=subprocess.PIPE, text=True) as server:
                    address = server.stdout.readline().split()[1].removeprefix(f"broker:{name}/")
                    for way in (address, f"broker:{name}/{address}"):
                        got = lend_json("lat", "--connect", way, "--count", 20)
                        self.assertEqual((got["errors"], got["wrong_bytes"]), (0, 0))
                    server.terminate()
            broker.terminate()

    def test_top(self):
        name = f"shm:top-{os.getpid()}"
        with subprocess.Popen([LEND, "serve", "--listen", name], stdout=subprocess.PIPE, text=True) as server:
            self.assertIn("ready", server.stdout.readline())
            with subprocess.Popen([LEND, "bw", "--connect", name, "--size", "1M", "--seconds", "30"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as load:
                for _ in range(100):  # until it serves
                    end = lend_json("top", name, "--once", "--interval", "50ms")["endpoints"][0]
                    if end["sessions_up"] == 2 and end["rx_bytes_per_s"] > 0 and end["requests_per_s"] > 0:
                        break
                load.terminate()
            self.assertEqual((end["address"], end["pid"], len(end["sessions"])), (name, server.pid, 2))
            busy = max(end["sessions"], key=lambda s: s["rx_per_s"])
            self.assertGreater(busy["rx_per_s"], 0)
            for field in ("calls", "served", "queued"):
                self.assertEqual(len(busy[field]), 8)
            self.assertEqual([end["refs_" + n] for n in ("in_place", "copied", "by_value", "expired")], [0] * 4)
            found = [c["found"] for c in lend_json("doctor")["checks"] if c["name"] == "references"]
            self.assertRegex(found[0], "^[1-9][0-9]* endpoints at shm: ")
            table = subprocess.run([LEND, "top", "--once", "--interval", "20ms"], capture_output=True, text=True)
            self.assertIn(name, table.stdout)  # found without an option
            server.terminate()
        gone = subprocess.run([LEND, "top", name, "--once", "--interval", "20ms"], capture_output=True, text=True)
        self.assertEqual((gone.returncode, gone.stderr.count("\n")), (1, 1), gone.stderr)

    def test_chain(self):
        size, hops = 200000, 3
        for carrier in set(carriers()) - {"dpdk:ring"}:
            for by in ("value", "ref", "node", "auto"):
                with self.subTest(carrier=carrier, by=by):
                    got = lend_json("chain", "--hops", hops, "--size", size, "--by", by, "--carrier", carrier, *SHORT)
                    self.check_load(got)
                    self.assertEqual(got["pages_used_after"], 0)
                    if by != "auto":
                        self.assertEqual(got["by"], by)
                    if got["by"] == "value":  # auto also tries references now and then
                        self.assertGreaterEqual(got["bytes_moved_per_call"], hops * size * (1 if by == "value" else 0.7))
                    elif by == "ref":
                        self.assertGreater(got["lent"], 0)
                        self.assertEqual(got["fallbacks"], 0)
                        moved = (0, 0.1) if carrier == "shm" else (1, 1.5)  # in place
                        self.assertGreaterEqual(got["bytes_moved_per_call"], moved[0] * size)
                        self.assertLess(got["bytes_moved_per_call"], moved[1] * size)
                    elif by == "node":
                        self.assertGreaterEqual(got["bytes_moved_per_call"], 2 * size)
                        self.assertLess(got["bytes_moved_per_call"], 2.5 * size)
        self.assertEqual(lend_json("chain", "--hops", 2, "--size", 1000, "--by", "auto", *SHORT)["by"], "value")

    def test_chain_with_a_pool(self):
        """The payload is put once, and the last hop copies it from the pool's pages: nothing else of it travels."""
        for carrier, workers in ("shm", 1), ("udp", 3):
            got = lend_json("chain", "--pool", "--workers", workers, "--carrier", carrier, "--size", "1M", *SHORT)
            self.assertEqual((got["wrong_bytes"], got["errors"], got["pages_used_after"]), (0, 0, 0), got)
            self.assertEqual(got["node_clients"], 2 * workers, got)
            self.assertLess(got["bytes_moved_per_call"], 1.5 * got["size"], got)
        one_line(self, lend("chain", "--pool", "--node", "shm:none", *SHORT, code=2))
        one_line(self, lend("chain", "--workers", 2, *SHORT, code=2))

    def test_chain_leaves_nothing_on_a_foreign_node(self):
        with Node(f"shm:apps-{os.getpid()}-chain") as node:
            got = lend_json("chain", "--by", "node", "--size", "100K", "--hops", 2, "--node", node.address, *SHORT)
            self.check_load(got)
            stat = node.stat()
            self.assertEqual((stat["pages_used"], stat["refs"], stat["spaces"]), (0, 0, 0))

    def test_chain_that_runs_already(self):
        for name in "udp:127.0.0.1:0", f"shm:apps-{os.getpid()}-hop":
            with subprocess.Popen([LEND, "hop", "--listen", name], stdout=subprocess.PIPE, text=True) as hop:
                address = hop.stdout.readline().split()[1]
                for by in "value", "ref":
                    got = lend_json("chain", "--connect", address, "--by", by, "--size", "200K", *SHORT)
                    self.check_load({"bytes_moved_per_call": 0, **got})
                    self.assertEqual((got["by"], got["hops"], got["bytes_moved_per_call"]), (by, None, None))
                hop.terminate()
        one_line(self, lend("chain", "--connect", "udp:127.0.0.1:7", "--by", "node", code=2))

    def test_hosts_files_with_errors(self):
        """Each ends with one line that has the number of the line, where there is one, and the fix."""
        client, hop = "client a udp:127.0.0.1:0\n", "hop1 a udp:127.0.0.1:7001\n"
        hosts = TEMP / "hosts"
        for text, word, more in (
                ("", "no line for the machine a", ()), ("# nothing\n\n" + client.replace(" a ", " b "), "no line for the machine a", ()),
                (client + "hop1 a\n", ":2: a line is ROLE MACHINE ADDRESS", ()), (client + "h" * 40 + hop, ":2: a line is", ()),
                (client + "hop1 a shm:x\n", ":2: shm:x does not leave its machine", ()), (client + "hop1 a tcp:h:1\n", ":2: tcp:h:1 is no address", ()),
                (client + "hop1 a udp:h\n", ":2: udp:h is no address", ()), (client + hop + hop, ":3: hop1 is in line 2", ()),
                (client + "hop1 a udp:127.0.0.1:0\n", ":2: udp:127.0.0.1:0: give a port", ()), (client, "no line for hop1", ()),
                (hop, "no line for client", ()), (client + hop + "hop3 a udp:127.0.0.1:7003\n", ":3: hop3 has no process", ()),
                (client + hop[:-1] + " # a comment\n", "no line for node", ("--by", "node")),
                (client + hop[:-1] + " --vdev=x" + 1600 * "y" + "\n", ":2: EAL's arguments", ()), (client + hop, "leave out --hops", ("--hops", 2)),
                ("x" * 3000, ":1: longer than", ()), ("".join(f"hop{i} a udp:127.0.0.1:7001\n" for i in range(40)), ":32: too many lines", ())):
            with self.subTest(text=text[:60], word=word):
                hosts.write_text(text)
                done = lend("bench", "chain", "--hosts", hosts, "--here", "a", *more, code=2)
                one_line(self, done)
                self.assertIn(word, done.stderr.decode())
        one_line(self, lend("bench", "chain", "--hosts", TEMP / "none", code=2))
        one_line(self, lend("bench", "chain", "--here", "a", code=2))

    def test_sweep(self):
        got = lend_json("chain", "--sweep", "--size", "16K", "--hops", "1,3", "--seconds", "0.4", "--fresh")
        self.assertEqual([(row["hops"], row["size"]) for row in got["sweep"]], [(1, 4096), (1, 16384), (3, 4096), (3, 16384)])
        self.assertEqual((got["cells"], got["wrong_bytes"]), (4, 0))
        self.assertEqual(got["least"], min(row["auto_over_best"] for row in got["sweep"]))

    def test_a_starter_killed_in_mid_flight_leaves_no_page(self):
        with Node(f"shm:apps-{os.getpid()}-killed") as node:
            starter = subprocess.Popen([LEND, "chain", "--by", "node", "--node", node.address, "--seconds", "30"])
            while node.stat()["pages_used"] == 0 and starter.poll() is None:
                pass
            starter.kill()
            starter.wait(10)
            self.assertEqual(node.wait_empty()["refs"], 0)

    def test_a_server_elsewhere(self):
        server = subprocess.Popen([LEND, "serve", "--json", "--listen", "udp:127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
        address = server.stdout.readline().split()[1]
        got = lend_json("lat", "--connect", address, "--carrier", "udp", *SHORT)
        self.check_load(got)
        self.assertEqual(lend_json("rate", "--connect", address, "--count", 5000, "--window", 8)["calls"], 5000)
        for command in (["connect"], ["priority", "--bulk", "1M", "--rounds", 1]):
            self.assertEqual(lend_json(*command, "--connect", address, *SHORT)["carrier"], "udp")
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(10), 0)
        counters = json.loads(server.stdout.read())
        self.assertGreater(counters["requests"], 5000)
        self.assertEqual((counters["requests"], counters["io_rx_foreign"]), (counters["replies"], 0))
        server.stdout.close()

    def test_bad_input(self):
        for args in (["nonsense"], ["lat", "--nonsense"], ["lat", "--size"], ["lat", "--size", "many"], ["lat", "surplus"],
                     ["lat", "--carrier", "pigeon"], ["bw", "--seconds", "0"], ["rate", "--window", "0"],
                     ["mem", "lat", "--count", "9"], ["mem-lat", "--window", "2"], ["mem-lat", "--among", "1000"],
                     ["cow", "--size", "5000"], ["mem-bw", "--sweep", "pigeon"], ["mem-bw", "--plot", "x"],
                     ["mem-bw", "--one-thread", "--pool"], ["snapshot-speed", "--size", "64"], ["mem-fault", "--size", "4K"],
                     ["mem-lat", "--pool", "--carrier", "udp"], ["chain", "--count", "9"], ["start", "--size", "9"],
                     ["wait", "--window", "9"], ["priority", "--size", "9"], ["deadlines", "--count", "9"],
                     ["rate", "--one-thread", "--connect", "shm:x"], ["lat", "--connect", ""], ["chain", "--by", "magic"],
                     ["chain", "--carrier", "dpdk-ring"], ["mem"], ["mem", "stat"], ["translate", "--access", "pigeon"],
                     ["translate", "--space", "9T"], ["serialize", "--shape", "round"], ["put", "x"], ["get"], ["get", "nonsense"], ["serve"],
                     ["connect", "--size", "9"], ["connect", "--window", "999"], ["lat", "--window", "9"],
                     ["connect", "--processes", "2"], ["elastic", "--carrier", "shm"], ["elastic", "--workers", "17"], ["elastic", "--workers", "4", "--rounds", "4"], ["connect", "--burst", "9", "--window", "9"],
                     ["connect", "--burst", "9", "--seconds", "9"], ["connect", "--burst", "9", "--one-thread"],
                     ["connect", "--burst", "100000", "--processes", "11"], ["wait", "--busy", "2", "--idle", "9"],
                     ["load", "--rate", "0"], ["load", "--rate", "5", "--seconds", "1"], ["load", "--count", "9"]):
            with self.subTest(args=args):
                one_line(self, lend(*args, code=2))
        for where in (["shm:x"], ["--node", "shm:x"]):
            self.assertIn(b"--admin PATH", lend("mem", "ls", *where, code=2).stderr)

    def test_nobody_there(self):
        nowhere = f"shm:apps-{os.getpid()}-nobody"
        for args in (["lat", "--connect", nowhere], ["mem", "stat", "--node", nowhere],
                     ["put", LEND, "--node", nowhere], ["serve", "--listen", "pigeon:1"],
                     ["put", "/no/such/file", "--node", nowhere]):
            with self.subTest(args=args):
                one_line(self, lend(*args, code=1))

    def test_help(self):
        self.assertIn(b"doctor", lend("--help").stdout)
        for command in ("lat", "rate", "load", "bw", "priority", "deadlines", "wait", "start", "connect", "elastic", "chain", "mem", "mem-lat",
                        "mem-bw", "snapshot-speed", "cow", "mem-fault", "translate", "malloc", "serialize", "put", "get", "doctor", "serve",
                        "top", "keygen"):
            self.assertIn(b"--help", lend(command, "--help").stdout)
        self.assertNotIn(b"--connect", lend("demo", "--help").stdout)  # options without effect are not listed

    def test_tables(self):
        self.assertIn(b"p50_us", lend("lat", *SHORT).stdout)
        self.assertIn(b"runtime folder", lend("doctor").stdout)

    def test_doctor_names_a_fix_for_each_failure(self):
        checks = {c["name"]: c for c in lend_json("doctor")["checks"]}
        for check in checks.values():
            self.assertTrue(check["found"], check)
            self.assertEqual(check["ok"], not check["fix"], check)
        for name in ("network rights", "locked memory", "dpdk-af_packet", "dpdk-af_xdp", "dpdk-pci", "rdma"):
            self.assertIn(name, checks)
        card = checks["dpdk-pci"]
        if not card["ok"] and "(" in card["found"]:
            self.assertIn(f"dpdk-devbind.py -b vfio-pci {card['found'].split()[0]}; ", card["fix"])
        self.assertTrue(any(name.split()[0] == "raw" for name in checks), checks.keys())
        if (BUILD / "lend_seal.so").exists():
            self.assertRegex(checks["encryption"]["found"], r"sealed in \d+ ns, one of 1,472 in \d+$")
            self.assertRegex(checks["levels"]["found"], "^udp, .*: (in clear|encrypted); shm, rings: in clear")
        self.assertRegex(checks["keys"]["found"], "keys")
        self.assertRegex(checks["hugepages"]["found"], "endpoints lie on (reserved|transparent|no) huge pages$")

    def test_doctor_has_the_commands_for_each_card(self):
        """Cards and their interfaces are folders that a mount puts in the place of sysfs's."""
        pci, net, run = TEMP / "pci", TEMP / "net", ["unshare", "--mount", "sh", "-c"]
        if subprocess.run([*run, "mount --bind /sys/class/net /sys/class/net"], capture_output=True).returncode:
            self.skipTest("no right to mount")
        for card, interface, flags in ("0000:41:00.0", "up0", "0x1003"), ("0000:41:00.1", "down0", "0x1002"):
            (pci / card / "x").mkdir(parents=True)
            (pci / card / "class").write_text("0x020000\n")
            (net / interface).mkdir(parents=True)
            (net / interface / "flags").write_text(flags + "\n")
            (net / interface / "device").symlink_to(f"/sys/bus/pci/devices/{card}/x")  # virtio's is below its card
        mounts = f"mount --bind {pci} /sys/bus/pci/devices && mount --bind {net} /sys/class/net && exec {LEND} doctor --json"
        done = subprocess.run([*run, mounts], capture_output=True, text=True, timeout=60)
        card = next(c for c in json.loads(done.stdout)["checks"] if c["name"] == "dpdk-pci")
        self.assertRegex(card["found"], r"^(0000:41:00.[01] \(no driver\)(, )?){2}$")
        self.assertEqual(re.findall(r"[^;]*up0[^;]*;[^;]*", card["fix"]), [" ip link set up0 down; dpdk-devbind.py -b vfio-pci 0000:41:00.0"])
        self.assertIn("; dpdk-devbind.py -b vfio-pci 0000:41:00.1; ", card["fix"])
        self.assertNotIn("down0", card["fix"])
        self.assertRegex(card["fix"], r"; export LEND_EAL='(-a 0000:41:00.[01] ){2}-m 512' ")
        if "iommu" in card["fix"] or "AMD-Vi" in card["fix"]:
            self.assertEqual("intel_iommu=on" in card["fix"], "GenuineIntel" in pathlib.Path("/proc/cpuinfo").read_text())

    @unittest.skipUnless((BUILD / "lend_io_dpdk.so").exists(), "built without DPDK")
    def test_doctor_without_rights(self):
        def drop_rights():  # no effect without capabilities to drop
            ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_NET_RAW, 0, 0, 0)

        done = subprocess.run([LEND, "doctor", "--json"], capture_output=True, preexec_fn=drop_rights, timeout=60)
        checks = {c["name"]: c for c in json.loads(done.stdout)["checks"]}
        self.assertEqual(checks["dpdk-af_packet"]["fix"], "the network rights above")
        self.assertFalse([c for c in checks.values() if "libdpdk-dev" in c["fix"]])

    def start(self, *args):
        """A running command, and its children once it has some."""
        starter = subprocess.Popen([LEND, *args], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        children = []
        while not children and starter.poll() is None:
            children = pathlib.Path(f"/proc/{starter.pid}/task/{starter.pid}/children").read_text().split()
        return starter, children

    def test_a_child_that_is_killed(self):
        for args in (["bw"], ["lat", "--carrier", "udp"], ["mem-lat"]):
            with self.subTest(args=args):
                starter, children = self.start(*args, "--seconds", "30")
                os.kill(int(children[0]), signal.SIGKILL)
                line = starter.communicate(timeout=30)[1]
                self.assertEqual(starter.returncode, 1)
                self.assertRegex(line, "^lend [a-z-]+: .* was killed by signal 9.*memory")
                self.assertEqual(line.count("\n"), 1, line)

    def test_children_die_with_the_starter(self):
        starter, children = self.start("lat", "--seconds", "30")
        starter.kill()
        starter.stderr.close()
        starter.wait(10)
        alive, limit = children, time.monotonic() + 10
        while alive and time.monotonic() < limit:
            alive = [c for c in alive if is_running(c)]
        self.assertTrue(children)
        self.assertFalse(alive)


if __name__ == "__main__":
    print("carriers here:", *carriers())
    sys.exit(not run_tests(sys.argv[2:]))
