"""Captures made byte by byte from the tables of src/core/PROTOCOL.md and src/wire/memop.h, with
a known value in each field: capture.py passes them to Wireshark."""
import pathlib
import re
import struct

ROOT = pathlib.Path(__file__).resolve().parents[2]
KINDS = "CONNECT ACCEPT RESET BYE BYE_ACK PING REQUEST REPLY ACK PROBE CANCEL GONE CALLS RETRY PROOF RUNNING".split()
SERVED, ACKED = 0x08, 0x10
SENT, FULL, DEAD, RECEIVED, GONE = range(5)
MEM, STREAM = 0x4C454E44, 0x4C454E53
WITH_HEAD = 0x20


def crc_of_byte(crc):
    for _ in range(8):
        crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc


CRC = [crc_of_byte(i) for i in range(256)]


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def datagram(kind, body=b"", session=0, call=0, num=0, offset=0, length=0, flags=3, trailer=True, magic=0x4C):
    data = struct.pack("<BBBBIQQII", magic, 2, kind if isinstance(kind, int) else KINDS.index(kind) + 1, flags, call,
                       session, num, offset, length) + body
    return data + (struct.pack("<I12x", crc32c(data)) if trailer else b"")


def sealed(kind, session, num, epoch, text=b"ciphertext"):
    return datagram(kind, text + b"t" * 16, session, num=num | epoch << 56, flags=0x83, trailer=False)


class File:
    """A pcapng file as io/capture/capture.c writes them."""

    def __init__(self, path):
        self.path, self.packets = path, []
        self.bytes = self.block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
        self.bytes += self.block(1, struct.pack("<HHIHHB3xI", 252, 0, 0, 9, 1, 9, 0))  # nanoseconds

    @staticmethod
    def block(kind, body):
        body += bytes(-len(body) % 4)
        return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)

    def add(self, data, event=SENT, trailer=True, address=b"udp:10.0.0.2:7000", ip=True, kept=None, comment=None):
        lead = struct.pack(">HH12s", 12, 12, b"lend_capture")
        if ip:
            lead += struct.pack(">HHIHH4BHHIHH4BHHI", 24, 4, 3, 20, 4, 10, 0, 0, 1, 25, 4, 6000, 21, 4, 10, 0, 0, 2, 26, 4, 7000)
        lead += struct.pack(">HH", 0, 0)
        lead += struct.pack("<BBBBII", 1, event, 0 if trailer else 1, len(address), 3, 1) + address
        self.add_raw(lead + data, kept and len(lead) + kept, comment)

    def add_raw(self, data, kept=None, comment=None):
        self.packets.append(data)
        time, option = 10 ** 18 + len(self.packets), b""
        if comment:
            option = struct.pack("<HH", 1, len(comment)) + comment + bytes(-len(comment) % 4) + bytes(4)
        body = data[:kept]
        head = struct.pack("<IIIII", 0, time >> 32, time & 0xFFFFFFFF, len(body), len(data))
        self.bytes += self.block(6, head + body + bytes(-len(body) % 4) + option)

    def write(self):
        self.path.write_bytes(self.bytes)
        return self.path


PARAMS = struct.pack("<16sIIIIII", bytes(range(16)), 1400, 65536, 1 << 24, 0, 128, 0)
COOKIE = struct.pack("<Q16s", 54321, b"c" * 16)
TICKET = struct.pack("<QQQ16s", 12345, 0, 99, b"m" * 16)


def connect(pattern=0, key_id=0, rest=b"", tag=b"", mac1=bytes(16)):
    return struct.pack("<QQBBBBIQ32s", 77, 0xC1, pattern, 0, 0, 0, 0, key_id, b"e" * 32) + COOKIE + TICKET + PARAMS + rest + tag.ljust(16, b"\0") + mac1


def accept(pattern=0, early=0, tag=b""):
    return (struct.pack("<QQBBBBIQ32s", 77, 0x51, pattern, 0, 0, early, 0, 0, b"e" * 32) + PARAMS + TICKET +
            struct.pack("<32s16s", b"", tag))


RETRY = struct.pack("<QBBHI", 77, 1, 0, 0, 250) + COOKIE
REF = struct.pack("<IIIBBH6s6s5s5s5s5s16s", 0xABCD, 0xEF01, 12, 1, 2, 7 | 3 << 5 | 1 << 10, (99).to_bytes(6, "little"),
                  (8192).to_bytes(6, "little"), (4096).to_bytes(5, "little"), (1000).to_bytes(5, "little"),
                  (10).to_bytes(5, "little"), (20).to_bytes(5, "little"), bytes(range(16)))
