#!/usr/bin/env python3
"""Goal: lend decap makes of a sealed capture what a capture in clear would have been, and opens
nothing without the session's secrets; a log that others can read is refused.

Method: runs lend lat at each level with --capture and --key-log, decrypts, and reads both files by
tshark with scripts/wireshark/lend.lua; damages a datagram and a log.
Covers: apps/sealed/decap.c, apps/sealed/key_log_read.c, src/rpc/key_log.c, src/seal/reopen.c,
scripts/wireshark/lend.lua

usage: decap.py BUILD_DIR [NAME...]      only tests whose name contains one of the names
"""
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import unittest

from programs import BUILD, LEND, TEMP, lend, lend_json, run_tests

LUA = pathlib.Path(__file__).resolve().parents[2] / "scripts/wireshark/lend.lua"
CALLS, SIZE = 40, 100
FIELDS = ("lend.kind", "lend.sealed.epoch", "lend.trailer.good", "lend.message", "lend.request.method",
          "frame.comment", "_ws.expert", "lend.params.calls")
HANDSHAKE = ("1", "2")


def rows(path):
    done = subprocess.run(["tshark", "-2", "-r", path, "-T", "fields", "-E", "aggregator=;", "-E", "separator=|",
                           *[word for name in FIELDS for word in ("-e", name)], "-X", f"lua_script:{LUA}"],
                          capture_output=True, timeout=60, check=True)
    return [dict(zip(FIELDS, line.split("|"))) for line in done.stdout.decode().splitlines()]


