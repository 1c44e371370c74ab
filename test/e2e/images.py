#!/usr/bin/env python3
"""Goal: photographs come through the image service byte for byte as direct codec calls make them,
by every way of transport, nothing stays at the memory node, and each unusable input costs one
line.

Method: three small JPEGs that this script writes itself (baseline, made of constant blocks, so no
library is needed) go through `lend images` by value, by reference and by size, over shm and udp,
with tiers as processes and as threads; a demo over them prints its report. Then files that are not
images, folders that are missing, and a tier that is killed in between.
Covers: cn/args/args.c, cn/args/inline_threshold.c

usage: images.py BUILD_DIR [NAME...]
"""
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build").resolve()
LEND = str(BUILD / "lend")
WAYS = ("value", "ref", "node", "auto")


def segment(marker, body):
    return bytes([0xFF, marker]) + struct.pack(">H", len(body) + 2) + body


def jpeg(width, height, seed):
    """A grey JPEG of 8x8 blocks, each of one random brightness: only DC coefficients, coded with fixed-length codes."""
    rng = random.Random(seed)
    bits, last = [], 0
    for _ in range(-(-width // 8) * -(-height // 8)):
        level = rng.randrange(-100, 101)
        diff, last = level - last, level
        size = abs(diff).bit_length()
        bits.append(f"{size:04b}")  # category i has the code i
        if size:
            bits.append(f"{diff if diff > 0 else diff + (1 << size) - 1:0{size}b}")
        bits.append("0")  # end of block: the only AC code
    text = "".join(bits)
    text += "1" * (-len(text) % 8)
    scan = int(text, 2).to_bytes(len(text) // 8, "big").replace(b"\xff", b"\xff\x00")
    dc = bytes([0] * 3 + [12] + [0] * 12) + bytes(range(12))
    ac = bytes([1] + [0] * 15) + b"\0"
    return (b"\xff\xd8" + segment(0xDB, b"\0" + bytes([8] * 64))
            + segment(0xC0, struct.pack(">BHHB3B", 8, height, width, 1, 1, 0x11, 0))
            + segment(0xC4, b"\0" + dc) + segment(0xC4, b"\x10" + ac)
            + segment(0xDA, bytes([1, 1, 0, 0, 63, 0])) + scan + b"\xff\xd9")


def size_of(data):
    """Width and height from a JPEG's frame header."""
    at = 2
    while data[at + 1] not in (0xC0, 0xC2):
        at += 2 + struct.unpack(">H", data[at + 2:at + 4])[0]
    height, width = struct.unpack(">HH", data[at + 5:at + 9])
    return width, height


def lend(*args, code=0, timeout=100):
    done = subprocess.run([LEND, *map(str, args)], capture_output=True, timeout=timeout)
    assert done.returncode == code, (args, done.returncode, done.stdout[-600:], done.stderr[-2000:])
    return done


def images(*args, **kwargs):
    return json.loads(lend("images", *args, "--json", **kwargs).stdout)


class Images(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="lend-images-"))
        self.photos = self.dir / "photos"
        self.photos.mkdir()
        for i, (width, height) in enumerate(((64, 48), (640, 480), (1203, 801))):
            (self.photos / f"p{i}.jpg").write_bytes(jpeg(width, height, i))

    def tearDown(self):
        shutil.rmtree(self.dir)

    def check(self, got, processes, n=3):
        self.assertEqual((got["images"], got["identical"], got["errors"]), (n, n, 0), got)
        self.assertEqual(got["pages_used_after"], 0, got)
        self.assertEqual(got["processes"], processes, got)
        self.assertGreaterEqual(got["p50_ms"], got["p50_ms_without_codec"], got)  # within 1 %
        if not got["pool"] and (got["carrier"] != "shm" or got["by"] in ("value", "node")):
            self.assertGreater(got["bytes_moved_per_image"], got["pixel_bytes_per_image"], got)
        elif got["by"] == "ref" and not got["pool"]:  # pixels are read in place
            self.assertLess(got["bytes_moved_per_image"], got["pixel_bytes_per_image"], got)

    def run_ways(self, carrier, *more, processes):
        got = {}
        for by in WAYS:
            with self.subTest(by=by):
                got[by] = images("--by", by, "--carrier", carrier, *more, self.photos)
                self.check(got[by], processes + (by == "node"))
        self.assertGreater(got["value"]["bytes_moved_per_image"], 1.5 * got["ref"]["bytes_moved_per_image"])

    def test_shm_processes(self):
        self.run_ways("shm", "--repeat", "3", processes=7)

    def test_udp_processes(self):
        self.run_ways("udp", processes=7)

    def test_pool(self):
        """Pixels are stored once, or by node for each request; workers read the pool's pages: nothing else of them travels."""
        for carrier, workers, by, most in ("shm", 1, "node", 1.5), ("shm", 1, "ref", 0.5), ("udp", 2, "ref", 0.5):
            got = images("--carrier", carrier, "--pool", "--by", by, "--workers", workers, "--repeat", 2, self.photos)
            self.check(got, 8)
            self.assertEqual(got["node_clients"], 3 * workers, got)
            self.assertLess(got["bytes_moved_per_image"], most * got["pixel_bytes_per_image"], got)

    def test_nearest(self):
        """The worker takes every tenth pixel, and results are raw."""
        for by in ("value", "ref"):
            got = images("--by", by, "--work", "nearest", "--out", self.dir / by, self.photos)
            self.check(got, 7)
        files = sorted((self.dir / "ref").iterdir())
        self.assertEqual([(f.name, f.stat().st_size) for f in files],
                         [("0000-p0.nearest.rgb", 7 * 5 * 3), ("0001-p1.nearest.rgb", 64 * 48 * 3), ("0002-p2.nearest.rgb", 121 * 81 * 3)])

    def test_shm_threads(self):
        self.run_ways("shm", "--threads", "--window", "8", "--repeat", "5", processes=1)

    def test_udp_threads(self):
        self.run_ways("udp", "--threads", processes=1)

    def test_an_address_for_all(self):
        for by in ("value", "ref"):
            self.check(images("--by", by, "--carrier", "udp:127.0.0.%p:0", self.photos), 7)

    def test_sweep(self):
        for by, more in ("value", ()), ("ref", ("--work", "nearest")), ("node", ("--carrier", "udp", "--threads")):
            with self.subTest(by=by):
                got = images("--sweep", "--by", by, *more, self.photos)
                self.assertEqual((got["images"], got["identical"], got["errors"], got["by"]), (3, 3, 0, by))
                self.assertEqual([row["side"] for row in got["sizes"]], [64, 128, 256, 512, 1024, 1203])
                sides = [[(min(w, row["side"]), min(h, row["side"])) for w, h in ((64, 48), (640, 480), (1203, 801))] for row in got["sizes"]]
                self.assertEqual([row["pixel_bytes"] for row in got["sizes"]], [sum(3 * w * h for w, h in one) // 3 for one in sides])
                for row in got["sizes"]:
                    self.assertGreater(row["images_per_s"], 0)
                    self.assertGreaterEqual(row["p50_ms"], row["p50_ms_without_codec"])
        self.assertEqual(lend("images", "--sweep", "--pool", self.photos, code=2).stderr.count(b"\n"), 1)

    def test_service_that_runs_already(self):
        with contextlib.ExitStack() as stack:
            def tier(role, *more):
                process = subprocess.Popen([LEND, "tier", "--role", role, "--listen", "udp:127.0.0.1:0", *more], stdout=subprocess.PIPE, text=True)
                stack.callback(process.communicate)
                stack.callback(process.terminate)
                return process.stdout.readline().split()[1]
            worker = tier("worker")
            firewall = tier("firewall", "--next", tier("balancer", "--next", tier("server", "--next", worker)))
            for by in "value", "ref":
                got = images("--connect", firewall, "--carrier", "udp", "--by", by, self.photos)
                self.assertEqual((got["identical"], got["errors"], got["bytes_moved_per_image"]), (3, 0, None), got)
        for more in ("--threads",), ("--by", "node"), ("--hosts", "none"), ("--here", "a"):
            done = lend("images", "--connect", firewall, *more, self.photos, code=2)
            self.assertEqual((done.stdout, done.stderr.count(b"\n")), (b"", 1), done.stderr)

    def test_ring_threads(self):
        checks = {c["name"]: c["ok"] for c in json.loads(lend("doctor", "--json").stdout)["checks"]}
        if not checks["dpdk:ring"]:
            self.skipTest("lend doctor says that dpdk:ring lacks something here")
        for by in ("value", "ref"):
            self.check(images("--by", by, "--carrier", "dpdk:ring", "--threads", self.photos), 1)

    def test_memif(self):
        checks = {c["name"]: c["ok"] for c in json.loads(lend("doctor", "--json").stdout)["checks"]}
        if not checks["dpdk:memif"]:
            self.skipTest("lend doctor says that dpdk:memif lacks something here")
        for by in ("value", "ref"):
            self.check(images("--by", by, "--carrier", "dpdk:memif", self.photos), 7)

    def test_out_is_the_same_by_every_way(self):
        for by in WAYS:
            images("--by", by, "--threads", "--out", self.dir / by, self.photos)
        names = sorted(p.name for p in (self.dir / "value").iterdir())
        self.assertEqual(names, ["0000-p0.thumbnail.jpg", "0001-p1.thumbnail.jpg", "0002-p2.recompress.jpg"])
        sizes = [size_of((self.dir / "value" / name).read_bytes()) for name in names]
        self.assertEqual(sizes, [(64, 48), (256, 192), (1203, 801)])  # never enlarged; fitted into 256; as it was
        for by in WAYS[1:]:
            self.assertEqual(sorted(p.name for p in (self.dir / by).iterdir()), names)
            for name in names:
                self.assertEqual((self.dir / by / name).read_bytes(), (self.dir / "value" / name).read_bytes())

    def test_useless_files_are_skipped_with_a_line_each(self):
        whole = (self.photos / "p2.jpg").read_bytes()
        (self.photos / "text.jpg").write_text("no picture")
        (self.photos / "cut.jpg").write_bytes(whole[:len(whole) // 2])
        (self.photos / "empty.jpeg").write_bytes(b"")
        (self.photos / "huge.jpg").write_bytes(jpeg(8, 8, 0).replace(struct.pack(">HH", 8, 8), b"\xff\x00\xff\x00"))
        (self.photos / "gone.jpg").symlink_to("/nonexistent")
        (self.photos / "notes.txt").write_text("not looked at")
        done = lend("images", "--threads", self.photos, "--json")
        self.check(json.loads(done.stdout), 1)
        lines = done.stderr.decode().splitlines()
        for name in ("text.jpg", "cut.jpg", "empty.jpeg", "huge.jpg", "gone.jpg"):
            self.assertEqual(sum(name in line for line in lines), 1, lines)
        self.assertEqual(len(lines), 5, lines)

    def test_unreadable_file(self):
        if os.getuid() == 0:
            self.skipTest("root reads everything")
        (self.photos / "p0.jpg").chmod(0)
        got = images("--threads", self.photos)
        self.assertEqual((got["images"], got["skipped"]), (2, 1))

    def test_nothing_to_do_is_one_line(self):
        (self.dir / "empty").mkdir()
        (self.dir / "bad").mkdir()
        (self.dir / "bad" / "a.jpg").write_text("no picture")
        (self.dir / "file").write_text("")
        for args, word in ((["images", self.dir / "empty"], "holds no"), (["images", self.dir / "none"], "No such file"),
                           (["images", "--out", self.dir / "file", self.photos], "--out"), (["images"], "no images"),
                           (["images", "--by", "mail", self.photos], "value, ref, auto or node"),
                           (["images", "--window", "0", self.photos], "--window"),
                           (["demo", self.dir / "none"], "No such file"), (["demo", self.dir / "empty"], "holds no")):
            with self.subTest(args=args):
                done = lend(*args, code=2)
                self.assertEqual(done.stdout, b"")
                self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)
                self.assertIn(word, done.stderr.decode())
        self.assertIn("none of its 1", lend("images", self.dir / "bad", code=2).stderr.decode())

    def killed(self, role):
        """A long run loses one process; it ends by itself, with a status, and leaves only whole
        files."""
        out = self.dir / f"out-{role}"
        run = subprocess.Popen([LEND, "images", "--by", "ref", "--repeat", "100000", "--out", str(out), str(self.photos), "--json"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        victim = None
        until = time.monotonic() + 30
        while victim is None and time.monotonic() < until:
            children = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(run.pid)], capture_output=True, text=True).stdout
            found = re.search(rf"^ *(\d+) .*--role {role}\b", children, re.M) if out.is_dir() and any(out.iterdir()) else None
            victim = int(found[1]) if found else None
            time.sleep(0.02)  # between reads of the process table
        self.assertIsNotNone(victim)
        os.kill(victim, signal.SIGKILL)
        stdout, stderr = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 1, stderr)
        self.assertRegex(stderr.decode(), "UNAVAILABLE|DEADLINE_EXCEEDED")
        self.assertGreater(json.loads(stdout)["errors"], 0)
        self.assertFalse([p for p in out.iterdir() if not p.name.endswith(".jpg")])

    def test_killed_worker(self):
        self.killed("worker")

    def test_killed_firewall(self):
        self.killed("firewall")

    def test_demo_writes_a_page_of_its_own(self):
        page, picture = self.dir / "r.html", self.dir / "r.svg"
        done = lend("demo", "--quick", "--workers", 2, "--report", page, "--svg", picture, self.photos)
        self.assertIn(str(page), done.stdout.decode().splitlines()[-1])
        text = page.read_text()
        self.assertEqual(text.count("<svg"), text.count("</svg>"))
        self.assertNotRegex(text, r'(src|href)="(?!data:)')
        self.assertIn("12 of 12", text)
        self.assertIn("shm, pool", text)
        self.assertIn("<svg xmlns", picture.read_text())
        self.assertEqual(sorted(p.name for p in self.dir.iterdir()), ["photos", "r.html", "r.svg"])
        self.assertEqual(lend("demo", "--quick", "--report", self.dir / "no" / "r.html", self.photos, code=1).stderr.count(b"\n"), 1)


if __name__ == "__main__":
    names = [f"Images.{n}" for n in dir(Images) if n.startswith("test_") and any(w in n for w in sys.argv[2:])]
    unittest.main(argv=[sys.argv[0], *names])