BOUND = struct.pack("<IHHIBBH6s5sB20x16s", 0xABCD, 0xEF01, 9, 12, 2, 1 << 4, 7, (99).to_bytes(6, "little"),
                    (8192).to_bytes(5, "little"), 0xAB, bytes(range(16)))
SPACE = struct.pack("<IIQ", 21, 22, 23)
TERMS = struct.pack("<B3xIQ", 2, 5, 10 ** 9)
OFFSET, LEN = struct.pack("<Q", 4096), struct.pack("<Q", 3)
VIEW = bytes(range(16)) + struct.pack("<QIIIIII", 300, 7, 2, 40, 8, 0, 3)
STATS = [name for name in re.findall(r"X\((\w+), \"", (ROOT / "src/wire/memop.h").read_text())]
OPS = [  # name, fields and payload, the reply
    ("HELLO", bytes(range(16)), struct.pack("<IIIHBBQQ16sII", 0xABCD, 0xEF01, 4096, 1024, 0, 1, 10 ** 10, 9, bytes(range(16)), 7, 0) + b"shm:mn0"),
    ("PUT", TERMS + LEN + b"abc", REF),
    ("GET", REF + OFFSET + LEN, b"xyz"),
    ("ALLOC", LEN, SPACE),
    ("READ", SPACE + OFFSET + LEN, b"uvw"),
    ("WRITE", SPACE + OFFSET + LEN + b"def", b""),
    ("SEAL", SPACE + OFFSET + LEN + TERMS, REF),
    ("MAP", REF, SPACE + struct.pack("<Q", 1 << 33)),
    ("ADOPT", REF, b""),
    ("GRANT", REF + TERMS, b""),
    ("RELEASE", struct.pack("<II", 2, 0) + REF + REF, struct.pack("<II", 1, 1)),
    ("NARROW", REF + OFFSET + LEN + struct.pack("<II", 3, 0), REF),
    ("FREE", SPACE, b""),
    ("STAT", b"", struct.pack("<II", len(STATS), 0) + b"".join(struct.pack("<Q", 1000 + i) for i in range(len(STATS)))),
    ("FORGET", struct.pack("<Q", 55), struct.pack("<B7x", 1)),
    ("RENEW", b"", b""),
    ("BYE_CLIENT", b"", b""),
    ("POOL_MAP", REF + struct.pack("<Q", 55), SPACE + struct.pack("<Q", 1 << 33) + VIEW),
    ("POOL_VIEW", SPACE + OFFSET + struct.pack("<Q", 55), VIEW),
    ("POOL_DROP", SPACE + struct.pack("<Q", 55), b""),
]
NOTE = struct.pack("<QQBB6x", 5, 2, 0, 1)


def message_head(*entries):
    """A message head of (kind, key, value)."""
    body = b""
    for kind, key, value in entries:
        entry = struct.pack("<BBH", kind, len(key), len(value)) + key + b"\0" + value + b"\0"
        body += entry + bytes(-len(entry) % 4)
    return struct.pack("<HH", 4 + len(body), len(entries)) + body


SEEN = struct.pack("<QQII", 10, 0b101100000, 250, 4)


def operation(op, rest):
    return struct.pack("<BBHIQQII", op, 1, 5 if op == 7 else 0, 3, 44, 40, 9, 0) + rest


def request_block(method):
    return struct.pack("<III", method, 250000, 65536)


def reply_block(acked, status=0):
    return struct.pack("<BB2xIQ", status, 1 | 3 << 2, 1234, acked)


def request(method, payload, call, num, **more):
    return datagram("REQUEST", request_block(method) + payload, 0x51, call, num, length=len(payload), **more)


def reply(payload, call, num, acked, status=0, **more):
    return datagram("REPLY", reply_block(acked, status) + payload, 0xC1, call, num, length=len(payload), flags=3 | SERVED, **more)


def frame(call, block, payload, flags=3, zero=0):
    data = struct.pack("<IHBB16s", call, len(payload), flags, zero, block) + payload
    return data + bytes(-len(data) % 8)


def calls(session, num, *frames, report=b"", **more):
    body = b"".join(frames)
    return datagram("CALLS", report + body, session, num=num, flags=3 | (ACKED if report else 0), **{"length": len(body), **more})


def calls_in(data):
    """The call, flags, block and payload of each request and reply in a datagram that has a trailer."""
    kind, at, found = KINDS[data[2] - 1], 32, []
    seen = len(SEEN) if data[3] & ACKED else 0
    if kind in ("REQUEST", "REPLY"):
        at += 12 if kind == "REQUEST" else 16
        return [(data[4:8], data[3], data[32:at], data[at + seen:-16])]
    at += seen
    while kind == "CALLS" and at < len(data) - 16:
        call, size, flags = struct.unpack_from("<4sHB", data, at)
        if any(call):  # else it was withdrawn
            found.append((call, flags, data[at + 8:at + 24], data[at + 24:at + 24 + size]))
        at += 24 + size + -size % 8
    return found


