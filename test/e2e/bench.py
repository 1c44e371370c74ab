#!/usr/bin/env python3
"""Goal: each benchmark of the memory node and its peers prints what its --help promises, and counts
no wrong byte.

Method: runs the built programs for a few hundredths of a second each, over the carriers that this
machine has and in one thread, and reads their JSON and their plots. Numbers are checked for order
and plausibility, not for size.
Covers: cn/op_call.c, cn/op_split.c, src/alloc/alloc.c

usage: bench.py BUILD_DIR [NAME...]      only tests whose name contains one of the names
"""
import json
import os
import subprocess
import sys
import unittest

from programs import BUILD, LEND, TEMP, carriers, lend, lend_json, one_line, run_tests

BRIEF = ["--seconds", "0.03"]


class Bench(unittest.TestCase):
    def test_lat(self):
        for carrier in set(carriers()) - {"dpdk:ring"}:
            with self.subTest(carrier=carrier):
                got = lend_json("mem-lat", "--carrier", carrier, *BRIEF)
                self.assertGreater(got["rounds"], 0)
                self.assertEqual((got["wrong_bytes"], got["pages_used_after"]), (0, 0))
                self.assertTrue(got["check_order"])
                for op in ("put", "get", "release", "write", "read"):
                    self.assertLessEqual(got[op + "_p50_us"], got[op + "_p99_us"])
        self.assertEqual(lend_json("mem", "lat", *BRIEF)["size"], 4096)

    def test_rate_threads(self):
        for carrier in carriers():
            with self.subTest(carrier=carrier):
                got = lend_json("rate", "--threads", "3", "--carrier", carrier, *BRIEF)
                self.assertEqual([row["threads"] for row in got["scaling"]], [1, 2, 3])
                self.assertEqual((got["errors"], got["wrong_bytes"]), (0, 0))
                for row in got["scaling"]:
                    self.assertGreater(row["calls_per_s"], 0)
                    self.assertAlmostEqual(row["calls_per_s_each"] * row["threads"] / row["calls_per_s"], 1, 2)

    @unittest.skipUnless((BUILD / "lend_io_dpdk.so").exists(), "built without DPDK")
    def test_rate_threads_on_queues(self):
        """Two devices joined by a veth pair, with a queue for each thread."""
        pair = "ip link add veth1 type veth peer name veth2 && ip link set veth1 up && ip link set veth2 up && exec \"$@\""
        run = ["unshare", "--net", "sh", "-c", pair, "sh"]
        if subprocess.run([*run, "true"], capture_output=True).returncode:
            self.skipTest("no right to make a veth pair")
        device = "dpdk:net_af_packet%p@10.0.0.%p:0?queues=2 --no-huge -m 192 --no-pci --no-shconf"
        for i in 1, 2:
            device += f" --vdev=net_af_packet{i},iface=veth{i},qpairs=2"
        done = subprocess.run([*run, LEND, "rate", "--threads", "2", "--carrier", device, "--json", *BRIEF], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        got = json.loads(done.stdout)
        self.assertEqual((got["errors"], got["wrong_bytes"]), (0, 0))
        self.assertEqual([row["calls_per_s"] > 0 for row in got["scaling"]], [True, True])
        for carrier in ("broker:nic", "dpdk:net_af_packet0@10.0.0.%p:0"):
            done = lend("rate", "--threads", "2", "--carrier", carrier, code=2)
            one_line(self, done)
            self.assertIn(b"?queues=N", done.stderr)

    def test_lat_pool(self):
        for more in (["--pool"], [], ["--carrier", "udp"]):
            with self.subTest(more=more):
                got = lend_json("mem-lat", *more, *BRIEF)
                self.assertEqual((got["wrong_bytes"], got["pool"]), (0, more == ["--pool"]))
                if more == ["--pool"]:
                    self.assertTrue(got["pointers"])
                if got["pointers"]:
                    self.assertGreater(got["get_over_touch"], 0)
                    self.assertGreater(got["first_store_ns"], 0)
        self.assertEqual(lend_json("mem-bw", "--pool", *BRIEF)["wrong_bytes"], 0)

    def test_loan(self):
        for carrier in ("shm", "udp"):
            for more in ([], ["--keep"]):
                with self.subTest(carrier=carrier, more=more):
                    got = lend_json("loan", "--carrier", carrier, "--size", "1M", *more, *BRIEF)
                    self.assertEqual(got["wrong_words"], 0)
                    self.assertGreaterEqual(got["lent"], got["calls"])
                    self.assertLessEqual(got["loan_p5_us"], got["loan_p99_us"])

    def test_lat_sweep(self):
        got = lend_json("mem-lat", "--seconds", "0.4", "--plot", TEMP / "lat.svg")
        self.assertEqual([row["size"] for row in got["sizes"]], [32 << i for i in range(18)])
        self.assertTrue(all(row["get_us"] > 0 for row in got["sizes"]))
        self.assertIn("</svg>", (TEMP / "lat.svg").read_text())

    def test_bw(self):
        for carrier in set(carriers()) - {"dpdk:ring"}:
            for size, window in ((32, 128), (4096, 32), (20000, 2)) if carrier == "shm" else ((4096, 32),):
                with self.subTest(carrier=carrier, size=size, window=window):
                    got = lend_json("mem-bw", "--carrier", carrier, "--size", size, "--window", window, *BRIEF)
                    self.assertEqual((got["wrong_bytes"], got["read_errors"], got["write_errors"]), (0, 0, 0))
                    for way in ("read_", "write_"):
                        self.assertEqual(got[way + "in_flight"], window)
                        self.assertTrue(got[way + "check_order"])
                        self.assertAlmostEqual(got[way + "gbit_per_s"], 8e-9 * size * got[way + "calls_per_s"], delta=0.01)
        got = lend_json("mem-bw", "--threads", 3, "--window", 4, "--sweep", "threads", *BRIEF)
        self.assertEqual([row["threads"] for row in got["rows"]], [1, 2, 3])
        self.assertEqual((got["read_in_flight"], got["wrong_bytes"]), (12, 0))

    def test_one_thread(self):
        for carrier in carriers():
            with self.subTest(carrier=carrier):
                got = lend_json("mem-bw", "--one-thread", "--carrier", carrier, *BRIEF)
                self.assertEqual((got["wrong_bytes"], got["one_thread"]), (0, True))
                self.assertGreater(got["read_over_call"], 0)
                self.assertGreater(got["read_cpu_us_per_call"], 0)
        self.assertEqual(lend_json("mem-bw", "--one-thread", "--seconds", "1")["wrong_bytes"], 0)  # alternately
        got = lend_json("mem-lat", "--one-thread", "--among", "3000", *BRIEF)
        self.assertEqual((got["wrong_bytes"], got["among"], got["pages_used_after"]), (0, 3000, 0))
        self.assertGreater(got["among_release_over_few"], 0)
        self.assertEqual(lend_json("cow", "--one-thread", *BRIEF)["bytes_wrong"], 0)
        self.assertEqual(lend_json("snapshot-speed", "--one-thread", "--size", "64K", *BRIEF)["wrong_bytes"], 0)

    def test_bw_sweeps(self):
        got = lend_json("mem-bw", "--sweep", "size", "--window", 2, "--plot", TEMP / "bw.svg", *BRIEF)
        self.assertEqual([row["size"] for row in got["rows"]], [32 << i for i in range(18)])
        self.assertIn("</svg>", (TEMP / "bw.svg").read_text())
        got = lend_json("mem-bw", "--sweep", "window", *BRIEF)
        self.assertEqual([row["window"] for row in got["rows"]], [1 << i for i in range(8)])

    def test_rest_snapshots_of_several_clients(self):
        for more in (("--threads", 1), ("--window", 8), ("--threads", 3, "--window", 4, "--carrier", "udp"), ("--threads", 2, "--pool")):
            with self.subTest(more=more):
                got = lend_json("snapshot-speed", *more, "--size", "100K", *BRIEF)
                self.assertEqual((got["errors"], got["wrong_bytes"], got["size"]), (0, 0, 102400))
                self.assertGreater(got["snapshots_per_s"], 0)
                self.assertEqual(got["in_flight"], got["threads"] * got["window"])
        one_line(self, lend("snapshot-speed", "--threads", 2, "--one-thread", code=2))

    def test_rest_snapshot_speed(self):
        for carrier, largest, label in (("shm", "2M", "2m"), ("udp", "96K", "96k")):
            with self.subTest(carrier=carrier):
                got = lend_json("snapshot-speed", "--size", largest, "--carrier", carrier, "--plot", TEMP / "snap.svg", *BRIEF)
                self.assertEqual((got["wrong_bytes"], got["check_order"]), (0, True))
                for op in ("seal", "map", "write", "free", "release"):
                    self.assertGreater(got[f"{op}_us_4k"], 0)
                    self.assertGreater(got[f"{op}_us_{label}"], 0)
                self.assertGreater(got["release_frames_per_turn"], 0)
                self.assertLessEqual(got["release_frames_per_turn"], 256)
                self.assertGreater(got["release_ns_per_frame"], 0)
                self.assertEqual(got["sizes"][0]["size"], 4096)
                self.assertIn("</svg>", (TEMP / "snap.svg").read_text())

    def test_rest_pool(self):
        self.assertEqual(lend_json("cow", "--pool", *BRIEF)["bytes_wrong"], 0)
        self.assertEqual(lend_json("snapshot-speed", "--pool", "--size", "64K", *BRIEF)["wrong_bytes"], 0)

    def test_rest_cow(self):
        for carrier in set(carriers()) - {"dpdk:ring"}:
            with self.subTest(carrier=carrier):
                got = lend_json("cow", "--carrier", carrier, "--plot", TEMP / "cow.svg", *BRIEF)
                self.assertEqual((got["bytes_wrong"], got["pages_used_after"]), (0, 0))
                self.assertEqual([row["pages_copied"] for row in got["writes"]], list(range(1, 9)))
                self.assertTrue(got["check_order"])
        self.assertEqual(len(lend_json("cow", "--size", "12K", *BRIEF)["writes"]), 3)

    def test_rest_mem_fault(self):
        for carrier in ("shm", "udp"):
            with self.subTest(carrier=carrier):
                got = lend_json("mem-fault", "--carrier", carrier, "--size", "1M", "--seconds", "0.01")
                self.assertEqual((got["wrong_bytes"], got["pages_used_after"], got["zeros"]), (0, 0, 0))
                self.assertTrue(got["check_order"])
                rounds = got["rounds"]
                self.assertEqual((got["stores"], got["prefetched"]), (rounds * 512, rounds * 256))
                self.assertEqual(got["cache_hits"] + got["cache_misses"], rounds * 256 * 4)
                self.assertGreater(got["scan_gb_per_s"], 0)

    def test_rest_malloc(self):
        got = lend_json("malloc", "--seconds", "0.01")
        self.assertEqual(got["wrong"], 0)
        self.assertEqual([row["bytes"] for row in got["local"]], [row["bytes"] for row in got["pair"]])
        self.assertGreater(min(row["lend"] for row in got["local"] + got["pair"]), 0)
        self.assertGreater(got["local_over_glibc"], 0)
        self.assertEqual(got["check_apart"], len(os.sched_getaffinity(0)) > 1)  # also with memory that another heap's library pins

    @unittest.skipUnless(os.path.exists(f"{sys.argv[1]}/lend-serialize"), "no protobuf-c")
    def test_rest_serialize(self):
        for shape, items, size in ("item", 1, 1000), ("list", 100, 0), ("nested", 8, 70000):
            with self.subTest(shape=shape):
                got = lend_json("serialize", "--shape", shape, "--size", size, "--seconds", "0.01")
                names = [key[:-10] for key in got if key.endswith("_encode_ns")]
                values = items * size + sum(len(f"item number {i}") for i in range(items))
                self.assertEqual((got["wrong"], got["check_bytes"]), (0, len(names) * values))
                self.assertEqual(names[:2], ["lend", "protobuf_c"])
                self.assertGreater(min(got[name + "_decode_ns"] for name in names), 0)

    @unittest.skipUnless(os.path.exists(f"{sys.argv[1]}/peer-lend_messages"), "no protobuf-c, or no peers")
    def test_rest_messages(self):
        has_grpc = os.path.exists(f"{sys.argv[1]}/peer-grpc")
        for more in (["--followers", 3, "--window", 8, "--size", "64K"], ["--carrier", "udp", "--sessions", 3, "--size", 70000, "--window", 4]):
            with self.subTest(more=more):
                got = lend_json("messages", "--seconds", "0.3", *more, *([] if has_grpc else ["--no-grpc"]))
                names = ["", "copied_"] + (["grpc_cxx_"] if "--followers" not in more and has_grpc else [])
                for name in names:
                    self.assertLessEqual(got[name + "p50_us"], got[name + "p99_us"])
                    self.assertGreater(min(got[name + "calls_per_s"], got[name + "cpu_us_per_call"]), 0)
                    self.assertEqual(got[name + "wrong_bytes"], 0)
                self.assertGreater(got["copied_ratio"], 0)
                self.assertEqual(got["level"], "encrypt" if "udp" in more else "none")
                self.assertTrue(len(names) < 3 or got["grpc_cxx_polling_times"] > 0)

    @unittest.skipUnless(os.path.exists(f"{sys.argv[1]}/peer-lend_messages"), "no protobuf-c, or no peers")
    def test_rest_grpc(self):
        peers = [("native", "shm")]
        if os.path.exists(f"{sys.argv[1]}/peer-grpc") and os.path.exists(f"{sys.argv[1]}/lend_gateway.so"):
            peers += [("door", "http2"), ("grpc-cxx", "http2"), ("grpc-tls", "http2")]
            if os.path.exists(f"{sys.argv[1]}/liblend-grpc-preload.so"):
                peers += [("preload", "shm"), ("preload-both", "shm")]
        for peer, path in peers:
            for kind in ("unary", "stream"):
                with self.subTest(peer=peer, kind=kind):
                    got = lend_json("bench", "grpc", "--peer", peer, "--kind", kind, "--seconds", "0.1", "--window", 2)
                    self.assertLessEqual(got["p50_us"], got["p99_us"])
                    self.assertGreater(min(got["calls_per_s"], got["cpu_us_per_call"]), 0)
                    self.assertEqual((got["wrong_bytes"], got["peer"], got["path"], got["kind"]), (0, peer, path, kind))
                    self.assertEqual(got["level"], "TLS" if peer == "grpc-tls" else "none")
                    self.assertIn(got["pinned"], (True, False))

    def test_rest_translate(self):
        for more in ([], ["--streaming", "--access", "uniform", "--small-pages"]):
            with self.subTest(more=more):
                got = lend_json("translate", "--space", "64M", "--seconds", "0.02", *more)
                self.assertEqual((got["wrong"], got["pages"], got["access"]), (0, 1 << 14, "uniform" if more else "zipf"))
                self.assertEqual(got["lookups_per_s"], got[got["access"] + "_lookups_per_s"])
                self.assertEqual(got["hash_lookups_per_s"], got[got["access"] + "_hash_lookups_per_s"])
                for access in ("sequential", "zipf", "zipf_scattered", "uniform"):
                    self.assertGreater(got[access + "_over_hash"], 0)
        for pages in (1, 2, 65, 5000):
            self.assertEqual(lend_json("translate", "--space", 4096 * pages, "--seconds", "0.001")["wrong"], 0)


if __name__ == "__main__":
    print("carriers here:", *carriers())
    sys.exit(not run_tests(sys.argv[2:]))