class Decap(unittest.TestCase):
    def run_sealed(self, name, level="encrypt", carrier="udp", command=("lat", "--seconds", "0.001", "--count", CALLS, "--size", SIZE)):
        """Captures calls. Returns the caller's capture and the log of both ends."""
        capture, log = TEMP / f"{name}.pcapng", TEMP / f"{name}.keys"
        os.environ["LEND_LEVEL"] = level
        lend_json(*command, "--carrier", carrier, "--capture", capture, "--key-log", log)
        os.environ["LEND_LEVEL"] = "none"
        return capture, log

    def test_each_level_and_carrier(self):
        for level, carrier in ("encrypt", "udp"), ("authenticate", "udp"), ("encrypt+local", "shm"):
            with self.subTest(level=level, carrier=carrier):
                capture, log = self.run_sealed(f"{level}-{carrier}", level, carrier)
                self.assertEqual(stat.S_IMODE(log.stat().st_mode), 0o600)
                told = lend_json("decap", capture, "--key-log", log)
                after = rows(told["file"])
                self.assertGreaterEqual(told["opened"], 2 * CALLS)
                self.assertEqual((told["no_key"], told["wrong_tag"], told["cut"]), (0, 0, 0))
                self.assertFalse([1 for r in after if r["lend.sealed.epoch"]], "some are still sealed")
                opened = [r for r in after if "was sealed" in r["frame.comment"]]
                shakes = [r for r in after if r["lend.kind"] in HANDSHAKE]
                self.assertGreaterEqual(len(shakes), 2)
                self.assertTrue(all("by the handshake" in r["frame.comment"] and r["lend.params.calls"] for r in shakes))
                self.assertEqual(len(opened), told["opened"])
                self.assertEqual({r["lend.trailer.good"] for r in opened if r not in shakes}, {"1"}, "each is whole")
                self.assertFalse([1 for r in after if "Malformed" in r["_ws.expert"]])
                messages = [m for r in opened for m in r["lend.message"].split(";") if m]
                self.assertGreaterEqual(len(messages), 2 * CALLS)
                self.assertTrue(all(len(m) == 2 * SIZE for m in messages))

    def test_a_zero_rtt_call(self):
        capture, log = self.run_sealed("early", command=("connect", "--seconds", "0.01"))
        self.assertFalse([r for r in rows(capture) if r["lend.kind"] in HANDSHAKE and r["lend.request.method"]], "a call in clear")
        told = lend_json("decap", capture, "--key-log", log)
        early = [r for r in rows(told["file"]) if r["lend.kind"] in HANDSHAKE and r["lend.request.method"]]
        self.assertGreater(len(early), 0)
        self.assertEqual({(r["lend.trailer.good"], r["_ws.expert"].count("Info")) for r in early}, {("1", 1)}, "the comment only")

    def test_without_its_secrets(self):
        capture, log = self.run_sealed("mine")
        _, other = self.run_sealed("other")
        out = TEMP / "closed.pcapng"
        told = json.loads(lend("decap", capture, "-o", out, "--key-log", other, "--json", code=1).stdout)
        closed = rows(out)
        self.assertEqual((told["opened"], told["no_key"]), (0, sum(r["lend.sealed.epoch"] != "" for r in closed)))
        self.assertGreaterEqual(told["no_key"], 2 * CALLS)
        self.assertFalse([1 for r in closed if r["lend.message"]], "a message in clear")
        wrong = TEMP / "wrong.keys"  # the secrets of both directions exchanged
        secrets = "".join(line for line in log.read_text().splitlines(True) if line.startswith("seal"))
        there, back = [line.split()[1] for line in secrets.splitlines()[:2]]
        wrong.write_text(secrets.replace(there, "x").replace(back, there).replace("x", back))
        told = lend("decap", capture, "-o", out, "--key-log", wrong, "--json", code=1)
        self.assertNotIn(b'"wrong_tag": 0', told.stdout)

    def test_damaged_and_cut_files(self):
        capture, log = self.run_sealed("whole")
        data = bytearray(capture.read_bytes())
        at = re.search(rb"\x4c\x02[\x06-\x0d][\x80-\x9f]", data).start() + 40  # a byte of the first sealed one
        data[at] ^= 1
        flipped = TEMP / "flipped.pcapng"
        flipped.write_bytes(data)
        good, told = lend_json("decap", capture, "--key-log", log), lend_json("decap", flipped, "--key-log", log)
        self.assertEqual((told["wrong_tag"], told["opened"]), (1, good["opened"] - 1))
        for size in (0, 5, 40, len(data) // 2, len(data) - 3):
            cut = TEMP / "cut.pcapng"
            cut.write_bytes(data[:size])
            done = subprocess.run([LEND, "decap", cut, "-o", TEMP / "out.pcapng", "--key-log", log, "--json"],
                                  capture_output=True, timeout=60, check=False)
            self.assertIn(done.returncode, (0, 1), (size, done.stderr))
        for text in ("noise", "x" * 100):
            noise = TEMP / "noise"
            noise.write_text(text)
            done = lend("decap", noise, "-o", TEMP / "out.pcapng", "--key-log", log, code=1)
            self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)

    def test_files_that_are_refused(self):
        capture, log = self.run_sealed("refused")
        os.chmod(log, 0o640)
        os.environ["LEND_LEVEL"] = "encrypt"
        done = lend("ping", "udp:127.0.0.1:9", "--key-log", log, code=1)
        os.environ["LEND_LEVEL"] = "none"
        self.assertEqual((done.stderr.count(b"\n"), b"chmod 600" in done.stderr), (1, True), done.stderr)
        for args, code, word in (((capture,), 2, b"--key-log"), ((), 2, b"no capture"),
                                 ((capture, "-o", capture, "--key-log", log), 2, b"the capture itself"),
                                 ((TEMP / "none", "--key-log", log), 1, b"No such file"),
                                 ((capture, "--key-log", TEMP / "none"), 1, b"No such file"),
                                 ((capture, "--key-log", capture), 1, b"not a line of a key log")):
            done = lend("decap", *args, code=code)
            self.assertEqual((done.stderr.count(b"\n"), word in done.stderr), (1, True), (args, done.stderr))


if __name__ == "__main__":
    if not shutil.which("tshark"):
        print("not on this machine: tshark is not installed; scripts/deps.sh test brings it")
        sys.exit(77)
    if not (BUILD / "lend_seal.so").exists():
        print("this build has no lend_seal.so")
        sys.exit(77)
    os.environ["XDG_CONFIG_HOME"] = str(TEMP)
    sys.exit(not run_tests(sys.argv[2:]))