def write_kinds(path):
    """Every kind once, a call of one fragment and one of three; frames are counted from 1."""
    f, total = File(path), bytes(range(250))
    head = struct.pack("<III", 7, 0xFFFFFFFF, 0)
    f.add(datagram("CONNECT", connect(), num=1))
    f.add(datagram("ACCEPT", accept(), 0xC1, num=1), RECEIVED)
    f.add(request(7, b"0123456789", 1 << 10 | 5, 2))
    f.add(reply(b"yes", 1 << 10 | 5, 10, 2), RECEIVED)
    f.add(datagram("REQUEST", head + SEEN + total[:100], 0x51, 2 << 10, 3, 0, 250, flags=3 | ACKED))
    f.add(datagram("REQUEST", head + total[:100], 0x51, 2 << 10, 4, 0, 250))
    f.add(datagram("REQUEST", head + total[200:], 0x51, 2 << 10, 5, 200, 250), FULL, comment=b"not sent: the carrier was full")
    f.add(datagram("REQUEST", head + total[200:], 0x51, 2 << 10, 5, 200, 250))
    f.add(datagram("REQUEST", head + total[100:200], 0x51, 2 << 10, 6, 100, 250))
    f.add(datagram("ACK", struct.pack("<II", 200, 65000) + SEEN, 0xC1, 2 << 10, 11, 1, 7, flags=3 | SERVED), RECEIVED)
    f.add(datagram("PROBE", struct.pack("<II", 0, 100) + SEEN, 0x51, 2 << 10, 7, 2, 0))
    f.add(datagram("CANCEL", b"", 0x51, 2 << 10, 8))
    f.add(datagram("GONE", b"", 0xC1, 2 << 10, 12, flags=SERVED), RECEIVED)
    f.add(datagram("PING", SEEN, 0x51, num=9, flags=ACKED))
    f.add(datagram("BYE", b"", 0x51, num=10))
    f.add(datagram("BYE_ACK", b"", 0xC1, num=13), RECEIVED)
    f.add(datagram("RESET", b"", 0x99), DEAD, comment=b"not sent: the peer is gone")
    f.add(b"", GONE, address=b"shm:shop", ip=False)
    f.add(request(8, b"", 3 << 10, 11, trailer=False), trailer=False, address=b"", ip=False)
    f.add(datagram("RETRY", RETRY, 0xC1), RECEIVED)
    f.add(datagram("CONNECT", connect(1, 0xAB), 0, 0, 1))
    f.add(datagram("ACCEPT", accept(1, 0, b"g" * 16), 0xC1, 0, 1), RECEIVED)
    f.add(datagram("PROOF", b"p" * 16, 0x51, 0, 2))
    f.add(datagram("CONNECT", connect(rest=head + b"early"), 0, 4 << 10, 1, 0, 5))
    f.add(datagram("ACCEPT", accept(early=3), 0xC1, 0, 1), RECEIVED)
    f.add(calls(0x51, 20, frame(10 << 10, request_block(7), b"first"), frame(0, request_block(7), b"withdrawn"),
                frame(11 << 10 | 2, request_block(MEM), operation(4, LEN), flags=1)))
    f.add(calls(0xC1, 21, frame(10 << 10, reply_block(20), b"answer", flags=3 | SERVED),
                frame(11 << 10 | 2, reply_block(20), SPACE, flags=1 | SERVED), report=SEEN), RECEIVED)
    f.add(calls(0x51, 22, frame(10 << 10, request_block(7), b"first"), frame(12 << 10, reply_block(19, 8), b"", flags=3 | SERVED)))
    f.add(calls(0x51, 23, frame(13 << 10, request_block(MEM), operation(4, LEN))))
    asked, told = message_head((1, b"", b"/shop.Cart/Add"), (5, b"trace-bin", b"\1\2")), message_head((3, b"", b"no stock"))
    f.add(datagram("RUNNING", struct.pack("<16Q", 1 << 13, *[0] * 15) + SEEN, 0xC1, num=14), RECEIVED)
    f.add(request(7, asked + b"two pears", 14 << 10, 24, flags=3 | WITH_HEAD))
    f.add(datagram("REPLY", reply_block(24, 9) + told, 0xC1, 14 << 10, 25, length=len(told), flags=3 | SERVED | WITH_HEAD), RECEIVED)
    f.add(request(STREAM, NOTE + b"news", 15 << 10, 26))
    f.add(reply(struct.pack("<Q", 1), 15 << 10, 27, 26), RECEIVED)
    f.add(request(MEM, operation(8, BOUND), 16 << 10, 28))
    f.add(sealed("CALLS", 0xC1, num=5, epoch=3))
    f.add(sealed("PING", 0x51, num=6, epoch=0, text=b""), trailer=False)
    f.add(datagram("CONNECT", connect(2, 0xAB, rest=b"sealed call", tag=b"c" * 16, mac1=b"1" * 16), 0, 5 << 10, 1))
    f.add(datagram("ACCEPT", accept(2, 0, b"g" * 16), 0xC1, 0, 1), RECEIVED)
    return f.write()


