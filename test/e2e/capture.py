#!/usr/bin/env python3
"""Goal: Wireshark decodes every datagram of Lend: each kind, field, fragment and memory operation,
and no hostile byte makes the dissector fail.

Method: tshark with scripts/wireshark/lend.lua on three sorts of captures: datagrams of
capture_made.py; runs of the built programs over the carriers that this machine has, compared with
what was called and stored; and the first sort damaged under a seed. The dissector's tables are
compared with the C headers. Every field that it registers must have been seen. tshark takes most of
the time to start, so the runs are a separate process.
Covers: src/io/capture/capture.c, src/io/capture/pcapng.c, src/io/capture/header.c,
scripts/wireshark/lend.lua

usage: capture.py BUILD_DIR [NAME...]      only tests whose name contains one of the names
"""
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import unittest

from capture_made import (FULL, KINDS, MEM, OFFSET, OPS, RECEIVED, REF, ROOT, SENT, SPACE, STATS, TERMS, File, crc32c, datagram,
                          packets_of, reply, request, write_ip, write_kinds, write_memory, write_wrong)
from programs import BUILD, TEMP, Node, lend, lend_json, run_tests

os.environ["LEND_LEVEL"] = "none"  # what is sealed has no fields
LUA = ROOT / "scripts/wireshark/lend.lua"
SEED = int(os.environ.get("LEND_SEED", "1"))
FUZZED = 2000
SEEN_FIELDS = set()


def tshark(*args):
    done = subprocess.run(["tshark", *map(str, args), "-X", f"lua_script:{LUA}"], capture_output=True, timeout=100)
    assert done.returncode == 0, (args, done.returncode, done.stderr[-500:])
    said = [line for line in done.stderr.decode().splitlines() if "Running as user" not in line]
    assert not any("lua" in line.lower() for line in said), said[:5]
    return done.stdout.decode(errors="replace")


def fields_of_lua():
    return [line.split("\t")[2] for line in tshark("-G", "fields").splitlines()
            if line.startswith("F\t") and line.split("\t")[2].startswith("lend.")]


def rows(path, *more):
    """A dict of field to list of values for each packet. A second pass, so that later packets are
    known."""
    names = ALL_FIELDS + ["frame.number", "frame.comment", "_ws.lua.text", "_ws.expert", "_ws.col.Info", "_ws.col.Source"]
    out = tshark("-2", "-r", path, "-T", "fields", "-E", "aggregator=;", "-E", "separator=|", *more,
                 *[word for name in names for word in ("-e", name)])
    found = [{k: v.split(";") for k, v in zip(names, line.split("|")) if v} for line in out.splitlines()]
    for row in found:
        assert "_ws.lua.text" not in row, row
        SEEN_FIELDS.update(row)
    return found


def one(row, name):
    assert len(row.get(name, [])) == 1, (name, row.get(name), row.get("_ws.col.Info"))
    return row[name][0]


def number(row, name):
    return int(one(row, name), 0)