def write_memory(path):
    f, num = File(path), 1
    f.add(datagram("ACCEPT", accept(), 0xC1, num=1), RECEIVED)
    for op, (_, fields, answer) in enumerate(OPS, 1):
        num += 1
        f.add(request(MEM, operation(op, fields), op << 10, num))
        f.add(reply(answer, op << 10, num, num), RECEIVED)
    f.add(request(MEM, operation(4, LEN), 30 << 10, 30))
    f.add(reply(b"", 30 << 10, 30, 30, status=8), RECEIVED)
    return f.write()


def write_wrong(path):
    """Datagrams that the receiver drops, and the expert info that says so."""
    f, good = File(path), request(7, b"0123456789", 1 << 10, 2)
    framed = frame(8 << 10, request_block(7), b"framed")
    wrong = [("short", good[:20]), ("short", datagram("REQUEST", b"ab")), ("short", datagram("ACK", bytes(20))),
             ("foreign", datagram("PING", magic=0x4D)), ("kind", datagram(99)), ("kind", datagram("PING", flags=0x40)),
             ("checksum", good[:-20] + b"!" + good[-19:]), ("checksum", good[:-16] + bytes(4) + good[-12:]),
             ("kind", sealed("CONNECT", 0, 1, 0)), ("short", sealed("PING", 1, 2, 0)[:-20]), ("length", datagram("BYE", b"x")), ("length", datagram("REQUEST", bytes(12) + b"long", length=3)),
             ("length", datagram("REQUEST", bytes(12), length=3)),
             ("length", calls(0x51, 7, framed, length=24)), ("length", calls(0x51, 7, framed, offset=8)),
             ("length", calls(0x51, 7, framed[:-8])), ("length", calls(0x51, 7, framed, framed[:16])),
             ("length", calls(0x51, 7, frame(9 << 10, b"", b"", flags=0x20))), ("length", calls(0x51, 7, frame(9 << 10, b"", b"", zero=1))),
             ("length", calls(0x51, 7, *[frame(0, b"", b"")] * 65)),
             ("head", request(7, b"\4\0\1\0text", 12 << 10, 3, flags=3 | WITH_HEAD)), ("head", request(7, b"\4\0", 13 << 10, 4, flags=3 | WITH_HEAD)),
             ("head", request(7, message_head((1, b"", b"name"))[:-4], 14 << 10, 5, flags=3 | WITH_HEAD)),
             ("note", request(STREAM, NOTE[:-1], 15 << 10, 6)), ("note", request(STREAM, NOTE[:16] + bytes([4]) + NOTE[17:], 16 << 10, 7)),
             ("operation", request(MEM, operation(99, b""), 2 << 10, 3)), ("operation", request(MEM, b"tiny", 3 << 10, 4)),
             ("operation", request(MEM, operation(3, REF[:40]), 4 << 10, 5)),
             ("operation", request(MEM, operation(11, struct.pack("<II", 3, 0) + REF), 5 << 10, 6))]
    for _, data in wrong:
        f.add(data)
    f.add(good, kept=50)
    f.add(good, kept=10)
    f.add(calls(0x51, 8, frame(9 << 10, request_block(7), b"captured"), frame(10 << 10, request_block(7), b"cut")), kept=32 + 32 + 24)
    return f.write(), [name for name, _ in wrong] + ["cut"] * 3


def packets_of(path):
    """The packets of a capture, as bytes."""
    data, at, packets = path.read_bytes(), 0, []
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        if kind == 6:
            packets.append(data[at + 28:at + 28 + struct.unpack_from("<I", data, at + 20)[0]])
        at += size
    return packets


def ip_packet(data, port=31850):
    """The same datagram as tcpdump would see it: link type 101, raw IP."""
    udp = struct.pack(">HHHH", 6000, port, 8 + len(data), 0) + data
    return struct.pack(">BBHHHBBH4B4B", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, 10, 0, 0, 1, 10, 0, 0, 2) + udp


def write_ip(path, datagrams):
    out = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 101)
    for i, data in enumerate(map(ip_packet, datagrams)):
        out += struct.pack("<IIII", 1, i, len(data), len(data)) + data
    path.write_bytes(out)
    return path