class Crafted(unittest.TestCase):
    """Datagrams of capture_made."""

    @classmethod
    def setUpClass(cls):
        cls.kinds = rows(write_kinds(TEMP / "kinds.pcapng"))

    def test_1_every_kind(self):
        got = self.kinds
        self.assertEqual({number(r, "lend.kind") for r in got if "lend.kind" in r}, set(range(1, 17)))
        for r in got[:17]:
            self.assertEqual((one(r, "lend.trailer.good"), one(r, "lend.trailer.zero")), ("1", "00" * 12))
        for hello, kind, session in ((got[0], "connect", 0xC1), (got[1], "accept", 0x51)):
            for name, value in (("params.incarnation", bytes(range(16)).hex()), (f"{kind}.e", (b"e" * 32).hex()),
                                ("ticket.mac", (b"m" * 16).hex())):
                self.assertEqual(one(hello, f"lend.{name}"), value)
            for name, value in (("params.payload", 1400), ("params.unscheduled", 65536), ("params.message_max", 1 << 24),
                                ("params.calls", 128), ("ticket.until", 12345), (f"{kind}.connect", 77),
                                (f"{kind}.session", session)):
                self.assertEqual(number(hello, f"lend.{name}"), value)
        first = got[2]
        for name, value in (("call", 1 << 10 | 5), ("call.slot", 5), ("call.seq", 1), ("session", 0x51), ("number", 2), ("length", 10),
                            ("request.method", 7), ("request.left_us", 250000), ("request.grant", 65536), ("flags.class", 3),
                            ("response_in", 4), ("message.len", 10), ("capture.peer", 3), ("capture.event", SENT)):
            self.assertEqual(number(first, f"lend.{name}"), value, name)
        self.assertEqual(one(first, "lend.message"), b"0123456789".hex())
        self.assertEqual(one(first, "lend.capture.address"), "udp:10.0.0.2:7000")
        answer = got[3]
        for name, value in (("reply.status", 0), ("reply.ran.value", 1), ("reply.ran.hops", 3), ("reply.delay_ns", 1234), ("reply.acked", 2), ("response_to", 3)):
            self.assertEqual(number(answer, f"lend.{name}"), value, name)
        self.assertEqual(one(answer, "lend.time"), "0.000000001")

    def test_1_a_handshake_with_retry_and_proof(self):
        retry, connect, accept, proof = self.kinds[19:23]
        self.assertEqual([number(retry, f"lend.retry.{name}") for name in ("connect", "reason", "wait_ms")], [77, 1, 250])
        for row in retry, connect:
            self.assertEqual((number(row, "lend.cookie.time"), one(row, "lend.cookie.mac")), (54321, (b"c" * 16).hex()))
        self.assertEqual((number(connect, "lend.connect.pattern"), number(connect, "lend.connect.key_id")), (1, 0xAB))
        self.assertEqual((number(accept, "lend.accept.pattern"), one(accept, "lend.accept.tag")), (1, (b"g" * 16).hex()))
        self.assertEqual(one(proof, "lend.proof.proof"), (b"p" * 16).hex())

    def test_1_a_0rtt_call(self):
        connect, accept = self.kinds[23:25]
        self.assertEqual(number(accept, "lend.accept.zero_rtt"), 3)
        self.assertEqual((number(connect, "lend.request.method"), one(connect, "lend.message")), (7, b"early".hex()))
        self.assertEqual(one(connect, "lend.end.tag"), "00" * 16)

    def test_1_fragments_and_reports(self):
        got = self.kinds
        whole = got[8]
        self.assertEqual(one(whole, "lend.message"), bytes(range(250)).hex())
        self.assertEqual((number(whole, "lend.message.len"), number(whole, "lend.message.fragments")), (250, 3))
        self.assertEqual(whole["lend.message.fragment"], ["5", "8", "9"])
        self.assertEqual([number(got[i], "lend.message.joined_in") for i in (4, 5, 7)], [9, 9, 9])
        self.assertEqual(number(got[5], "lend.repeated"), 5)
        self.assertNotIn("lend.message.joined_in", got[6], "what was not sent is no part of anything")
        self.assertEqual((one(got[6], "frame.comment"), number(got[6], "lend.capture.event")),
                         ("not sent: the carrier was full", FULL))
        ack = got[9]
        for name, value in (("ack.low", 200), ("ack.granted", 65000), ("ack.state", 1), ("ack.dropped", 1), ("ack.probed", 1),
                            ("ack.wait", 1), ("seen.acked", 10), ("seen.map", 0b101100000), ("seen.delay_ns", 250), ("seen.ecn", 4), ("request_in", 5)):
            self.assertEqual(number(ack, f"lend.{name}"), value, name)
        self.assertEqual(one(ack, "lend.seen.list"), "10, 3-4, 1")
        self.assertEqual(number(got[4], "lend.seen.frame"), 4)
        self.assertIn("hung up", one(got[17], "_ws.col.Info"))
        self.assertEqual(one(got[17], "_ws.col.Source"), "shm:shop")
        self.assertEqual((number(got[18], "lend.capture.checked"), number(got[18], "lend.message.len")), (1, 0))

    def test_1_calls_that_share_a_datagram(self):
        asked, answered, mixed, single = self.kinds[25:29]
        self.assertEqual(one(asked, "_ws.col.Info"), "CALLS, 2 requests")
        for name, values in (("call", [0, 10 << 10, 0, 11 << 10 | 2]), ("call.slot", [0, 0, 0, 2]), ("call.seq", [0, 10, 0, 11]),
                             ("flags.class", [3, 3, 3, 1]), ("length", [136, 5, 9, 40]), ("request.method", [7, MEM]),
                             ("request.left_us", [250000] * 2), ("response_in", [27, 27]), ("message.len", [5, 40]), ("mem.op", [4])):
            self.assertEqual([int(value, 0) for value in asked[f"lend.{name}"]], values, name)
        self.assertEqual(one(asked, "lend.message"), b"first".hex())
        self.assertEqual(one(answered, "_ws.col.Info"), "CALLS, 2 replies")
        for name, values in (("call", [0, 10 << 10, 11 << 10 | 2]), ("flags.served", [0, 1, 1]), ("reply.ran.hops", [3, 3]),
                             ("reply.acked", [20, 20]), ("response_to", [26, 26]), ("seen.acked", [10]), ("space.slot", [21])):
            self.assertEqual([int(value, 0) for value in answered[f"lend.{name}"]], values, name)
        self.assertEqual(one(answered, "lend.message"), b"answer".hex())
        self.assertEqual(answered["lend.time"], ["0.000000001"] * 2)
        self.assertEqual(one(mixed, "_ws.col.Info"), "CALLS, 1 request, 1 reply")
        self.assertEqual((number(mixed, "lend.repeated"), number(mixed, "lend.reply.status")), (26, 8))
        self.assertEqual(one(single, "_ws.col.Info"), "CALLS, 1 request, call 0.13, 40 bytes, ALLOC")
        for row in asked, answered, mixed, single:
            self.assertNotIn("_ws.expert", row)

    def test_1_message_heads_and_streams(self):
        asked, refused, sent, taken = self.kinds[30:34]
        self.assertIn("/shop.Cart/Add", one(asked, "_ws.col.Info"))
        for name, values in (("kind", ["1", "5"]), ("key", ["trace-bin"]), ("text", ["/shop.Cart/Add"]), ("bytes", ["0102"])):
            self.assertEqual(asked[f"lend.head.entry.{name}"], values, name)
        self.assertEqual((number(asked, "lend.head.entries"), one(asked, "lend.message")), (2, b"two pears".hex()))
        self.assertEqual((one(refused, "lend.head.entry.text"), number(refused, "lend.reply.status")), ("no stock", 9))
        self.assertNotIn("lend.message", refused)
        for name, value in (("stream", 5), ("at", 2), ("kind", 0), ("to_opener", 1)):
            self.assertEqual(number(sent, f"lend.note.{name}"), value, name)
        self.assertEqual((one(sent, "lend.message"), number(taken, "lend.note.taken")), (b"news".hex(), 1))
        for row in asked, refused, sent, taken:
            self.assertNotIn("_ws.expert", row)

    def test_1_a_reference_with_a_home(self):
        for name, value in (("home", 1), ("tenant", 9), ("key_id", 0xAB), ("len", 8192), ("first", 0), ("rights.root", 7)):
            self.assertEqual(number(self.kinds[34], f"lend.ref.{name}"), value, name)

    def test_1_sealed_datagrams(self):
        calls, ping, connect, accept = self.kinds[35:39]
        for row, name, epoch, num in ((calls, "CALLS", 3, 5), (ping, "PING", 0, 6)):
            self.assertEqual((number(row, "lend.sealed.epoch"), number(row, "lend.sealed.number")), (epoch, num))
            self.assertEqual(one(row, "lend.sealed.tag"), (b"t" * 16).hex())
            self.assertEqual(one(row, "_ws.col.Info"), f"sealed {name}, epoch {epoch}, number {num}")
            self.assertNotIn("_ws.expert", row)
        self.assertEqual((one(calls, "lend.sealed.text"), "lend.sealed.text" in ping), (b"ciphertext".hex(), False))
        for row, size in (connect, 40 + 11), (accept, 40 + 40 + 32):
            self.assertEqual(len(one(row, "lend.sealed.text")), 2 * size)
            self.assertEqual((one(row, "lend.trailer.good"), "lend.params.calls" in row), ("1", False))
            self.assertNotIn("_ws.expert", row)
        self.assertEqual((number(connect, "lend.connect.pattern"), one(connect, "lend.end.mac1")), (2, (b"1" * 16).hex()))
        self.assertEqual(one(accept, "lend.sealed.tag"), (b"g" * 16).hex())

    def test_1_every_operation(self):
        got = rows(write_memory(TEMP / "memory.pcapng"))
        ask = {name: got[1 + 2 * i] for i, (name, _, _) in enumerate(OPS)}
        answer = {name: got[2 + 2 * i] for i, (name, _, _) in enumerate(OPS)}
        for i, (name, fields, _) in enumerate(OPS, 1):
            for field, value in (("op", i), ("client", 3), ("id", 44), ("low", 40), ("life", 9), ("version", 1)):
                self.assertEqual(number(ask[name], f"lend.mem.{field}"), value)
            self.assertNotIn("_ws.expert", ask[name], name)
            self.assertNotIn("_ws.expert", answer[name], name)
            self.assertIn(name, one(ask[name], "_ws.col.Info"))
            for field, part in (("ref.slot", REF), ("space.slot", SPACE), ("terms.ttl_ns", TERMS), ("mem.offset", OFFSET)):
                self.assertEqual(f"lend.{field}" in ask[name], part in fields, (name, field))
        for field, value in (("node", 0xABCD), ("epoch", 0xEF01), ("slot", 12), ("version", 1), ("depth", 2), ("serial", 99),
                             ("root_len", 8192), ("slice1_offset", 4096), ("slice1_len", 1000), ("slice2_offset", 10),
                             ("slice2_len", 20), ("rights.root", 7), ("rights.slice1", 3), ("rights.slice2", 1),
                             ("first", 4106), ("len", 20)):
            for row in (ask["GET"], answer["PUT"], answer["SEAL"], answer["NARROW"]):
                self.assertEqual(number(row, f"lend.ref.{field}"), value, field)
        self.assertEqual(one(ask["GET"], "lend.ref.token"), bytes(range(16)).hex())
        for row, field, value in ((ask["PUT"], "mem.len", 3), (ask["SEAL"], "mem.consume", 1), (ask["SEAL"], "mem.bound", 1), (ask["GRANT"], "terms.kind", 2),
                                  (ask["GRANT"], "terms.n", 5), (ask["GRANT"], "terms.ttl_ns", 10 ** 9), (ask["READ"], "mem.offset", 4096),
                                  (ask["NARROW"], "mem.rights", 3), (ask["RELEASE"], "mem.n", 2), (ask["FORGET"], "mem.target", 55),
                                  (ask["FREE"], "space.serial", 23), (answer["ALLOC"], "space.epoch", 22), (answer["MAP"], "mem.mapped", 1 << 33),
                                  (answer["RELEASE"], "mem.released", 1), (answer["RELEASE"], "mem.not_held", 1),
                                  (answer["FORGET"], "mem.forgot", 1), (answer["HELLO"], "node.page", 4096), (answer["HELLO"], "node.id", 0xABCD),
                                  (answer["HELLO"], "node.life", 9), (answer["HELLO"], "node.lease_ns", 10 ** 10), (answer["POOL_MAP"], "mem.mapped", 1 << 33),
                                  (answer["POOL_MAP"], "view.pages", 300), (answer["POOL_VIEW"], "view.n", 2), (ask["POOL_DROP"], "mem.target", 55)):
            self.assertEqual(number(row, f"lend.{field}"), value, field)
        self.assertEqual(len(ask["RELEASE"]["lend.ref.slot"]), 2)
        self.assertEqual((answer["POOL_VIEW"]["lend.view.run.frame"], answer["POOL_VIEW"]["lend.view.run.pages"]), (["40", "0"], ["8", "3"]))
        self.assertEqual(one(answer["HELLO"], "lend.node.addresses"), "shm:mn0")
        for row, text in ((ask["PUT"], b"abc"), (answer["GET"], b"xyz"), (answer["READ"], b"uvw"), (ask["WRITE"], b"def")):
            self.assertEqual(one(row, "lend.mem.payload"), text.hex())
        for i, name in enumerate(STATS):
            self.assertEqual(number(answer["STAT"], f"lend.stat.{name}"), 1000 + i)
        self.assertNotIn("_ws.expert", got[-1], "a refusal has no reference")

    def test_1_what_is_wrong_is_flagged(self):
        path, names = write_wrong(TEMP / "wrong.pcapng")
        got = rows(path)
        self.assertEqual([[n[len("lend.expert."):] for n in r if n.startswith("lend.expert.")] for r in got], [[n] for n in names])
        self.assertTrue(all(one(r, "lend.trailer.good") == "0" for r, name in zip(got, names) if name == "checksum"))
        self.assertEqual((got[-1]["lend.request.method"], got[-1]["lend.message"]), (["0x00000007"] * 2, [b"captured".hex()]))

    def test_1_udp_of_any_tool(self):
        data = [p[p.index(b"udp:10.0.0.2:7000") + 17:] for p in packets_of(TEMP / "kinds.pcapng")[:17]]
        noise = [b"L\2\7\3" + b"x" * 80, b"hello", b"", bytes(100)]
        got = rows(write_ip(TEMP / "ip.pcap", data + noise))
        self.assertEqual([number(r, "lend.kind") for r in got[:17]], [p[2] for p in data])
        self.assertEqual(one(got[8], "lend.message"), bytes(range(250)).hex())
        self.assertEqual(number(got[3], "lend.response_to"), 3)
        elsewhere = rows(write_ip(TEMP / "noise.pcap", noise))
        self.assertFalse([r for r in elsewhere if "lend.kind" in r], "other protocols are left alone")

    def test_1_replies_without_the_session_s_beginning_and_fragments_that_overlap(self):
        f = File(TEMP / "late.pcapng")
        f.add(request(7, b"question", 1 << 10, 2))
        f.add(reply(b"answer", 1 << 10, 9, 2), RECEIVED)
        for offset, n in ((0, 100), (50, 100), (100, 50), (190, 10)):  # 260 bytes of 200, and none from 150 to 190
            f.add(datagram("REQUEST", bytes(12) + bytes(n), 0x51, 2 << 10, 3 + offset, offset, 200))
        got = rows(f.write())
        self.assertEqual((number(got[0], "lend.response_in"), number(got[1], "lend.response_to")), (2, 1))
        self.assertFalse([r for r in got[2:] if "lend.message.len" in r], "overlapping ones are no message")

    def test_1_damaged_packets(self):
        write_memory(TEMP / "memory.pcapng")
        good, rng = packets_of(TEMP / "kinds.pcapng") + packets_of(TEMP / "memory.pcapng"), random.Random(SEED)
        f = File(TEMP / "damaged.pcapng")
        for i in range(FUZZED):
            last = rng.randrange(len(good)) if i % 2 == 0 else min(last + 1, len(good) - 1)  # requests and their replies
            data = bytearray(good[last])
            start = data.index(b"\0\0\0\0\1") + 4 if rng.random() < 0.9 else 0  # mostly after the tags
            at = data.find(b"\x4c\2", start)
            if at >= 0 and i % 8:
                struct.pack_into("<I", data, at + 4, i // 2 + 1 << 10)  # a call of its own
            for _ in range(rng.choice((1, 1, 2, 5, 20))):
                data[rng.randrange(start, len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            if rng.random() < 0.2:
                del data[rng.randrange(start, len(data)):]
            if rng.random() < 0.7:  # so that the fields after the checksum are reached
                if 0 <= at and at + 48 <= len(data):
                    data[-16:] = struct.pack("<I12x", crc32c(data[at:-16]))
            f.add_raw(bytes(data))
        text = tshark("-2", "-r", f.write(), "-V")
        self.assertEqual(text.count("\nFrame ") + text.startswith("Frame "), FUZZED, f"LEND_SEED={SEED}")
        errors = set(re.findall("Lua Error: .*", text))
        self.assertFalse(errors, f"LEND_SEED={SEED}")
        self.assertGreater(text.count("Memory operation"), FUZZED // 20)


def kind_of(row):
    """The name of a datagram's kind; that of its frames if all are of one."""
    asks, answers = "lend.request.method" in row, "lend.reply.status" in row
    kind = KINDS[number(row, "lend.kind") - 1]
    return kind if kind != "CALLS" or asks == answers else "REQUEST" if asks else "REPLY"


def all_of(got, name):
    """The values of a field in all datagrams."""
    return [value for row in got for value in row.get(f"lend.{name}", [])]


def listen_at(carrier):
    return {"shm": f"shm:capture-{os.getpid()}", "udp": "udp:127.0.0.1:0", "dpdk:memif": "dpdk:memif@127.0.0.1:0"}[carrier]


class Ran(unittest.TestCase):
    """Runs of the built programs."""

    def check(self, got, carrier):
        """Properties of any capture without errors: complete, linked, nothing malformed."""
        kind = {name: [r for r in got if "lend.kind" in r and kind_of(r) == name] for name in KINDS}
        self.assertTrue(kind["CONNECT"] and kind["ACCEPT"])
        # Datagrams that are still in a memif client's rings are lost when it leaves.
        self.assertTrue(kind["BYE"] or carrier == "dpdk:memif")
        for r in (r for r in got if "lend.kind" in r):
            self.assertFalse([name for name in r if name.startswith("lend.expert.")], r)
            checked = one(r, "lend.capture.checked") == "1"
            self.assertEqual(r.get("lend.trailer.good"), None if checked else ["1"])
            self.assertEqual(checked, carrier != "udp")
        for name in ("REQUEST", "REPLY"):  # udp may retransmit one
            kind[name] = [r for r in kind[name] if "lend.repeated" not in r]
        for r in kind["REPLY"]:
            self.assertEqual(len(r.get("lend.response_to", [])), len(r["lend.reply.status"]), r)
        return kind

    def test_2_small_calls(self):
        for carrier, tool, size, *more in [(carrier, "lat", 100) for carrier in CARRIERS] + [("udp", "rate", 20, "--window", 16)]:
            with self.subTest(carrier=carrier, tool=tool):
                told = lend_json(tool, "--carrier", carrier, "--seconds", "0.001", "--count", 50, "--size", size, *more,
                                 "--capture", TEMP / f"{tool}-{carrier}.pcapng")
                files = sorted(TEMP.glob(f"{tool}-{carrier}*.pcapng"))
                self.assertEqual(len(files), 2, "one of each process")
                for path in files[:2 if carrier == "shm" else 1]:
                    kind = self.check(rows(path), carrier)
                    asked, answered = kind["REQUEST"], kind["REPLY"]
                    self.assertGreaterEqual(len(all_of(asked, "request.method")), told["calls"])
                    self.assertEqual(set(all_of(asked, "message.len")), {str(size)})
                    self.assertEqual(len(all_of(asked, "response_in")), len(all_of(asked, "request.method")))
                    self.assertEqual(sorted(all_of(answered, "message")), sorted(all_of(asked, "message")), "an echo")
                    for sent in asked, answered:
                        self.assertEqual(max(len(r["lend.message.len"]) for r in sent) > 1, tool == "rate", "calls share datagrams")

    def test_2_long_calls(self):
        for carrier in CARRIERS:
            with self.subTest(carrier=carrier):
                size = 100000 if carrier == "shm" else 300000  # there it is one datagram, of which the capture keeps this many bytes
                told = lend_json("bw", "--carrier", carrier, "--seconds", "0.001", "--count", 2, "--size", size, "--window", 1,
                                 "--capture", TEMP / f"bw-{carrier}.pcapng")
                # The caller's file: its name has a number because it was second. A server may be
                # stopped before it gets BYE.
                kind = self.check(rows(min(TEMP.glob(f"bw-{carrier}*.pcapng"))), carrier)
                whole = [r for r in kind["REQUEST"] if carrier == "shm" or "lend.message.fragments" in r]
                self.assertGreaterEqual(len(whole), told["calls"])
                for r in whole:
                    self.assertEqual((one(r, "lend.message.len"), len(one(r, "lend.message"))), (str(size), 2 * size))
                    self.assertEqual("lend.message.fragments" in r, carrier != "shm")
                for r in whole if carrier != "shm" else []:
                    self.assertEqual(number(r, "lend.message.fragments"), len(r["lend.message.fragment"]))

    def test_2_a_file_by_way_of_a_memory_node(self):
        content = random.Random(SEED).randbytes(300001)
        (TEMP / "file").write_bytes(content)
        for carrier in CARRIERS:
            with self.subTest(carrier=carrier), Node(listen_at(carrier), "--capture", TEMP / f"mn-{carrier}.pcapng") as node:
                ref = lend("put", TEMP / "file", "--node", node.address, "--capture", TEMP / f"put-{carrier}.pcapng").stdout.decode().strip()
                lend("get", ref, "-o", TEMP / "back", "--capture", TEMP / f"get-{carrier}.pcapng")
                lend("mem", "stat", "--node", node.address)
            self.assertEqual((TEMP / "back").read_bytes(), content)
            seen = {}
            for who in ("put", "get", "mn") if carrier == "udp" else ("mn",):
                got = rows(TEMP / f"{who}-{carrier}.pcapng")
                self.check(got, carrier)
                seen[who] = {op: r for r in got for op in r.get("lend.mem.op", [])}
                if who != "get":
                    put = seen[who]["2"]
                    self.assertEqual((one(put, "lend.mem.payload"), number(put, "lend.mem.len")), (content.hex(), len(content)))
                    self.assertEqual(number(put, "lend.message.len"), 32 + 16 + 8 + len(content))
                if who != "put":
                    self.assertIn(content.hex(), [r["lend.mem.payload"][0] for r in got if "lend.mem.payload" in r and "lend.response_to" in r])
                    self.assertEqual(number(seen[who]["3"], "lend.ref.root_len"), len(content))
            self.assertLessEqual({"1", "2", "3", "14"}, set(seen["mn"]), "HELLO, PUT, GET, STAT")

    def test_3_a_damaged_file(self):
        path = TEMP / "lat-udp.pcapng"
        data = bytearray(path.read_bytes())
        at = data.index(b"\x4c\2\x0d", data.index(b"lend_capture"))
        data[at + 60] ^= 1  # in the payload of the first request, which is in a frame
        (TEMP / "damaged-udp.pcapng").write_bytes(data)
        flagged = [r for r in rows(TEMP / "damaged-udp.pcapng", "-c", "200") if "lend.expert.checksum" in r]
        self.assertEqual([(r["lend.kind"], r["lend.trailer.good"]) for r in flagged], [(["13"], ["0"])])


def enum_of(header, name, prefix):
    """Names of an enum without prefix, by value."""
    body = re.search(r"enum " + name + r"\s*{(.*?)}", re.sub(r"/\*.*?\*/", "", (ROOT / header).read_text(), flags=re.S), re.S)[1]
    values, next_value = {}, 0
    for item in filter(None, (i.strip() for i in body.split(","))):
        key, _, value = (w.strip() for w in item.partition("="))
        next_value = int(value) if value.isdigit() else next_value
        values[next_value] = key[len(prefix):]
        next_value += 1
    return values


def struct_of(header, name):
    """Its fields, up to the end of the first struct within it; a `first` of 64 bits is another name of those before."""
    body = re.search(r"struct " + name + r" {(.*?)}(?!;\n\t+(?:uint64_t first|union))", re.sub(r"/\*.*?\*/", "", (ROOT / header).read_text(), flags=re.S), re.S)[1]
    found = []
    for bits, names in re.findall(r"uint(\d+)_t ([^;]+);", body):
        for key, _, n in re.findall(r"(\w+)(\[(\d+)\])?", names):
            if (bits, key) != ("64", "first"):
                found.append((key, int(bits) // 8 * int(n or 1)))
    return found


def nested_in(header, name):
    """The structs within a struct, in their order."""
    body = re.search(r"struct " + name + r" {(.*?)}", (ROOT / header).read_text(), re.S)[1]
    return re.findall(r"struct lend_pkt_(\w+) \w+;", body)


def layout_of(lua, prefix):
    bodies = re.findall(r'layout\("' + prefix + r'", ({{.*?}})\)', lua, re.S)
    return [(name, int(size)) for name, size in re.findall(r'{"(\w+)", (\d+)', "".join(bodies))]


def parts_of(lua, kind):
    """The layouts of a kind that are structs of their own, in their order."""
    parts = re.search(r"\[" + kind + r"\] = {(.*?)}", lua)[1]
    return [name.lower() for name in re.findall("COOKIE|TICKET|PARAMS", parts)]


class Drift(unittest.TestCase):
    """The dissector's tables against the C headers."""

    def test_values(self):
        values = {}
        for line in tshark("-G", "values").splitlines():
            if line.startswith("V\tlend."):
                _, name, value, text = line.split("\t")
                values.setdefault(name[5:], {})[int(value, 0)] = text
        kinds = enum_of("src/wire/pkt.h", "lend_pkt_kind", "LEND_PKT_")
        self.assertEqual(values["kind"], {k: v for k, v in kinds.items() if v != "KINDS"})
        for name, header, enum, prefix in (
                ("reply.status", "include/lend/rpc.h", "lend_status", "LEND_"), ("reply.ran.value", "include/lend/rpc.h", "lend_ran", "LEND_RAN_"),
                ("ack.state", "src/wire/pkt.h", "lend_pkt_state", "LEND_PKT_"), ("accept.zero_rtt", "src/wire/pkt.h", "lend_pkt_zero_rtt", "LEND_PKT_"),
                ("connect.pattern", "src/wire/pkt.h", "lend_pkt_pattern", "LEND_PATTERN_"),
                ("retry.reason", "src/wire/pkt.h", "lend_pkt_retry_reason", "LEND_RETRY_"), ("mem.op", "src/wire/memop.h", "lend_memop_kind", "LEND_MEMOP_"),
                ("mem.forgot", "src/wire/memop.h", "lend_memop_forgot", "LEND_FORGOT_"),
                ("terms.kind", "src/wire/memop.h", "lend_memterms_kind", "LEND_TERMS_"),
                ("note.kind", "src/stream/duplex.h", "lend_note_kind", "LEND_NOTE_")):
            want = {k: v for k, v in enum_of(header, enum, prefix).items() if v not in ("KINDS", "")}
            self.assertEqual(values[name], want, name)
        events = re.search(r"enum lend_capture_event {(.*?)};", (ROOT / "src/io/capture/capture.h").read_text(), re.S)[1]
        self.assertEqual([values["capture.event"][i] for i in range(5)], re.findall(r"LEND_CAPTURE_(\w+)", events))

    def test_layouts(self):
        lua = LUA.read_text()
        self.assertEqual(layout_of(lua, ""), struct_of("src/wire/pkt.h", "lend_pkt") + struct_of("src/wire/pkt.h", "lend_pkt_frame"))
        for prefix, name in (("request", "lend_pkt_request"), ("reply", "lend_pkt_reply"),
                             ("ack", "lend_pkt_ack"), ("seen", "lend_pkt_seen"), ("trailer", "lend_pkt_trailer"),
                             ("connect", "lend_pkt_connect"), ("cookie", "lend_pkt_cookie"), ("ticket", "lend_pkt_ticket"),
                             ("params", "lend_pkt_params"), ("accept", "lend_pkt_accept"), ("retry", "lend_pkt_retry"),
                             ("end", "lend_pkt_connect_end"), ("proof", "lend_pkt_proof")):
            self.assertEqual(layout_of(lua, prefix), struct_of("src/wire/pkt.h", name), name)
        self.assertEqual(layout_of(lua, "note"), struct_of("src/stream/duplex.h", "lend_note") + [("taken", 8)])
        for kind in "connect", "accept", "retry":
            self.assertEqual(parts_of(lua, kind.upper()), nested_in("src/wire/pkt.h", f"lend_pkt_{kind}"), kind)
        lead = re.search(r"LEND_CAPTURE_HEADER = (\d+)", (ROOT / "src/io/capture/capture.h").read_text())[1]
        self.assertEqual(sum(size for _, size in layout_of(lua, "capture")), int(lead))
        self.assertEqual(sum(size for _, size in layout_of(lua, "ref")), 64)
        self.assertEqual(re.findall(r'"(\w+)"', re.search(r"MEM_STATS = {(.*?)}", lua, re.S)[1]), STATS)
        numbers = re.search(r"local MAGIC, VERSION, TRAILER, MEM_METHOD, STREAM_METHOD = (\w+), (\w+), (\w+), (\w+), (\w+)", lua).groups()
        wire = (ROOT / "src/wire/pkt.h").read_text() + (ROOT / "src/wire/memop.h").read_text() + (ROOT / "src/stream/duplex.h").read_text()
        self.assertEqual(re.search(r"FRAMES_MAX, FRAME_ALIGN = (\d+), (\d+)", lua).groups(),
                         tuple(re.search(rf"LEND_PKT_{name} = (\d+)", wire)[1] for name in ("FRAMES_MAX", "FRAME_ALIGN")))
        for value, name in zip(numbers, ("LEND_PKT_MAGIC", "LEND_PKT_VERSION", None, "LEND_MEM_METHOD", "LEND_METHOD_STREAM")):
            if name:
                self.assertEqual(int(value, 0), int(re.search(rf"define {name}\s+(\w+?)u\b", wire)[1], 0), name)

    def test_operations(self):
        shapes = re.findall(r"\[LEND_MEMOP_(\w+)\] = (F_[^,]+),", (ROOT / "src/wire/memop.c").read_text())
        order = {"F_REF": "REF", "F_SPACE": "SPACE", "F_TERMS_FIRST": "TERM", "F_OFFSET": "OFFSET", "F_LEN": "LEN", "F_TERMS": "TERM",
                 "F_RIGHTS": "RIGHTS", "F_N": "COUNT", "F_TARGET": "TARGET", "F_PROOF": "JOIN"}
        want = {name: [order[f] for f in order if f in shape.replace(" ", "").split("|")] for name, shape in shapes}
        lua = re.search(r"local REQUESTS = {(.*?)}}", LUA.read_text(), re.S)[1] + "}"
        self.assertEqual({name: re.findall(r"\w+", body) for name, body in re.findall(r"(\w+) = {(.*?)}", lua)}, want)


class Whole(unittest.TestCase):
    def test_3_every_field_was_seen(self):
        self.assertGreater(len(ALL_FIELDS), 150)
        self.assertEqual(sorted(set(ALL_FIELDS) - SEEN_FIELDS), [], "fields that no crafted capture has")


if __name__ == "__main__":
    if not shutil.which("tshark"):
        print("not on this machine: tshark is not installed; scripts/deps.sh test brings it")
        sys.exit(77)
    ALL_FIELDS = fields_of_lua()
    CARRIERS = ["shm", "udp"] + ["dpdk:memif"] * (BUILD / "lend_io_dpdk.so").exists()
    other = None if sys.argv[2:] else subprocess.Popen([sys.executable, "-B", __file__, BUILD, ".Ran."])
    good = run_tests(sys.argv[2:] or (".Crafted.", ".Drift.", ".Whole."))
    sys.exit((other.wait() if other else 0) or not good)
